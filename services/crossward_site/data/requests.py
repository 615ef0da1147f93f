"""What a steward may ask of the vault, as a form that is written down, and what is then done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pyarrow as pa
from pydantic import Field
from sqlalchemy import Connection

from crossward.privacy.budget import Budget
from crossward.protocol.constants import FilterKind
from crossward.study import Study
from crossward.values import NotNegative, Positive, Slug
from crossward_connector.tables import Table
from crossward_service.http.views import Form
from crossward_site.coordinator import Coordinator
from crossward_site.data import seating
from crossward_site.data.checks import MOST_RECORDS
from crossward_site.data.intake import Progress, Told
from crossward_site.data.jobs import Report, Work
from crossward_site.data.mapping import DataMap
from crossward_site.data.places import Place
from crossward_site.data.service import Dataset, Ending, Vault, report_of, tidy
from crossward_site.data.survey import survey
from crossward_site.data.tables import JobKind
from crossward_site.ledger.service import sync_if_joined
from crossward_site.site import Site
from crossward_site.tasks import service as tasks

StudyText = Annotated[str, Field(max_length=1_000_000)]
RecordsPerPerson = Annotated[int, Field(ge=1, le=MOST_RECORDS)]
Person = Annotated[str, Field(min_length=1, max_length=1000)]
MOST_PERSONS = 10_000


class Check(Form):
    """Data to look at: where they lie, how they read, and a study file in YAML that they should fit."""

    place: Place
    mapping: DataMap
    records_per_person: RecordsPerPerson = 1
    study: StudyText | None = None


class Open(Check):
    """A dataset to open. `epsilon` is what each person of the site may lose for life: the first dataset brings it."""

    name: Slug
    epsilon: Positive | None = None
    delta: NotNegative = 0.0
    filter: FilterKind = FilterKind.BASIC


class Refresh(Form):
    """Where the data are now, and how they read; what is left out stays as it was."""

    place: Place | None = None
    mapping: DataMap | None = None
    study: StudyText | None = None


class NamedRefresh(Refresh):
    """A new version of this dataset."""

    name: Slug


class Fit(Form):
    """A study, by its id."""

    study: Slug


class NamedFit(Fit):
    """This dataset, for a study."""

    name: Slug


class Named(Form):
    """A dataset."""

    name: Slug


class Undo(Named):
    """A dataset whose last version, or all of it, is taken back."""

    whole: bool = False


class Erase(Form):
    """Persons, by the ids that the hospital's tables use."""

    persons: Annotated[list[Person], Field(min_length=1, max_length=MOST_PERSONS, fail_fast=True)]


class Nothing(Form):
    """There is nothing to say."""


def _check(site: Site, request: dict[str, Any], report: Report) -> Any:
    asked = Check.model_validate(request)
    told = Told(report)
    told(0.0, "reading")
    with site.connectors.open(asked.place, None, lenient=True, pulse=told.pulse) as table:
        study, most = _study(asked.study), asked.records_per_person
        found = survey(_Heard(table, told), asked.mapping, study, most=most, pulse=told.pulse)
    return found.model_dump(mode="json")


class _Heard:
    """A table whose reading is reported."""

    def __init__(self, table: Table, report: Progress) -> None:
        self.where, self.form, self.faults, self.progress = table.where, table.form, table.faults, 0.0
        self._table, self._report = table, report

    def line(self, row: int) -> str:
        """Where a row stands, in words."""
        return self._table.line(row)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The batches of the table."""
        rows = 0
        for batch in self._table.batches():
            yield batch
            rows += batch.num_rows
            self.progress = self._table.progress
            self._report(self.progress, f"{rows:,} rows read")


def _open(site: Site, request: dict[str, Any], report: Report) -> Any:
    asked = Open.model_validate(request)
    budget = None if asked.epsilon is None else Budget.of(asked.epsilon, asked.delta)
    dataset = Vault(site).open(
        asked.name,
        asked.place,
        asked.mapping,
        budget,
        rule=asked.filter,
        records_per_person=asked.records_per_person,
        study=_study(asked.study),
        progress=report,
        ending=_ending(report),
    )
    return _registered(dataset)


def _refresh(site: Site, request: dict[str, Any], report: Report) -> Any:
    asked = NamedRefresh.model_validate(request)
    study, ending = _study(asked.study), _ending(report)
    return _registered(Vault(site).refresh(asked.name, asked.place, asked.mapping, study, report, ending))


def _fit(site: Site, request: dict[str, Any], report: Report) -> Any:
    asked = NamedFit.model_validate(request)
    return Vault(site).report(asked.name, tasks.known_study(site, asked.study), report).model_dump(mode="json")


def _undo(site: Site, request: dict[str, Any], report: Report) -> Any:
    def undone(before: Dataset | None) -> Any:
        return {"version": None if before is None else before.version}

    asked = Undo.model_validate(request)

    def ending(connection: Connection, before: Dataset | None) -> None:
        report.end(connection, undone(before))

    return undone(Vault(site).undo(asked.name, ending, whole=asked.whole))


def _erase(site: Site, request: dict[str, Any], report: Report) -> Any:
    vault, persons = Vault(site), Erase.model_validate(request).persons
    return {"rows": vault.erase(persons, report), "strangers": vault.strangers(persons)}


def _recover(site: Site, request: dict[str, Any], report: Report) -> Any:
    line = seating.recover(site, lambda connection, line: report.end(connection, {"line": line}))
    tidy(site)
    return {"line": line}


def _ending(report: Report) -> Ending:
    """The job ends in the transaction that writes its version down: what was done is never done again."""
    return lambda connection, dataset: report.end(connection, None if dataset is None else _registered(dataset))


def _registered(dataset: Dataset) -> Any:
    return report_of(dataset).model_dump(mode="json")


def _study(text: str | None) -> Study | None:
    return None if text is None else Study.from_yaml(text)


WORKS: dict[JobKind, Work] = {
    JobKind.CHECK: _check,
    JobKind.OPEN: _open,
    JobKind.REFRESH: _refresh,
    JobKind.FIT: _fit,
    JobKind.UNDO: _undo,
    JobKind.ERASE: _erase,
    JobKind.RECOVER: _recover,
}
"""What is done, once it may be."""

WRITING = (JobKind.OPEN, JobKind.REFRESH, JobKind.UNDO, JobKind.RECOVER)
"""Jobs that write lines of the ledger."""


def works(coordinator: Callable[[], Coordinator]) -> dict[JobKind, Work]:
    """What each kind of job does; those that write the ledger first see that it is the mirror's."""
    return WORKS | {kind: _in_step(WORKS[kind], coordinator) for kind in WRITING}


def _in_step(work: Work, coordinator: Callable[[], Coordinator]) -> Work:
    def done(site: Site, request: dict[str, Any], report: Report) -> Any:
        report(0.0, "asking the mirror")
        sync_if_joined(site, coordinator)
        return work(site, request, report)

    return done
