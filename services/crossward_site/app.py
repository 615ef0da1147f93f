"""create_app(settings): a site's application. Its directory is locked, its database opened, its runner started."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from anyio import to_thread
from fastapi import Depends, FastAPI

from crossward.errors import Conflict, NotReady, StorageFailed
from crossward.protocol.constants import Role
from crossward.version import __version__
from crossward_service.db.engine import read
from crossward_service.db.probe import check_writes
from crossward_service.http.app import new_app
from crossward_service.http.edge import Limits
from crossward_service.http.readiness import Check
from crossward_site import facts
from crossward_site.access import steward
from crossward_site.approvals import routes as approvals
from crossward_site.data import routes as data
from crossward_site.data import seating
from crossward_site.data.jobs import JobRunner
from crossward_site.data.requests import works
from crossward_site.data.service import tidy_at_start
from crossward_site.desk import routes as desk
from crossward_site.identity import routes as identity
from crossward_site.ledger import routes as ledger
from crossward_site.lock import take
from crossward_site.models import jobs as model_jobs
from crossward_site.models import routes as models
from crossward_site.models.service import Models
from crossward_site.policy import routes as policy
from crossward_site.settings import SiteSettings
from crossward_site.site import Site
from crossward_site.tables import probe
from crossward_site.tasks import routes as tasks
from crossward_site.tasks.runner import Runner

LARGEST_BODY = 8 << 20
STEWARDS = (desk.router, data.router, policy.router, approvals.router, tasks.router, ledger.router, identity.router)


def create_app(settings: SiteSettings) -> FastAPI:
    """Open the site and wire it for the roles that its settings enable; nothing happens at import.

    The data directory is this process's from here until the application has ended: another that would serve it is
    refused before it has touched the database. So is a site that joined in a role which is not served here.
    """
    lock = take(settings)
    try:
        site = _open(settings)
    except BaseException:
        lock.release()
        raise
    runner, known = Runner(site, settings.link, settings.pace), Models(site)
    jobs = JobRunner(site, works(runner.coordinator) | model_jobs.works(known, runner.coordinator))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            jobs.start()
            if settings.work:
                runner.start()
            yield
            await to_thread.run_sync(jobs.stop)
            await to_thread.run_sync(runner.stop)
            site.close()
        finally:
            lock.release()

    def storage() -> None:
        with read(site.engine) as connection:
            site.ledger.head(connection)
        check_writes(site.engine, probe)

    def seats() -> None:
        with read(site.engine) as connection:
            if cause := facts.SEATS_LOST.get(connection):
                raise NotReady(cause, "Nothing is charged until then.")

    app = new_app(
        f"Crossward {settings.service}",
        __version__,
        local=True,
        readiness=(Check("the database", storage), Check("the table of seats", seats)),
        limits=Limits(body=LARGEST_BODY),
        lifespan=lifespan,
    )
    app.state.site, app.state.runner, app.state.settings = site, runner, settings
    app.state.jobs = jobs
    for router in STEWARDS:
        app.include_router(router, prefix="/v1", dependencies=[Depends(steward)])
    if Role.TARGET in settings.roles:
        app.state.models = known
        app.include_router(models.router, prefix="/v1")
    return app


def _open(settings: SiteSettings) -> Site:
    """The site, if it may be served in these roles: what joined as a source does not work as a target."""
    site = settings.open_site()
    try:
        seating.settle(site)
        with suppress(StorageFailed):  # on a disk that cannot be written it is left to the next job
            tidy_at_start(site)
        with read(site.engine) as connection:
            identity = facts.IDENTITY.get(connection)
        if identity is not None and identity.role not in settings.roles:
            raise Conflict(
                f"{identity.party} joined as a {identity.role}, and this is a {settings.service}.",
                f"Run crossward {identity.role} serve, or give this {settings.service} a data directory of its own.",
            )
    except BaseException:
        site.close()
        raise
    return site
