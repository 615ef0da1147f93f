"""Which party is asking: the FastAPI dependency over `crossward_service.http.signing`."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from anyio import CapacityLimiter, to_thread
from fastapi import Request

from crossward_service.http.signing import KeyLookup, NonceStore, verify_body, verify_head


@dataclass(frozen=True)
class Trust:
    """What a service believes signatures by: enrolled keys and spent nonces.

    Both may wait for a database. `threads`, if given, are those they wait on, so that those of the routes stay free.
    """

    key_of: KeyLookup
    nonces: NonceStore
    threads: CapacityLimiter | None = None


def require_party(
    trust: Callable[[Request], Trust], *, clock: Callable[[], float] = time.time
) -> Callable[[Request], Awaitable[str]]:
    """A dependency that gives the id of the party that signed the request, or refuses it.

    The signature covers the body's digest, so it is verified before the body is read: a stranger's body never is, and
    while a slow one comes in nothing is held. `trust` finds the service's keys and nonces through the request
    (`request.app.state`), so that a router can be written before the app exists. A nonce is spent even if the request
    fails later: it must be spent outside the request's own transaction.
    """

    async def party(request: Request) -> str:
        believed = trust(request)
        check_head = partial(
            verify_head,
            method=request.method,
            path=request.scope["raw_path"].decode("ascii", "replace"),
            query=request.scope["query_string"].decode("ascii", "replace"),
            headers=request.headers,
            key_of=believed.key_of,
            now=clock(),
        )
        head = await to_thread.run_sync(check_head, limiter=believed.threads)
        body = await request.body()
        check_body = partial(verify_body, head, body, key_of=believed.key_of, nonces=believed.nonces, now=clock())
        request.state.caller = await to_thread.run_sync(check_body, limiter=believed.threads)
        return str(request.state.caller)

    return party
