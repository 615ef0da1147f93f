"""What the steward is asked."""

from __future__ import annotations

from crossward.protocol.constants import Role
from crossward.protocol.times import Time
from crossward_service.http.views import View
from crossward_site.tasks.tables import TaskState


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
    state: TaskState
    cause: str
    study: str
    title: str
    purpose: str
    method: str
    explanation: str
    chosen: str | None
    lead: str
    role: Role
    epsilon: float
    epsilon_charged: float
    epsilon_taken_before: float
    dataset: str | None
    datasets: list[str]
    costs: list[CostView]
    since: Time


class ApprovalsView(View):
    """All that waits for the steward."""

    approvals: list[ApprovalView]
