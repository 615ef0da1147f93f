"""Signed requests are used once: nonces in the database, so that all processes share them."""

from __future__ import annotations

import time

from sqlalchemy import Connection, Engine, delete, select, update
from sqlalchemy.dialects import postgresql, sqlite

from crossward_coordinator.tables import keys, nonces, parties
from crossward_service.db.engine import read, write
from crossward_service.http.signing import PartyKey


class DatabaseNonces:
    """Spends nonces in transactions of their own: a request that fails later has still spent its nonce."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def seen(self, party: str, nonce: str, expires: int) -> bool:
        """Remember a nonce, and that the party was here; True if the nonce was there already."""
        dialect = postgresql if self._engine.dialect.name == "postgresql" else sqlite
        row = {"party": party, "nonce": nonce, "expires": float(expires)}
        with write(self._engine) as connection:
            added = connection.execute(
                dialect.insert(nonces).values(row).on_conflict_do_nothing().returning(nonces.c.nonce)
            ).first()
            if added:
                connection.execute(update(parties).where(parties.c.id == party).values(seen=time.time()))
        return added is None


class DatabaseKeys:
    """Finds enrolled keys."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __call__(self, party: str, key_id: str, /) -> PartyKey | None:
        """The key of this id that this party enrolled; only an active one may sign requests."""
        with read(self._engine) as connection:
            row = connection.execute(select(keys).where(keys.c.key_id == key_id, keys.c.party == party)).one_or_none()
        return None if row is None else PartyKey(row.public_key, row.state != "active")


def purge(connection: Connection, now: float) -> None:
    """Forget nonces whose requests are too old to be accepted."""
    connection.execute(delete(nonces).where(nonces.c.expires < now))
