"""The coordinator's own key: a file that only its owner reads; the database knows its public half."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Column, Connection, Float, String, Table, insert, select

from crossward.errors import InvalidSetting, NotReady
from crossward.protocol import keys
from crossward.protocol.constants import COORDINATOR
from crossward.protocol.envelopes import SignedReceipt
from crossward.protocol.messages import Receipt
from crossward_coordinator.database import metadata
from crossward_service.ops.machine import Machine

identity = Table(
    "identity",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("public_key", String(64), nullable=False),
    Column("created", Float, nullable=False),
)
"""Which key signs for this database, one row. The private key is a file: a copy of the database signs nothing."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The key that signs receipts, aggregates and certificates."""

    key: Ed25519PrivateKey

    @property
    def public_key(self) -> str:
        """The public half, as it travels."""
        return keys.public_text(self.key)

    @property
    def key_id(self) -> str:
        """The key's name."""
        return keys.key_id(self.key)

    def sign(self, receipt: Receipt) -> SignedReceipt:
        """Countersign."""
        return SignedReceipt.sign(receipt, self.key)


def load(path: Path) -> Identity:
    """The identity in a key file."""
    return Identity(keys.load(path))


def load_or_make(path: Path, machine: Machine) -> Identity:
    """The identity in a key file, made if there is none."""
    if not path.exists():
        keys.save(keys.generate(machine.secret), path)
    return load(path)


def register(connection: Connection, own: Identity, now: float) -> None:
    """Bind a database to a key, once."""
    if _registered(connection) is None:
        connection.execute(insert(identity).values(name=COORDINATOR, public_key=own.public_key, created=now))
    check(connection, own)


def check(connection: Connection, own: Identity) -> None:
    """Refuse to sign for a database that another key signs for: receipts of one coordinator have one key."""
    registered = _registered(connection)
    if registered is None:
        raise NotReady("This database has no coordinator yet.", "Run crossward coordinator init.")
    if registered != own.public_key:
        raise InvalidSetting(
            "The key file is not the key of this database.", "Give the key file that was made with the database."
        )


def _registered(connection: Connection) -> str | None:
    return connection.execute(select(identity.c.public_key).where(identity.c.name == COORDINATOR)).scalar_one_or_none()
