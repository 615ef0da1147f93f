"""One request, one transaction, committed before the response.

FastAPI ends an ordinary `yield` dependency after the response has left: a commit that fails there has already been
answered with 200. Ending it with the function (``scope="function"``) puts the commit before the first byte of the
answer.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from anyio import CancelScope, CapacityLimiter, to_thread
from fastapi import Depends, Request

T = TypeVar("T")


def transaction(begin: Callable[[Request], AbstractContextManager[T]]) -> Any:
    """A dependency over a transaction: commits when the route returns, rolls back when it raises.

    `begin` opens it from the request, as in ``Annotated[Connection, transaction(lambda request:
    write(request.app.state.engine))]``; the context manager it gives commits on a clean exit and rolls back on an
    exception. The app must come from `crossward_service.http.app.new_app`.
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
