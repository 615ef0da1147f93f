"""The mirrors of the parties' ledgers: read, verify, extend."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from crossward.errors import ChainBroken, NotFound
from crossward.protocol.ledger.lines import Head, Line
from crossward.protocol.messages import SignedReceipt
from crossward_coordinator.openapi import answers, sends_form
from crossward_coordinator.routers.access import (
    Own,
    Party,
    PartyId,
    Reader,
    Reading,
    Writing,
    check_same,
    form,
    refuse,
    sent,
)
from crossward_coordinator.views import HeadView, LinesView, VerifiedView
from crossward_coordinator.workflows import mirror, parties
from crossward_coordinator.workflows.mirror import Stopped

router = APIRouter(prefix="/v1/ledger", tags=["ledger"])


class LinesBody(BaseModel):
    """Lines of the party's own ledger, in order, as `Line.to_dict` gives them."""

    model_config = ConfigDict(extra="forbid")

    lines: Annotated[list[dict[str, Any]], Field(max_length=10_000)]


def _read(body: bytes) -> list[Line]:
    return [Line.from_dict(values) for values in form(LinesBody)(body).lines]


@router.get("/{party}")
def show(
    party: PartyId,
    reader: Reader,
    connection: Reading,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 500,
) -> LinesView:
    """The mirror of a party's ledger, line by line."""
    check_same(reader, party)
    _check_known(connection, party)
    ledger = mirror.of(party)
    lines = list(ledger.lines(connection, after, limit))
    return LinesView(
        party=party,
        head=_head(ledger.head(connection)),
        lines=[line.to_dict() for line in lines],
        next=lines[-1].sequence if len(lines) == limit else None,
    )


@router.get("/{party}/verify")
def verify(party: PartyId, reader: Reader, connection: Reading) -> VerifiedView:
    """Judge every line of a mirror anew; the first that is wrong is named."""
    check_same(reader, party)
    _check_known(connection, party)
    try:
        head = mirror.of(party).verify(connection).head
    except ChainBroken as error:
        return VerifiedView(party=party, holds=False, head=None, line=error.line, cause=error.cause)
    return VerifiedView(party=party, holds=True, head=_head(head), line=None, cause="")


@router.post(
    "/{party}/lines",
    response_class=Response,
    openapi_extra=sends_form(LinesBody),
    responses=answers(SignedReceipt, "The mirror's head, as a receipt for the task `ledger`."),
)
def extend(
    request: Request,
    party: PartyId,
    signer: Party,
    lines: Annotated[list[Line], sent(_read)],
    own: Own,
    connection: Writing,
) -> Response:
    """Lines without a result. Those that do not extend the mirror stop the party."""
    check_same(signer, party)
    outcome = mirror.take_lines(connection, own, party, lines, time.time())
    if isinstance(outcome, Stopped):
        return refuse(request, outcome)
    return Response(outcome.canonical(), media_type="application/json")


def _head(head: Head) -> HeadView:
    return HeadView(sequence=head.sequence, hash=head.hash)


def _check_known(connection: Reading, party: str) -> None:
    if parties.find(connection, party) is None:
        raise NotFound(f"There is no party {party}.", "GET /v1/parties lists them.")
