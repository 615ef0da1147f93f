"""The application of a site: its database opened, its runner started with it and stopped with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from anyio import to_thread
from fastapi import APIRouter, Depends, FastAPI

from crossward.version import __version__
from crossward_service.db.engine import read
from crossward_service.http.app import Check, new_app
from crossward_service.http.edge import Limits
from crossward_site.api import data, decisions, joining, overview
from crossward_site.api.access import steward
from crossward_site.runner import Runner
from crossward_site.settings import SiteSettings
from crossward_site.site import Site

LARGEST = 8 << 20


def site_app(settings: SiteSettings, title: str, role: str, routers: Sequence[APIRouter] = ()) -> FastAPI:
    """A site's application; a target adds routers of its own."""
    site = Site.open(settings.database_url, settings.data_dir)
    runner = Runner(site, settings.link, settings.pace)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if settings.work:
            runner.start()
        yield
        await to_thread.run_sync(runner.stop)
        site.close()

    def storage() -> None:
        with read(site.engine) as connection:
            site.ledger.head(connection)

    checks = (Check("the database", storage),)
    limits = Limits(body=LARGEST)
    app = new_app(title, __version__, local=True, readiness=checks, limits=limits, lifespan=lifespan)
    app.state.site, app.state.runner, app.state.settings, app.state.role = site, runner, settings, role
    for router in (overview.router, data.router, decisions.router, joining.router):
        app.include_router(router, prefix="/v1", dependencies=[Depends(steward)])
    for router in routers:
        app.include_router(router, prefix="/v1")
    return app
