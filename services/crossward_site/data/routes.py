"""/datasets: connect data, register new versions, read the local report."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from crossward.privacy.budget import Budget
from crossward.protocol.constants import FilterKind
from crossward.study import Study
from crossward.values import NotNegative, Positive, Slug
from crossward_service.db.engine import read
from crossward_service.http.views import Form
from crossward_site.access import OpenSite, SiteRunner
from crossward_site.data.mapping import DataMap
from crossward_site.data.places import Place
from crossward_site.data.report import ReportView
from crossward_site.data.service import Dataset, Vault, load_balance, load_datasets
from crossward_site.data.views import DatasetsView, DatasetView, OpenedView
from crossward_site.site import Site
from crossward_site.tasks import service as tasks

router = APIRouter(tags=["datasets"])

StudyText = Annotated[str, Field(max_length=1_000_000)]


class NewVersion(Form):
    """Where the data are now, and how they read; what is left out stays as it was."""

    place: Place | None = None
    mapping: DataMap | None = None
    study: StudyText | None = None


class NewDataset(Form):
    """A dataset to open: where it lies, how it reads, and the budget it has for good.

    `study`: a study file in YAML that the data are checked against.
    """

    name: Slug
    place: Place
    mapping: DataMap
    epsilon: Positive
    delta: NotNegative = 0.0
    filter: FilterKind = FilterKind.BASIC
    records_per_person: Annotated[int, Field(ge=1, le=100)] = 1
    study: StudyText | None = None


@router.get("/datasets")
def get_datasets(site: OpenSite) -> DatasetsView:
    """Every dataset, with what it has spent and has left."""
    with read(site.engine) as connection:
        known = [
            DatasetView.of(dataset, load_balance(site, connection, dataset.name))
            for dataset in load_datasets(connection)
        ]
    return DatasetsView(datasets=known)


@router.post("/datasets", status_code=201)
def open_dataset(site: OpenSite, runner: SiteRunner, new: NewDataset) -> OpenedView:
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
    return _opened(site, dataset)


@router.post("/datasets/{name}/versions", status_code=201)
def add_version(site: OpenSite, name: Slug, new: NewVersion) -> OpenedView:
    """Register the data as they are now: persons keep their seats and cells their spend."""
    return _opened(site, Vault(site).add_version(name, new.place, new.mapping, _study(new.study)))


@router.get("/datasets/{name}/report")
def get_report(site: OpenSite, name: Slug, study: Annotated[Slug | None, Query()] = None) -> ReportView:
    """Rows, missing and clipped; for a study the site has a task of, how the data fit it now. It stays here."""
    return Vault(site).report(name, None if study is None else tasks.known_study(site, study))


def _opened(site: Site, dataset: Dataset) -> OpenedView:
    vault = Vault(site)
    return OpenedView.of(dataset, vault.balance(dataset.name), report=vault.report(dataset.name))


def _study(text: str | None) -> Study | None:
    return None if text is None else Study.from_yaml(text)
