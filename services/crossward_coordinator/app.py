"""The coordinator's application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI
from sqlalchemy import Engine

from crossward.version import __version__
from crossward_coordinator import identity, openapi
from crossward_coordinator.certificates import routes as certificates
from crossward_coordinator.clock import Clock, Gauges
from crossward_coordinator.database import MIGRATIONS
from crossward_coordinator.identity import Identity
from crossward_coordinator.ledger import routes as ledger
from crossward_coordinator.parties import routes as parties
from crossward_coordinator.parties.signatures import DatabaseKeys, DatabaseNonces
from crossward_coordinator.releases import routes as releases
from crossward_coordinator.settings import CoordinatorSettings
from crossward_coordinator.studies import routes as studies
from crossward_coordinator.tasks import routes as tasks
from crossward_service.db.engine import connect, read
from crossward_service.http.access import Trust
from crossward_service.http.app import Check, new_app
from crossward_service.http.edge import Limits

POLLERS = 8  # threads that look for tasks: more would only queue at the database
VERIFIERS = 8  # threads that verify signatures, beside the 40 there are for everything else


def create_app(settings: CoordinatorSettings) -> FastAPI:
    """The coordinator over its database. Serving it starts the clock; the database must have been initialised."""
    engine = connect(settings.database_url)
    own = identity.load(settings.key_path)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await to_thread.run_sync(check_database, engine, own)
        clock = Clock(engine, own, settings, app.state.gauges)
        clock.start()
        try:
            yield
        finally:
            await to_thread.run_sync(clock.stop)
            engine.dispose()

    app = new_app(
        "Crossward coordinator",
        __version__,
        local=False,
        readiness=[Check("database", lambda: check_database(engine, own))],
        limits=_limits(settings),
        lifespan=lifespan,
    )
    app.state.settings, app.state.engine, app.state.identity = settings, engine, own
    app.state.trust = Trust(DatabaseKeys(engine), DatabaseNonces(engine), CapacityLimiter(VERIFIERS))
    app.state.polling = CapacityLimiter(POLLERS)
    app.state.gauges = Gauges(app.state.metrics)
    for feature in (parties, certificates, studies, tasks, releases, ledger):
        app.include_router(feature.router)
    openapi.document(app)
    return app


def check_database(engine: Engine, own: Identity) -> None:
    """Refuse a database of another version or of another coordinator."""
    with read(engine) as connection:
        MIGRATIONS.check_newest(connection)
        identity.check(connection, own)


def _limits(settings: CoordinatorSettings) -> Limits:
    return Limits(
        paths={
            "/v1/tasks/*/result": settings.largest_result,
            "/v1/studies/*/public-set": settings.largest_public_set,
            "/v1/studies": 4 << 20,
            "/v1/studies/check": 4 << 20,
            "/v1/ledger/*/lines": 8 << 20,
        }
    )
