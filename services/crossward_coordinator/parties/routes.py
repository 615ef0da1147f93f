"""Parties: invite, enrol, list, rotate, revoke, reconcile."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field, WithJsonSchema

from crossward.protocol.constants import Role
from crossward.protocol.messages import PublicKey
from crossward_coordinator.access import (
    After,
    FromParty,
    OnMachine,
    Operator,
    Own,
    PartyId,
    Protocol,
    Reader,
    Reading,
    Settings,
    Times,
    Writing,
    check_same,
    form,
    sent,
)
from crossward_coordinator.openapi import sends_form
from crossward_coordinator.parties import service
from crossward_coordinator.parties.views import CoordinatorView, EnrolledView, InviteView, PartyPage, PartyView
from crossward_coordinator.studies.advance import withdraw
from crossward_service.http.views import Form

router = APIRouter(prefix="/v1", tags=["parties"])


class InviteBody(Form):
    """Whom to invite, and as what."""

    party: PartyId
    role: Annotated[Role, WithJsonSchema({"type": "string", "enum": list(Role)})]


class EnrolBody(Form):
    """The code, the key the site made, and the newest version of the protocol that it speaks."""

    code: Annotated[str, Field(min_length=1, max_length=200)]
    public_key: PublicKey
    protocol: Protocol


class KeyBody(Form):
    """The key that counts from now on."""

    public_key: PublicKey


@router.get("/coordinator")
def coordinator(own: Own, times: Times) -> CoordinatorView:
    """The coordinator's public key and version."""
    return CoordinatorView.of(own, times.time())


@router.post("/parties/invites", status_code=201, openapi_extra=sends_form(InviteBody))
def invite(
    _: Operator,
    body: Annotated[InviteBody, sent(form(InviteBody))],
    settings: Settings,
    machine: OnMachine,
    times: Times,
    connection: Writing,
) -> InviteView:
    """Invite a party: a one-time code, to be passed on by a person."""
    lasts = settings.invite_seconds
    code = machine.word(24)
    return InviteView.of(service.invite(connection, body.party, body.role, code, now=times.time(), lasts=lasts))


@router.post("/parties", status_code=201, openapi_extra=sends_form(EnrolBody))
def join(
    body: Annotated[EnrolBody, sent(form(EnrolBody))], own: Own, times: Times, connection: Writing
) -> EnrolledView:
    """Enrol with a code and the site's own public key."""
    now = times.time()
    return EnrolledView.of(service.enrol(connection, body.code, body.public_key, body.protocol, now=now), own, now)


@router.get("/parties")
def list_parties(
    _: Reader,
    connection: Reading,
    after: After = "",
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> PartyPage:
    """Who takes part, with state, cause, last sign of life, and public keys."""
    parties = service.page(connection, after, limit)
    keys = service.keys_of(connection, [party.id for party in parties])
    return PartyPage(
        items=[PartyView.of(party, keys[party.id]) for party in parties],
        next=parties[-1].id if len(parties) == limit else None,
    )


@router.post("/parties/{party}/keys", status_code=201, openapi_extra=sends_form(KeyBody))
def rotate(
    party: PartyId,
    signer: FromParty,
    body: Annotated[KeyBody, sent(form(KeyBody))],
    own: Own,
    times: Times,
    connection: Writing,
) -> EnrolledView:
    """Rotate: the new key counts from now on, the old one no longer. Signed with the old key."""
    check_same(signer, party)
    now = times.time()
    return EnrolledView.of(service.rotate(connection, party, body.public_key, now=now), own, now)


@router.delete("/parties/{party}")
def revoke(party: PartyId, _: Operator, own: Own, times: Times, connection: Writing) -> PartyView:
    """Revoke a party: its keys no longer count, and its studies go on without it."""
    now = times.now(connection)
    if service.revoke(connection, party, now.time):
        withdraw(connection, own, party, "The party was revoked.", now)
    return _view(connection, party)


@router.post("/parties/{party}/reconcile")
def reconcile(party: PartyId, _: Operator, times: Times, connection: Writing) -> PartyView:
    """Let a stopped party go on, once it has shown a ledger that extends the mirror again."""
    service.reconcile(connection, party, times.time())
    return _view(connection, party)


def _view(connection: Writing, party: str) -> PartyView:
    return PartyView.of(service.get(connection, party), service.keys_of(connection, [party])[party])
