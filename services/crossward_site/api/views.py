"""What a site answers, as documents. Times are seconds since 1970 in UTC.

The routes give plain values, and these say what is in them: a value that is not named here would still be sent.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class View(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(extra="allow")


class HeadView(View):
    """Where a ledger ends."""

    sequence: int
    hash: str


class IdentityView(View):
    """A site that has joined: who it is, the key it signs with, and the key it checks receipts with."""

    party: str
    role: str
    key_id: str
    public_key: str
    coordinator: str
    coordinator_key: str


class PlaceView(View):
    """Where data lie, without what opens them."""

    kind: str
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
    filter: str
    epsilon: float
    delta: float
    epsilon_spent: float
    delta_spent: float
    epsilon_left: float
    cells: list[CellView]


class OpenedView(DatasetView):
    """A dataset as it was just read, with the report on its records, which stays here."""

    report: dict[str, Any]


class DatasetsView(View):
    """Every dataset."""

    datasets: list[DatasetView]


class ReportView(View):
    """Rows, persons, and values missing in each column; with a study, how the data fit it now.

    `persons_in_two_datasets` have the budget of another dataset too.
    """

    dataset: str
    version: int
    rows: int
    persons: int
    persons_in_two_datasets: int
    records_dropped: int
    columns: list[str]
    missing: dict[str, int]
    fit: dict[str, Any] | None = None


class TaskView(View):
    """A task as the steward sees it. `trouble` is why a step last failed; it is never sent."""

    id: str
    study: str
    kind: str
    state: str
    dataset: str | None
    reason: str | None
    cause: str
    trouble: str
    progress: float
    attempt: int
    taken: float
    updated: float


class TasksView(View):
    """Every task, in the order they came."""

    tasks: list[TaskView]


class UnsettledView(View):
    """A release without a receipt yet; no digest where nothing leaves the site."""

    task: str
    digest: str | None
    stored: float


class StandingView(View):
    """The ledger's head, and the last that the coordinator confirmed."""

    head: HeadView
    confirmed: HeadView
    unconfirmed: int


class StatusView(View):
    """The whole site. health: well, trouble (with the words), or stopped (with the cause)."""

    version: str
    identity: IdentityView | None
    health: str
    stopped: str
    trouble: str
    datasets: list[DatasetView]
    tasks: list[TaskView]
    outbox: list[UnsettledView]
    ledger: StandingView


class LedgerView(View):
    """Lines of the site's ledger, and its head."""

    lines: list[dict[str, Any]]
    head: HeadView


class SoundnessView(View):
    """Whether the ledger holds and is the one that was confirmed; if not, the first line at fault and why."""

    sound: bool
    line: int | None
    cause: str
    fix: str | None = None
    head: HeadView | None = None


class CostView(View):
    """What a person in a dataset would yet pay; or the problem that keeps it from being said."""

    dataset: str
    problem: str | None = None
    epsilon: float | None = None
    delta: float | None = None
    rows: int | None = None
    epsilon_taken_before: float | None = None


class ApprovalView(View):
    """What the steward is asked, with all that the answer rests on.

    `epsilon` is what to approve would cost; `epsilon_charged` was paid already, whatever the answer.
    """

    task: str
    state: str
    cause: str
    study: str
    title: str
    purpose: str
    method: str
    chosen: str | None = None
    lead: str
    role: str
    epsilon: float
    epsilon_charged: float
    epsilon_taken_before: float
    dataset: str | None
    datasets: list[str]
    costs: list[CostView]
    since: float


class ApprovalsView(View):
    """All that waits for the steward."""

    approvals: list[ApprovalView]


class OwnKeyView(View):
    """The key that this site signs with: what it tells others, so that they can pin it."""

    key_id: str
    public_key: str


class PinView(View):
    """A key that this site trusts. origin: `steward`, or `coordinator` where it was believed at first use."""

    party: str
    key_id: str
    public_key: str
    origin: str
    since: float


class KeysView(View):
    """The site's own key, once it has joined, and other parties' keys that it trusts."""

    own: OwnKeyView | None
    keys: list[PinView]


class PinnedView(View):
    """A key that is now trusted. Compare its id with the party itself."""

    party: str
    key_id: str


class AgreedView(View):
    """Where both ledgers end."""

    head: HeadView
