"""Who is asking, and the transaction they get.

In every route the dependencies come in this order: who is asking (which may write: a nonce is spent), what they sent
(`sent`: read and checked), and last the transaction. While a body comes in or is parsed, nobody else waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Query, Request, Response, Security
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import Field, ValidationError
from sqlalchemy import Connection, Engine
from starlette.concurrency import run_in_threadpool

from crossward.errors import AccessRefused
from crossward.protocol.canonical import check_keys
from crossward.values import Slug
from crossward_coordinator.identity import Identity
from crossward_coordinator.ledger.service import Stopped
from crossward_coordinator.people.tables import TOKENS, PersonRole
from crossward_coordinator.settings import CoordinatorSettings
from crossward_coordinator.times import Timekeeper
from crossward_service.db.engine import read, write
from crossward_service.http import problems
from crossward_service.http.access import Holder, Trust, require, require_party
from crossward_service.http.app import transaction
from crossward_service.http.views import Form
from crossward_service.ops.crash import crash_point
from crossward_service.ops.machine import Machine

PartyId = Slug
StudyId = PartyId
Protocol = Annotated[int, Field(ge=1, le=1_000_000)]
After = Annotated[str, Query(max_length=64, pattern=r"^[a-z0-9-]*$")]

T = TypeVar("T")
M = TypeVar("M", bound=Form)


def engine_of(request: Request) -> Engine:
    """The app's database."""
    engine: Engine = request.app.state.engine
    return engine


def settings_of(request: Request) -> CoordinatorSettings:
    """The app's settings."""
    settings: CoordinatorSettings = request.app.state.settings
    return settings


def identity_of(request: Request) -> Identity:
    """The coordinator's own key."""
    own: Identity = request.app.state.identity
    return own


def machine_of(request: Request) -> Machine:
    """The machine that the app runs on."""
    machine: Machine = request.app.state.machine
    return machine


def times_of(request: Request) -> Timekeeper:
    """Who knows what time it is."""
    times: Timekeeper = request.app.state.times
    return times


async def body_of(request: Request) -> bytes:
    """The body as it came."""
    return await request.body()


@contextmanager
def _committed(engine: Engine) -> Iterator[Connection]:
    with write(engine) as connection:
        yield connection
    crash_point("after-commit")  # committed, not answered


def _reading(request: Request) -> Iterator[Connection]:
    with read(engine_of(request)) as connection:
        yield connection


def _trust(request: Request) -> Trust:
    trust: Trust = request.app.state.trust
    return trust


def _lookup(request: Request, stored_hash: str) -> Holder | None:
    with read(engine_of(request)) as connection:
        return TOKENS.holder(connection, stored_hash)


signed = require_party(_trust, clock=lambda request: machine_of(request).now())
"""The party that signed the request.

Verifying spends a nonce, which may wait for a writer whose route waits for a thread: with all threads verifying,
neither would go on. So verifying has a few threads of its own.
"""

_any_role = require(*PersonRole, lookup=_lookup)
_bearer = HTTPBearer(auto_error=False, scheme_name="token")


async def _reader(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]
) -> str | None:
    """The party that signed the request, or None for a person with a token."""
    if "signature" in request.headers:
        return await signed(request)
    await run_in_threadpool(_any_role, request, credentials)
    return None


Own = Annotated[Identity, Depends(identity_of)]
Settings = Annotated[CoordinatorSettings, Depends(settings_of)]
OnMachine = Annotated[Machine, Depends(machine_of)]
Times = Annotated[Timekeeper, Depends(times_of)]
Body = Annotated[bytes, Depends(body_of)]
Operator = Annotated[Holder, Depends(require(PersonRole.OPERATOR, lookup=_lookup))]
Lead = Annotated[Holder, Depends(require(PersonRole.LEAD, lookup=_lookup))]
Person = Annotated[Holder, Depends(_any_role)]
FromParty = Annotated[str, Depends(signed)]
Reader = Annotated[str | None, Depends(_reader)]
Writing = Annotated[Connection, transaction(lambda request: _committed(engine_of(request)))]
Reading = Annotated[Connection, Depends(_reading, scope="function")]


def sent(read: Callable[[bytes], T]) -> Any:
    """A dependency over what `read` makes of the body, on a thread, before the route's transaction begins.

    FastAPI by itself would read a body before it asks who sent it, and check it after the transaction has begun.
    """

    def content(body: Body) -> T:
        return read(body)

    return Depends(content)


def form(model: type[M], *, empty: bytes = b"") -> Callable[[bytes], M]:
    """Reads a body of plain JSON; `empty` stands for one that was left out."""

    def read(body: bytes) -> M:
        check_keys(body)  # pydantic would take the last of two
        try:
            return model.model_validate_json(body or empty)
        except ValidationError as error:
            details = error.errors(include_url=False, include_context=False, include_input=False)
            raise RequestValidationError([{**detail, "loc": ("body", *detail["loc"])} for detail in details]) from None

    return read


def check_same(signer: str | None, party: str) -> None:
    """A party asks about itself only; people with tokens ask about everyone."""
    if signer is not None and signer != party:
        raise AccessRefused(f"{signer} may not ask about {party}.", "A party sees its own ledger and keys.")


def refuse(request: Request, stopped: Stopped) -> Response:
    """Answer with the reason a party was stopped for; returned, not raised, so that the stop is committed."""
    response = problems.of_error(stopped.error, problems.request_id(request.scope), local=False)
    request.state.problem = response.kind
    return response
