"""/datasets: connect data, register new versions, read the local report."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from crossward.errors import NotFound
from crossward.privacy.budget import Budget
from crossward.study import Study
from crossward.values import NotNegative, Positive, Slug
from crossward_service.db.engine import read
from crossward_site import tasks
from crossward_site.api.access import OpenSite, SiteRunner
from crossward_site.api.views import DatasetsView, OpenedView, ReportView
from crossward_site.site import Site
from crossward_site.status import dataset_of
from crossward_site.vault import DataMap, Dataset, Place, Vault

router = APIRouter(tags=["datasets"])

StudyText = Annotated[str, Field(max_length=1_000_000)]


class NewVersion(BaseModel):
    """Where the data are now, and how they read; what is left out stays as it was."""

    model_config = ConfigDict(extra="forbid")

    place: Place | None = None
    mapping: DataMap | None = None
    study: StudyText | None = None


class NewDataset(BaseModel):
    """A dataset to open: where it lies, how it reads, and the budget it has for good.

    `study`: a study file in YAML that the data are checked against.
    """

    model_config = ConfigDict(extra="forbid")

    name: Slug
    place: Place
    mapping: DataMap
    epsilon: Positive
    delta: NotNegative = 0.0
    filter: Literal["basic", "zcdp"] = "basic"
    records_per_person: Annotated[int, Field(ge=1, le=100)] = 1
    study: StudyText | None = None


@router.get("/datasets", response_model=DatasetsView)
def get_datasets(site: OpenSite) -> dict[str, Any]:
    """Every dataset, with what it has spent and has left."""
    return {"datasets": [_shown(site, dataset) for dataset in Vault(site).datasets()]}


@router.post("/datasets", status_code=201, response_model=OpenedView)
def open_dataset(site: OpenSite, runner: SiteRunner, new: NewDataset) -> dict[str, Any]:
    """Open a dataset: read it once, cut it into cells, fix its budget."""
    dataset = Vault(site).connect(
        new.name,
        new.place,
        new.mapping,
        Budget.of(new.epsilon, new.delta),
        rule=new.filter,
        records_per_person=new.records_per_person,
        study=_study(new.study),
    )
    runner.wake()
    return _shown(site, dataset) | {"report": dataset.report}


@router.post("/datasets/{name}/versions", status_code=201, response_model=OpenedView)
def add_version(site: OpenSite, name: Slug, new: NewVersion) -> dict[str, Any]:
    """Register the data as they are now: persons keep their slots and cells their spend."""
    dataset = Vault(site).add_version(name, new.place, new.mapping, _study(new.study))
    return _shown(site, dataset) | {"report": dataset.report}


@router.get("/datasets/{name}/report", response_model=ReportView, response_model_exclude_unset=True)
def get_report(site: OpenSite, name: Slug, study: Annotated[Slug | None, Query()] = None) -> dict[str, Any]:
    """Rows, missing and clipped; for a study the site has a task of, how the data fit it now. It stays here."""
    return Vault(site).report(name, None if study is None else _known(site, study))


def _shown(site: Site, dataset: Dataset) -> dict[str, Any]:
    return dataset_of(dataset, Vault(site).balance(dataset.name))


def _study(text: str | None) -> Study | None:
    return None if text is None else Study.from_yaml(text)


def _known(site: Site, study: str) -> Study:
    with read(site.engine) as connection:
        for task in tasks.listed(connection):
            if task.study_id == study:
                return task.study
    raise NotFound(f"This site has no task of a study {study!r}.", "Give the study's file with the data instead.")
