"""What a coordinator's backup holds: its database, and the key that signs for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import Engine, select

from crossward_coordinator import identity
from crossward_coordinator.migrations import MIGRATIONS
from crossward_coordinator.settings import CoordinatorSettings
from crossward_coordinator.tables import parties
from crossward_coordinator.workflows import mirror
from crossward_service.db.engine import read
from crossward_service.ops.backup import Kind

KEY = "coordinator.key"


def kind(settings: CoordinatorSettings) -> Kind:
    """A coordinator's backup."""

    def files(_: Engine) -> Mapping[str, Path]:
        return {KEY: settings.key_path}

    return Kind("coordinator", MIGRATIONS, files, check)


def check(engine: Engine, folder: Path) -> str:
    """Refuse a copy whose key is another's, or whose mirrors do not hold."""
    own = identity.load(folder / KEY)
    with read(engine) as connection:
        identity.check(connection, own)
        names = connection.execute(select(parties.c.id).order_by(parties.c.id)).scalars().all()
        lines = sum(mirror.of(name).verify(connection).head.sequence for name in names)
    return f"coordinator {own.key_id}, {len(names)} parties, {lines} ledger lines"
