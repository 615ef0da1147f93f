"""One chain of migrations for every site, source or target; it ships with the package and needs no ini file."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Engine

from crossward_service.db.migrations import Migrations

MIGRATIONS = Migrations(Path(__file__).parent, lock=0x73697465, fix="Start the site once: it brings its database up.")


def migrate(engine: Engine) -> None:
    """Bring a site's database to the newest form, in one transaction; do nothing if it is there."""
    MIGRATIONS.upgrade(engine)
