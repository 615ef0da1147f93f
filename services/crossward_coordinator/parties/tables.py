"""Parties, their keys, their invitations, and the nonces of the requests they signed."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Column, Float, ForeignKey, Integer, String, Table, Text

from crossward.protocol import versions
from crossward.protocol.constants import Role
from crossward.protocol.states import KeyState, PartyState
from crossward_coordinator.database import metadata
from crossward_service.db.lifecycle import Lifecycle, enum_column

PARTY_STATES = Lifecycle(
    PartyState,
    {
        PartyState.ACTIVE: (PartyState.STOPPED, PartyState.REVOKED),
        PartyState.STOPPED: (PartyState.ACTIVE, PartyState.REVOKED),
        PartyState.REVOKED: (PartyState.ACTIVE,),
    },
)
KEY_STATES = Lifecycle(
    KeyState,
    {KeyState.ACTIVE: (KeyState.ROTATED, KeyState.REVOKED), KeyState.ROTATED: (KeyState.REVOKED,)},
)

parties = Table(
    "parties",
    metadata,
    Column("id", String(64), primary_key=True),
    enum_column("role", Role),
    PARTY_STATES.column(),
    Column("cause", Text, nullable=False),
    Column("since", Float, nullable=False),
    Column("seen", Float),
    Column("agreed", Float),
    Column("protocol", Integer, nullable=False),
)

keys = Table(
    "keys",
    metadata,
    Column("key_id", String(16), primary_key=True),
    Column("party", String(64), ForeignKey("parties.id"), nullable=False, index=True),
    Column("public_key", String(64), nullable=False),
    KEY_STATES.column(),
    Column("created", Float, nullable=False),
    Column("revoked", Float),
)

invites = Table(
    "invites",
    metadata,
    Column("code_hash", String(64), primary_key=True),
    Column("party", String(64), nullable=False, index=True),
    enum_column("role", Role),
    Column("expires", Float, nullable=False),
    Column("used_by", String(64)),
)
"""`used_by`: the public key that enrolled with the code."""

nonces = Table(
    "nonces",
    metadata,
    Column("party", String(64), primary_key=True),
    Column("nonce", String(64), primary_key=True),
    Column("expires", Float, nullable=False, index=True),
)


@dataclass(frozen=True, slots=True)
class Party:
    """A party. `seen`: its last signed request; `agreed`: when, stopped, it last showed a sound ledger.

    `protocol` is the newest version of the protocol that it speaks, as it last said.
    """

    id: str
    role: Role
    state: PartyState
    cause: str
    since: float
    seen: float | None
    agreed: float | None
    protocol: int

    @property
    def version(self) -> int:
        """The version to speak with it."""
        return min(self.protocol, versions.newest())


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A public key that a party has or had. `revoked`: since when; a release accepted before still counts."""

    key_id: str
    party: str
    public_key: str
    state: KeyState
    created: float
    revoked: float | None
