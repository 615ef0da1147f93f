"""What a site answers about its datasets. All of it stays with the steward."""

from __future__ import annotations

from typing import Any, Literal, Self

from crossward.privacy.budget import Cost
from crossward.protocol.constants import FilterKind
from crossward.protocol.ledger.rules import Balance
from crossward_service.http.views import View
from crossward_site.data.report import ReportView
from crossward_site.data.service import Dataset


class PlaceView(View):
    """Where data lie, without what opens them."""

    kind: Literal["csv", "parquet", "sql"]
    where: str


class CellView(View):
    """What one cell has spent, in how many releases."""

    epsilon_spent: float
    releases: int


class DatasetView(View):
    """A dataset with its budget: spent is what the dearest cell has spent, left what it could still pay at once."""

    name: str
    version: int
    place: PlaceView
    rows: int
    persons: int
    records_per_person: int
    filter: FilterKind
    epsilon: float
    delta: float
    epsilon_spent: float
    delta_spent: float
    epsilon_left: float
    cells: list[CellView]

    @classmethod
    def of(cls, dataset: Dataset, balance: Balance, **more: Any) -> Self:
        """A dataset with what its ledger says."""
        opened = balance.opened
        budget = Cost(opened.nano_epsilon, opened.atto_delta)
        spent = Cost(balance.spend.nano_epsilon, balance.spend.atto_delta)
        return cls(
            name=dataset.name,
            version=dataset.version,
            place=PlaceView(kind=dataset.place.kind, where=dataset.place.where),
            rows=dataset.report.rows,
            persons=dataset.report.persons,
            records_per_person=dataset.records_per_person,
            filter=opened.filter,
            epsilon=budget.epsilon,
            delta=budget.delta,
            epsilon_spent=spent.epsilon,
            delta_spent=spent.delta,
            epsilon_left=balance.left(range(opened.cells)),
            cells=[
                CellView(epsilon_spent=Cost(cell.nano_epsilon).epsilon, releases=cell.releases)
                for cell in balance.spends
            ],
            **more,
        )


class OpenedView(DatasetView):
    """A dataset as it was just read, with the report on its records."""

    report: ReportView


class DatasetsView(View):
    """Every dataset."""

    datasets: list[DatasetView]
