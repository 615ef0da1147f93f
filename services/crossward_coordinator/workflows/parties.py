"""Who takes part, and who does not for now: a party is active, stopped with a cause, or revoked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from sqlalchemy import Connection, Row, delete, func, select, update

from crossward.errors import Conflict, Forged, KeyRevoked, NotFound, PartyStopped
from crossward.protocol import keys as ed25519
from crossward.protocol.messages import key_id_of
from crossward_coordinator.tables import invites, keys, parties, results


def find(connection: Connection, party: str) -> Row[Any] | None:
    """A party, if there is one of this name."""
    return connection.execute(select(parties).where(parties.c.id == party)).one_or_none()


def lock(connection: Connection, party: str) -> Row[Any]:
    """A party that nobody else changes until this transaction ends."""
    query = select(parties).where(parties.c.id == party).with_for_update(key_share=True)
    row = connection.execute(query).one_or_none()
    if row is None:
        raise NotFound(f"There is no party {party}.", "GET /v1/parties lists them.")
    return row


def lock_signer(connection: Connection, party: str) -> Row[Any]:
    """A party whose signed request is carried out. It may have been revoked since the signature was verified."""
    row = lock(connection, party)
    if row.state == "revoked":
        raise KeyRevoked(f"{party} was revoked.", "Ask the operator for a new invitation.")
    return row


def page(connection: Connection, after: str, limit: int) -> list[Row[Any]]:
    """Parties in the order of their names."""
    query = select(parties).where(parties.c.id > after).order_by(parties.c.id).limit(limit)
    return list(connection.execute(query))


def keys_of(connection: Connection, names: Sequence[str]) -> dict[str, list[Row[Any]]]:
    """All keys these parties ever had, the newest first."""
    query = select(keys).where(keys.c.party.in_(names)).order_by(keys.c.created.desc(), keys.c.key_id)
    found: dict[str, list[Row[Any]]] = {name: [] for name in names}
    for row in connection.execute(query):
        found[row.party].append(row)
    return found


def key_named(connection: Connection, party: str, name: str) -> Row[Any] | None:
    """A key that the party has or had, by the name it signs releases with."""
    for row in keys_of(connection, [party])[party]:
        # Requests name a key by 16 digits of its hash, releases by 32 of the same.
        if name in (row.key_id, key_id_of(ed25519.public_key(row.public_key))):
            return row
    return None


def release_key(connection: Connection, party: str, name: str) -> Ed25519PublicKey:
    """The key that a party signs releases with under this name: one it has now, or had before it rotated."""
    row = key_named(connection, party, name)
    if row is None or row.state == "revoked":
        raise Forged(f"{party!r} has no key {name} here.", "Sign with a key that is enrolled.")
    return ed25519.public_key(row.public_key)


def check_active(row: Row[Any]) -> None:
    """Refuse work to a party that is stopped."""
    if row.state == "stopped":
        raise PartyStopped(
            f"{row.id} is stopped: {row.cause}",
            "Compare both ledgers (crossward ledger verify); an operator then reconciles the party.",
        )


def stop(connection: Connection, party: str, cause: str, now: float) -> None:
    """Give a party no more work, and say why."""
    connection.execute(
        update(parties).where(parties.c.id == party).values(state="stopped", cause=cause, since=now, agreed=None)
    )


def reconcile(connection: Connection, party: str, now: float) -> None:
    """Let a stopped party go on, once it has shown a ledger that extends the mirror."""
    row = lock(connection, party)
    if row.state == "active":
        return
    if row.state == "revoked":
        raise Conflict(f"{party} was revoked.", "Invite it again.")
    if row.agreed is None:
        raise Conflict(
            f"{party} has not shown a ledger that extends the mirror since it was stopped: {row.cause}",
            "The site compares its ledger with the mirror, repairs it, and sends its last lines again.",
        )
    connection.execute(update(parties).where(parties.c.id == party).values(state="active", cause="", since=now))


def revoke(connection: Connection, party: str, now: float) -> bool:
    """No key of the party counts any more; True if it was not revoked before. Its ledger's mirror is kept.

    What was accepted was accepted before, also where two machines' clocks differ.
    """
    row = lock(connection, party)
    connection.execute(delete(invites).where(invites.c.party == party, invites.c.used_by.is_(None)))
    if row.state == "revoked":
        return False
    values = {"state": "revoked", "cause": "An operator revoked it.", "since": now}
    connection.execute(update(parties).where(parties.c.id == party).values(**values))
    last = connection.execute(select(func.max(results.c.stored)).where(results.c.party == party)).scalar()
    counted = update(keys).where(keys.c.party == party, keys.c.state != "revoked")
    connection.execute(counted.values(state="revoked", revoked=max(now, last or now)))
    return True
