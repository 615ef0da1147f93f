"""Parties: invite, enrol, list, rotate, revoke, reconcile."""

from __future__ import annotations

import time
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from crossward.version import __version__
from crossward_coordinator.identity import NAME, Identity
from crossward_coordinator.openapi import sends_form
from crossward_coordinator.routers.access import (
    After,
    Operator,
    Own,
    Party,
    PartyId,
    Reader,
    Reading,
    Settings,
    Writing,
    check_same,
    form,
    sent,
)
from crossward_coordinator.views import CoordinatorView, EnrolledView, InviteView, PartyPage, PartyView, party_view
from crossward_coordinator.workflows import advance, enrol, parties
from crossward_coordinator.workflows.rows import moment

router = APIRouter(prefix="/v1", tags=["parties"])

PublicKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{43}$")]


class _Sent(BaseModel):
    model_config = ConfigDict(extra="forbid")


class InviteBody(_Sent):
    """Whom to invite, and as what."""

    party: PartyId
    role: Literal["source", "target"]


class EnrolBody(_Sent):
    """The code, and the key the site made."""

    code: Annotated[str, Field(min_length=1, max_length=200)]
    public_key: PublicKey


class KeyBody(_Sent):
    """The key that counts from now on."""

    public_key: PublicKey


def about(own: Identity) -> CoordinatorView:
    """Who this coordinator is."""
    return CoordinatorView(
        name=NAME, public_key=own.public_key, key_id=own.key_id, version=__version__, time=moment(time.time())
    )


@router.get("/coordinator")
def coordinator(own: Own) -> CoordinatorView:
    """The coordinator's public key and version."""
    return about(own)


@router.post("/parties/invites", status_code=201, openapi_extra=sends_form(InviteBody))
def invite(
    _: Operator, body: Annotated[InviteBody, sent(form(InviteBody))], settings: Settings, connection: Writing
) -> InviteView:
    """Invite a party: a one-time code, to be passed on by a person."""
    made = enrol.invite(connection, body.party, body.role, now=time.time(), lasts=settings.invite_seconds)
    return InviteView(party=made.party, role=made.role, code=made.code, expires=moment(made.expires))


@router.post("/parties", status_code=201, openapi_extra=sends_form(EnrolBody))
def join(body: Annotated[EnrolBody, sent(form(EnrolBody))], own: Own, connection: Writing) -> EnrolledView:
    """Enrol with a code and the site's own public key."""
    made = enrol.enrol(connection, body.code, body.public_key, now=time.time())
    return EnrolledView(party=made.party, role=made.role, key_id=made.key_id, coordinator=about(own))


@router.get("/parties")
def list_parties(
    _: Reader,
    connection: Reading,
    after: After = "",
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> PartyPage:
    """Who takes part, with state, cause, last sign of life, and public keys."""
    rows = parties.page(connection, after, limit)
    keys = parties.keys_of(connection, [row.id for row in rows])
    return PartyPage(
        items=[party_view(row, keys[row.id]) for row in rows], next=rows[-1].id if len(rows) == limit else None
    )


@router.post("/parties/{party}/keys", status_code=201, openapi_extra=sends_form(KeyBody))
def rotate(
    party: PartyId, signer: Party, body: Annotated[KeyBody, sent(form(KeyBody))], own: Own, connection: Writing
) -> EnrolledView:
    """Rotate: the new key counts from now on, the old one no longer. Signed with the old key."""
    check_same(signer, party)
    made = enrol.rotate(connection, party, body.public_key, now=time.time())
    return EnrolledView(party=made.party, role=made.role, key_id=made.key_id, coordinator=about(own))


@router.delete("/parties/{party}")
def revoke(party: PartyId, _: Operator, own: Own, connection: Writing) -> PartyView:
    """Revoke a party: its keys no longer count, and its studies go on without it."""
    now = time.time()
    if parties.revoke(connection, party, now):
        advance.withdraw(connection, own, party, "The party was revoked.", now)
    return _shown(connection, party)


@router.post("/parties/{party}/reconcile")
def reconcile(party: PartyId, _: Operator, connection: Writing) -> PartyView:
    """Let a stopped party go on, once it has shown a ledger that extends the mirror again."""
    parties.reconcile(connection, party, time.time())
    return _shown(connection, party)


def _shown(connection: Writing, party: str) -> PartyView:
    return party_view(parties.lock(connection, party), parties.keys_of(connection, [party])[party])
