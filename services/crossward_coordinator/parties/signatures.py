"""Signed requests: by an enrolled key, and used once.

A signature is verified before its request's own transaction begins, so each of these opens one for itself: a request
that fails later has still spent its nonce. Nonces are in the database, so that all processes share them.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, Engine, bindparam, delete, update

from crossward.protocol.states import KeyState
from crossward_coordinator.parties import service
from crossward_coordinator.parties.tables import nonces, parties
from crossward_service.db.engine import UnlessThere, read, write
from crossward_service.http.signing import PartyKey, revoked

_NEW_NONCE = UnlessThere(nonces, nonces.c.nonce)
_HERE = update(parties).where(parties.c.id == bindparam("signer"))


class DatabaseNonces:
    """Spends nonces."""

    def __init__(self, engine: Engine, clock: Callable[[], float]) -> None:
        self._engine, self._clock = engine, clock

    def seen(self, party: str, key_id: str, nonce: str, expires: int) -> bool:
        """Remember a nonce, and that the party was here; True if the nonce was there already."""
        row = {"party": party, "nonce": nonce, "expires": float(expires)}
        with write(self._engine) as connection:
            key = service.find_key(connection, party, key_id)
            if key is None or key.state is not KeyState.ACTIVE:
                raise revoked(party, key_id)
            added = _NEW_NONCE.insert(connection, row)
            if added:
                connection.execute(_HERE, {"signer": party, "seen": self._clock()})
        return not added


class DatabaseKeys:
    """Finds enrolled keys."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __call__(self, party: str, key_id: str, /) -> PartyKey | None:
        """The key of this id that this party enrolled; only an active one may sign requests."""
        with read(self._engine) as connection:
            key = service.find_key(connection, party, key_id)
        return None if key is None else PartyKey(key.public_key, key.state is not KeyState.ACTIVE)


def purge(connection: Connection, now: float) -> None:
    """Forget nonces whose requests are too old to be accepted."""
    connection.execute(delete(nonces).where(nonces.c.expires < now))
