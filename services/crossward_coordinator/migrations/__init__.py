"""The coordinator's chain of migrations; it ships with the package and needs no ini file."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine

from crossward_service.db.migrations import Migrations

MIGRATIONS = Migrations(Path(__file__).parent, lock=0x63726F7373, fix="Run crossward coordinator init.")


def migrate(engine: Engine) -> None:
    """Bring a database to the newest form, in one transaction; do nothing if it is there."""
    MIGRATIONS.upgrade(engine)


def check_newest(connection: Connection) -> None:
    """Refuse a database that is not of the form this code was written for."""
    MIGRATIONS.check_newest(connection)
