"""What a coordinator's backup holds: its database, and the key that signs for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import Engine

from crossward_coordinator import identity
from crossward_coordinator.database import MIGRATIONS
from crossward_coordinator.ledger.service import count_verified
from crossward_coordinator.settings import CoordinatorSettings
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
        mirrors, lines = count_verified(connection)
    return f"coordinator {own.key_id}, {mirrors} parties, {lines} ledger lines"
