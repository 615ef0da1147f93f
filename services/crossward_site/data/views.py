"""What a site answers about its data. All of it stays with the steward."""

from __future__ import annotations

import json
from typing import Any, Literal, Self

from crossward.privacy.budget import Cost
from crossward.protocol.constants import FilterKind
from crossward.protocol.ledger.rules import Balance
from crossward.protocol.times import Time, moment
from crossward_service.http.views import View
from crossward_site.data.jobs import Job
from crossward_site.data.service import Dataset
from crossward_site.data.tables import JobKind, JobState


class PlaceView(View):
    """Where data came from, without what opens them."""

    kind: Literal["csv", "parquet", "sql"]
    where: str


class CellView(View):
    """What one cell has spent, in how many releases."""

    epsilon_spent: float
    releases: int


class BudgetView(View):
    """What each person of the site may lose for life: spent is what the dearest cell has spent, left what it still has.

    It is `final` once anything was charged; until then another may be chosen.
    """

    filter: FilterKind
    epsilon: float
    delta: float
    epsilon_spent: float
    delta_spent: float
    epsilon_left: float
    final: bool
    cells: list[CellView]

    @classmethod
    def of(cls, balance: Balance) -> Self:
        """What the ledger says."""
        opened = balance.opened
        budget, spent = Cost(opened.nano_epsilon, opened.atto_delta), balance.spend
        return cls(
            filter=opened.filter,
            epsilon=budget.epsilon,
            delta=budget.delta,
            epsilon_spent=Cost(spent.nano_epsilon).epsilon,
            delta_spent=Cost(0, spent.atto_delta).delta,
            epsilon_left=balance.left(range(opened.cells)),
            final=bool(spent.releases),
            cells=[
                CellView(epsilon_spent=Cost(cell.nano_epsilon).epsilon, releases=cell.releases)
                for cell in balance.spends
            ],
        )


class DatasetView(View):
    """A dataset as its current version has it."""

    name: str
    version: int
    place: PlaceView
    rows: int
    persons: int
    records_per_person: int

    @classmethod
    def of(cls, dataset: Dataset) -> Self:
        """A dataset."""
        return cls(
            name=dataset.name,
            version=dataset.version,
            place=PlaceView(kind=dataset.place.kind, where=dataset.place.where),
            rows=dataset.report.rows,
            persons=dataset.report.persons,
            records_per_person=dataset.records_per_person,
        )


class DatasetsView(View):
    """Every dataset, and the one budget of everyone in them; none before the first was opened."""

    datasets: list[DatasetView]
    budget: BudgetView | None


class JobView(View):
    """A job: how far it has come and, once it is done, what it gave."""

    number: int
    kind: JobKind
    state: JobState
    dataset: str | None
    progress: float
    step: str
    result: Any
    problem: str
    cause: str
    fix: str
    asked: Time
    updated: Time

    @classmethod
    def of(cls, job: Job) -> Self:
        """A job, without what was asked: it may name persons."""
        return cls(
            number=job.number,
            kind=job.kind,
            state=job.state,
            dataset=job.dataset,
            progress=job.progress,
            step=job.step,
            result=None if job.result is None else json.loads(job.result),
            problem=job.problem,
            cause=job.cause,
            fix=job.fix,
            asked=moment(job.asked),
            updated=moment(job.updated),
        )


class JobsView(View):
    """The last jobs, the newest first; what one gave, it says itself."""

    jobs: list[JobView]
