"""The whole site at a glance."""

from __future__ import annotations

from crossward.protocol.times import moment
from crossward.version import __version__
from crossward_service.db.engine import read
from crossward_service.http.views import HeadView
from crossward_site import facts
from crossward_site.data import jobs
from crossward_site.data.service import load_datasets
from crossward_site.data.views import BudgetView, DatasetView, JobView
from crossward_site.desk.views import Health, StandingView, StatusView, UnsettledView
from crossward_site.identity.service import Identity
from crossward_site.identity.views import IdentityView
from crossward_site.ledger.service import confirmed
from crossward_site.site import Site
from crossward_site.tasks import service as tasks
from crossward_site.tasks.outbox import unsettled
from crossward_site.tasks.views import TaskView


def status(site: Site, trouble: str = "") -> StatusView:
    """Who the site is, what it holds and has spent, what it does, and whether its ledger is sound: at one moment."""
    with read(site.engine) as connection:
        identity = Identity.find(connection, site.home)
        stopped = facts.STOPPED.get(connection) or facts.SEATS_LOST.get(connection) or ""
        own, mirror = site.ledger.head(connection), confirmed(connection)
        balance = site.ledger.balance(connection)
        return StatusView(
            version=__version__,
            identity=None if identity is None else IdentityView.of(identity),
            health=Health.STOPPED if stopped else Health.TROUBLE if trouble else Health.WELL,
            stopped=stopped,
            trouble=trouble,
            datasets=[DatasetView.of(dataset) for dataset in load_datasets(connection)],
            budget=None if balance is None else BudgetView.of(balance),
            jobs=[JobView.of(job) for job in jobs.active(connection)],
            tasks=[TaskView.of(task) for task in tasks.listed(connection, tasks.OPEN)],
            outbox=[
                UnsettledView(task=item.task, digest=item.digest, stored=moment(item.stored))
                for item in unsettled(connection)
            ],
            ledger=StandingView(
                head=HeadView.of(own), confirmed=HeadView.of(mirror), unconfirmed=own.sequence - mirror.sequence
            ),
        )
