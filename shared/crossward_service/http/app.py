"""The application every service starts from: edge, problems, health and metrics; services add their routers.

One request is one transaction, committed before the response. FastAPI ends an ordinary `yield` dependency after the
response has left: a commit that fails there has already been answered with 200. Ending it with the function
(``scope="function"``) puts the commit before the first byte of the answer.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from anyio import CancelScope, CapacityLimiter, to_thread
from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST

from crossward.errors import NotReady
from crossward_service.http import problems
from crossward_service.http.edge import Edge, Limits
from crossward_service.http.readiness import Check, Readiness
from crossward_service.http.telemetry import RequestMetrics

T = TypeVar("T")


def new_app(
    title: str,
    version: str,
    *,
    local: bool,
    readiness: Sequence[Check] = (),
    limits: Limits | None = None,
    lifespan: Any = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> FastAPI:
    """A FastAPI application with everything that is the same in every service.

    `local` says that its callers belong to the site whose data it holds (see `problems`). On `app.state` it leaves
    `metrics` (its registry), and `stopping`, an event that is set when the server shuts down: what waits for long
    should wait for that too.
    """
    app = FastAPI(
        title=title,
        version=version,
        lifespan=lifespan,
        responses=problems.RESPONSES,
        # Named here, this class serialises every answer and refuses NaN; by default a model's NaN would leave as null.
        default_response_class=JSONResponse,
        # The interactive pages load scripts from a CDN.
        docs_url=None,
        redoc_url=None,
        # FastAPI's own telemetry would export the words of exceptions and validation errors wherever a variable says.
        telemetry={
            "tracing": False,
            "metrics": False,
            "logs": False,
            "operation_spans": False,
            "auto_configure": False,
        },
    )
    metrics = RequestMetrics()
    app.state.metrics = metrics
    app.state.stopping = threading.Event()
    app.state.opening = CapacityLimiter(1)
    app.state.ending = CapacityLimiter(16)
    problems.install(app, local=local)
    app.add_middleware(Edge, limits=limits or Limits(), metrics=metrics)
    _add_health(app, Readiness(readiness, monotonic), metrics)
    return app


def _add_health(app: FastAPI, readiness: Readiness, metrics: RequestMetrics) -> None:
    @app.get("/healthz", tags=["health"])
    async def healthz() -> dict[str, str]:
        """The process lives."""
        return {"status": "alive"}

    @app.get("/readyz", tags=["health"])
    async def readyz() -> dict[str, str]:
        """The service can do its work; if not, the problem names what is missing."""
        if missing := await readiness.missing():
            raise NotReady(f"Not ready: {missing}.", "Try again soon; the service's log says more.")
        return {"status": "ready"}

    @app.get("/metrics", tags=["health"], response_class=Response)
    def prometheus() -> Response:
        """Counts and times of requests, as Prometheus reads them."""
        return Response(metrics.exposition(), headers={"Content-Type": CONTENT_TYPE_LATEST})


def transaction(begin: Callable[[Request], AbstractContextManager[T]]) -> Any:
    """A dependency over a transaction: commits when the route returns, rolls back when it raises.

    `begin` opens it from the request, as in ``Annotated[Connection, transaction(lambda request:
    write(request.app.state.engine))]``; the context manager it gives commits on a clean exit and rolls back on an
    exception. The app must come from `new_app`.
    """

    async def session(request: Request) -> AsyncIterator[T]:
        # Opening may wait for another writer. With the routes' own threads all waiting here, that writer's route
        # would find no thread to finish on: so openings and endings have threads of their own. One opening at a time
        # makes the writers of this process take turns in the order they came.
        opening: CapacityLimiter = request.app.state.opening
        ending: CapacityLimiter = request.app.state.ending
        manager = begin(request)
        value = await to_thread.run_sync(manager.__enter__, limiter=opening)
        try:
            yield value
        except BaseException:
            with CancelScope(shield=True):
                handled = await to_thread.run_sync(manager.__exit__, *sys.exc_info(), limiter=ending)
            if not handled:
                raise
        else:
            with CancelScope(shield=True):
                await to_thread.run_sync(manager.__exit__, None, None, None, limiter=ending)

    return Depends(session, scope="function")
