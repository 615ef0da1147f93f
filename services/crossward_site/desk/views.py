"""The whole site, as its steward sees it."""

from __future__ import annotations

from enum import StrEnum

from crossward.protocol.times import Time
from crossward_service.http.views import HeadView, View
from crossward_site.data.views import BudgetView, DatasetView, JobView
from crossward_site.identity.views import IdentityView
from crossward_site.tasks.views import TaskView


class Health(StrEnum):
    """How the site is."""

    WELL = "well"
    TROUBLE = "trouble"
    """The last call or step failed; the words say why."""
    STOPPED = "stopped"
    """The ledgers disagree; the cause says how."""


class UnsettledView(View):
    """A release without a receipt yet; no digest where nothing leaves the site."""

    task: str
    digest: str | None
    stored: Time


class StandingView(View):
    """The ledger's head, and the last that the coordinator confirmed."""

    head: HeadView
    confirmed: HeadView
    unconfirmed: int


class StatusView(View):
    """The whole site. health: well, trouble (with the words), or stopped (with the cause)."""

    version: str
    identity: IdentityView | None
    health: Health
    stopped: str
    trouble: str
    datasets: list[DatasetView]
    budget: BudgetView | None
    jobs: list[JobView]
    tasks: list[TaskView]
    outbox: list[UnsettledView]
    ledger: StandingView
