"""The mirrors of the parties' ledgers: read, verify, extend."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from crossward.errors import ChainBroken
from crossward.protocol.constants import MOST_LINES
from crossward.protocol.envelopes import SignedReceipt
from crossward.protocol.ledger.lines import Line
from crossward.protocol.tasks import LineText
from crossward.values import LARGEST
from crossward_coordinator.access import (
    FromParty,
    Own,
    PartyId,
    Reader,
    Reading,
    Times,
    Writing,
    check_same,
    form,
    refuse,
    sent,
)
from crossward_coordinator.ledger import service
from crossward_coordinator.ledger.service import Stopped, mirror
from crossward_coordinator.ledger.views import LinesView, VerifiedView
from crossward_coordinator.openapi import answers, sends_form
from crossward_coordinator.parties import service as parties
from crossward_service.http.views import Form

router = APIRouter(prefix="/v1/ledger", tags=["ledger"])


class LinesBody(Form):
    """Lines of the party's own ledger, in order, each in its canonical form."""

    lines: Annotated[list[LineText], Field(max_length=MOST_LINES)]


def _read(body: bytes) -> list[Line]:
    return [Line.from_text(text) for text in form(LinesBody)(body).lines]


@router.get("/{party}")
def show(
    party: PartyId,
    reader: Reader,
    connection: Reading,
    after: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 500,
) -> LinesView:
    """The mirror of a party's ledger, line by line."""
    check_same(reader, party)
    copy = mirror(parties.get(connection, party).id)
    return LinesView.of(party, copy.head(connection), list(copy.lines(connection, after, limit)), limit)


@router.get("/{party}/verify")
def verify(party: PartyId, reader: Reader, connection: Reading) -> VerifiedView:
    """Judge every line of a mirror anew; the first that is wrong is named."""
    check_same(reader, party)
    copy = mirror(parties.get(connection, party).id)
    try:
        return VerifiedView.of(party, copy.verify(connection).head)
    except ChainBroken as error:
        return VerifiedView.of(party, error)


@router.post(
    "/{party}/lines",
    response_class=Response,
    openapi_extra=sends_form(LinesBody),
    responses=answers(SignedReceipt, "The mirror's head, as a receipt for the task `ledger`."),
)
def extend(
    request: Request,
    party: PartyId,
    signer: FromParty,
    lines: Annotated[list[Line], sent(_read)],
    own: Own,
    times: Times,
    connection: Writing,
) -> Response:
    """Lines without a result. Those that do not extend the mirror stop the party."""
    check_same(signer, party)
    outcome = service.take_lines(connection, own, party, lines, times.now(connection))
    if isinstance(outcome, Stopped):
        return refuse(request, outcome)
    return Response(outcome.canonical(), media_type="application/json")
