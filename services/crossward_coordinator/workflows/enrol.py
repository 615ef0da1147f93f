"""A party joins: invited with a one-time code, enrolled with a key it made itself, which it may rotate."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select, update

from crossward.errors import Conflict, WrongCode
from crossward.protocol import keys as ed25519
from crossward_coordinator.identity import NAME
from crossward_coordinator.tables import invites, keys, parties
from crossward_coordinator.workflows.parties import find, lock_signer


@dataclass(frozen=True, slots=True)
class Invite:
    """A one-time code, shown once."""

    party: str
    role: str
    code: str
    expires: float


@dataclass(frozen=True, slots=True)
class Enrolled:
    """A party and the key it signs with from now on."""

    party: str
    role: str
    key_id: str


def invite(connection: Connection, party: str, role: str, *, now: float, lasts: float) -> Invite:
    """A code by which a party may join. A new one makes earlier ones void."""
    if party == NAME:
        raise Conflict(f"{NAME!r} is the coordinator itself.", "Choose another name for the party.")
    known = find(connection, party)
    if known is not None and known.state != "revoked":
        raise Conflict(
            f"{party} is enrolled already.", "It rotates its key itself; if the key is lost, revoke it first."
        )
    if known is not None and known.role != role:
        raise Conflict(f"{party} was a {known.role}; its ledger is that role's.", "Invite it under another name.")
    connection.execute(delete(invites).where(invites.c.party == party, invites.c.used_by.is_(None)))
    code = secrets.token_urlsafe(24)
    row = {"code_hash": _hash(code), "party": party, "role": role, "expires": now + lasts}
    connection.execute(insert(invites).values(row))
    return Invite(party, role, code, now + lasts)


def enrol(connection: Connection, code: str, public_key: str, *, now: float) -> Enrolled:
    """Join with a code and a key. The same code and key again give the same answer: the first may have been lost."""
    key_id = ed25519.key_id(ed25519.public_key(public_key))
    query = select(invites).where(invites.c.code_hash == _hash(code))
    given = connection.execute(query.with_for_update()).one_or_none()
    if given is None:
        raise WrongCode("Nobody was invited with this code.", "Ask the operator for a new invitation.")
    if given.used_by is not None:
        row = connection.execute(select(keys).where(keys.c.key_id == key_id, keys.c.party == given.party)).one_or_none()
        if given.used_by == public_key and row is not None and row.state == "active":
            return Enrolled(given.party, given.role, key_id)
        raise WrongCode("This invitation was used before.", "Ask the operator for a new invitation.")
    if given.expires < now:
        raise WrongCode("This invitation has expired.", "Ask the operator for a new invitation.")
    _admit(connection, given.party, given.role, now)
    _add_key(connection, given.party, key_id, public_key, now)
    connection.execute(update(invites).where(invites.c.code_hash == given.code_hash).values(used_by=public_key))
    return Enrolled(given.party, given.role, key_id)


def rotate(connection: Connection, party: str, public_key: str, *, now: float) -> Enrolled:
    """The new key counts from now on; the old one no longer signs requests, but what it released stays verifiable."""
    row = lock_signer(connection, party)
    key_id = ed25519.key_id(ed25519.public_key(public_key))
    known = connection.execute(select(keys).where(keys.c.key_id == key_id)).one_or_none()
    if not (known is not None and known.party == party and known.state == "active"):
        connection.execute(update(keys).where(keys.c.party == party, keys.c.state == "active").values(state="rotated"))
        _add_key(connection, party, key_id, public_key, now)
    return Enrolled(party, row.role, key_id)


def _admit(connection: Connection, party: str, role: str, now: float) -> None:
    """A new party, or a revoked one that was invited again: its mirrored ledger goes on where it was."""
    values = {"state": "active", "cause": "", "since": now, "agreed": None}
    known = find(connection, party)
    if known is None:
        connection.execute(insert(parties).values(id=party, role=role, **values))
    elif known.state == "revoked":
        connection.execute(update(parties).where(parties.c.id == party).values(**values))
    else:
        raise Conflict(f"{party} is enrolled already.", "It rotates its key itself.")


def _add_key(connection: Connection, party: str, key_id: str, public_key: str, now: float) -> None:
    if connection.execute(select(keys.c.key_id).where(keys.c.key_id == key_id)).first():
        raise Conflict("This key was enrolled before.", "Make a new key: one key belongs to one party, once.")
    row = {"key_id": key_id, "party": party, "public_key": public_key, "state": "active", "created": now}
    connection.execute(insert(keys).values(row))


def _hash(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
