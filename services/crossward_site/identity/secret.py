"""The site's secret: it keys the hashes of persons, so that neither a thief of the database nor chance knows them.

It lies in a file of mode 0600 beside the database, not in it. The database remembers its fingerprint: with another
secret every person would look new and get a fresh seat, and with it a fresh budget.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path

from sqlalchemy import Connection, Engine

from crossward.errors import UnsafeKeyFile
from crossward_service.db.engine import read, write
from crossward_service.ops.machine import Machine
from crossward_site import facts

FILE = "site.secret"


def site_secret(engine: Engine, home: Path, machine: Machine) -> bytes:
    """The secret of this site, made the first time."""
    path = home / FILE
    with read(engine) as connection:
        if facts.SECRET_FINGERPRINT.get(connection) is not None:
            return known_secret(connection, home)
    with write(engine) as connection:
        if facts.SECRET_FINGERPRINT.get(connection) is None:
            if not path.exists():
                _make(path, machine)
            facts.SECRET_FINGERPRINT.put(connection, _fingerprint(_load(path)))
        return known_secret(connection, home)


def known_secret(connection: Connection, home: Path) -> bytes:
    """The secret in the site's folder, if it is the one that the database knows; makes nothing."""
    path = home / FILE
    secret = _load(path)
    if facts.SECRET_FINGERPRINT.get(connection) != _fingerprint(secret):
        raise UnsafeKeyFile(
            f"{path} is not the secret of this database.", "Restore the file that belongs to the database."
        )
    return secret


def keyed(secret: bytes, *parts: str) -> str:
    """A keyed hash of texts; their lengths are hashed too, so that no two lists run together."""
    message = b"".join(len(part.encode()).to_bytes(8, "big") + part.encode() for part in parts)
    return hmac.digest(secret, message, "sha256").hex()


def _fingerprint(secret: bytes) -> str:
    return hashlib.sha256(b"crossward site secret" + secret).hexdigest()


def _make(path: Path, machine: Machine) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(machine.secret(32).hex())
        file.flush()
        os.fsync(file.fileno())


def _load(path: Path) -> bytes:
    try:
        mode = path.stat().st_mode
        secret = bytes.fromhex(path.read_text())
    except (OSError, ValueError):
        raise UnsafeKeyFile(
            f"The site's secret {path} cannot be read.", "Restore it; without it persons cannot be told apart."
        ) from None
    if os.name == "posix" and mode & 0o027:
        raise UnsafeKeyFile(f"{path} can be read by others.", f"Run chmod 600 {path}.")
    if len(secret) != 32:
        raise UnsafeKeyFile(f"{path} is cut short.", "Restore it.")
    return secret
