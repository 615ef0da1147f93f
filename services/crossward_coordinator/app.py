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
from crossward_coordinator.database import MIGRATIONS, probe
from crossward_coordinator.identity import Identity
from crossward_coordinator.ledger import routes as ledger
from crossward_coordinator.parties import routes as parties
from crossward_coordinator.parties.signatures import DatabaseKeys, DatabaseNonces
from crossward_coordinator.releases import routes as releases
from crossward_coordinator.settings import CoordinatorSettings
from crossward_coordinator.studies import routes as studies
from crossward_coordinator.tasks import routes as tasks
from crossward_service.db.engine import read
from crossward_service.db.probe import check_writes
from crossward_service.http.access import Trust
from crossward_service.http.app import new_app
from crossward_service.http.edge import Limits
from crossward_service.http.readiness import Check
from crossward_service.ops.machine import HERE, Machine

POLLERS = 8  # threads that look for tasks: more would only queue at the database
VERIFIERS = 8  # threads that verify signatures, beside the 40 there are for everything else


def create_app(settings: CoordinatorSettings, machine: Machine = HERE) -> FastAPI:
    """The coordinator over its database. Serving it starts the clock; the database must have been initialised."""
    app = new_app(
        "Crossward coordinator",
        __version__,
        local=False,
        readiness=[Check("database", lambda: _check_storage(app))],
        limits=_limits(settings),
        lifespan=_lifespan,
    )
    app.state.gauges = Gauges(app.state.metrics)
    for feature in (parties, certificates, studies, tasks, releases, ledger):
        app.include_router(feature.router)
    openapi.document(app)
    furnish(app, settings, machine)
    return app


def furnish(app: FastAPI, settings: CoordinatorSettings, machine: Machine) -> None:
    """Open the database, and put on the application's state all that its routes need: they know nothing else."""
    state = app.state
    state.settings, state.machine = settings, machine
    state.engine, state.identity = machine.database(settings.database_url), identity.load(settings.key_path)
    nonces = DatabaseNonces(state.engine, machine.now)
    state.trust = Trust(DatabaseKeys(state.engine), nonces, CapacityLimiter(VERIFIERS))
    state.polling = CapacityLimiter(POLLERS)
    state.clock = Clock(state.engine, state.identity, settings, state.gauges, machine)
    state.times = state.clock.times


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    state = app.state
    await to_thread.run_sync(check_database, state.engine, state.identity)
    state.clock.start()
    try:
        yield
    finally:
        await to_thread.run_sync(state.clock.stop)
        state.engine.dispose()


def _check_storage(app: FastAPI) -> None:
    check_database(app.state.engine, app.state.identity)
    check_writes(app.state.engine, probe)


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
