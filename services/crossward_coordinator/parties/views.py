"""What is answered about parties and about the coordinator itself."""

from __future__ import annotations

from typing import Self

from crossward.protocol import versions
from crossward.protocol.constants import COORDINATOR, Role
from crossward.protocol.states import KeyState, PartyState
from crossward.protocol.times import Time, moment, moment_or_none
from crossward.version import __version__
from crossward_coordinator.identity import Identity
from crossward_coordinator.parties.service import Enrolment, Invite
from crossward_coordinator.parties.tables import Party, StoredKey
from crossward_service.http.views import View


class CoordinatorView(View):
    """Who this coordinator is, and the newest version of the protocol that it speaks."""

    name: str
    public_key: str
    key_id: str
    version: str
    protocol: int
    time: Time

    @classmethod
    def of(cls, own: Identity, now: float) -> Self:
        """The coordinator that signs with this key."""
        return cls(
            name=COORDINATOR,
            public_key=own.public_key,
            key_id=own.key_id,
            version=__version__,
            protocol=versions.newest(),
            time=moment(now),
        )


class InviteView(View):
    """A one-time code, shown once."""

    party: str
    role: Role
    code: str
    expires: Time

    @classmethod
    def of(cls, invite: Invite) -> Self:
        """An invitation that was just made."""
        return cls(party=invite.party, role=invite.role, code=invite.code, expires=moment(invite.expires))


class EnrolledView(View):
    """A party's key is known here; `coordinator` is the key to check receipts with."""

    party: str
    role: Role
    key_id: str
    coordinator: CoordinatorView

    @classmethod
    def of(cls, enrolment: Enrolment, own: Identity, now: float) -> Self:
        """An enrolment, or a rotation."""
        coordinator = CoordinatorView.of(own, now)
        return cls(party=enrolment.party, role=enrolment.role, key_id=enrolment.key_id, coordinator=coordinator)


class KeyView(View):
    """A public key of a party: active, rotated or revoked. What was accepted before `revoked` still counts."""

    key_id: str
    public_key: str
    state: KeyState
    created: Time
    revoked: Time | None

    @classmethod
    def of(cls, key: StoredKey) -> Self:
        """A key that a party has or had."""
        return cls(
            key_id=key.key_id,
            public_key=key.public_key,
            state=key.state,
            created=moment(key.created),
            revoked=moment_or_none(key.revoked),
        )


class PartyView(View):
    """A party: active, stopped with a cause, or revoked."""

    party: str
    role: Role
    state: PartyState
    cause: str
    since: Time
    last_seen: Time | None
    keys: list[KeyView]

    @classmethod
    def of(cls, party: Party, keys: list[StoredKey]) -> Self:
        """A party and its keys."""
        return cls(
            party=party.id,
            role=party.role,
            state=party.state,
            cause=party.cause,
            since=moment(party.since),
            last_seen=moment_or_none(party.seen),
            keys=[KeyView.of(key) for key in keys],
        )


class PartyPage(View):
    """Some parties; `next` is the `after` of the next page."""

    items: list[PartyView]
    next: str | None
