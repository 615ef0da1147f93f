"""Bringing a database to the form that the code was written for; each service ships a chain of migrations of its own.

A database only moves forward. One that a later version has changed is refused: this code does not know what it holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, column, inspect, select, table, text

from crossward.errors import NotReady
from crossward.version import __version__
from crossward_service.db.engine import read, write

_VERSIONS = table("alembic_version", column("version_num"))


@dataclass(frozen=True, slots=True)
class Migrations:
    """A chain of migrations: its folder, a lock for processes that start at once, and what brings a database there."""

    folder: Path
    lock: int
    fix: str

    def upgrade(self, engine: Engine) -> None:
        """Bring a database to the newest form, in one transaction; do nothing if it is there."""
        with read(engine) as connection:
            at = current_migration(connection)
        self.check_known(at)
        if at == self.newest:
            return
        with write(engine) as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": self.lock})
            at = current_migration(connection)
            self.check_known(at)
            if at != self.newest:
                config = _config(self.folder)
                config.attributes["connection"] = connection
                command.upgrade(config, "head")

    def check_newest(self, connection: Connection) -> None:
        """Refuse a database that is not of the form this code was written for."""
        at = current_migration(connection)
        self.check_known(at)
        if at != self.newest:
            raise NotReady(
                f"The database is at migration {at or 'none'} and this version needs {self.newest}.", self.fix
            )

    def check_known(self, revision: str | None) -> None:
        """Refuse a migration that this code has never heard of."""
        if revision is not None and revision not in _chain(self.folder)[0]:
            raise NotReady(
                f"The database is at migration {revision}, which this version ({__version__}) does not know: a later "
                "version made it.",
                "Run that version, or restore the backup made before the upgrade with this one.",
            )

    @property
    def newest(self) -> str | None:
        """The migration that this code needs."""
        return _chain(self.folder)[1]


@cache
def _chain(folder: Path) -> tuple[frozenset[str], str | None]:
    """All migrations of a folder, and the newest of them."""
    scripts = ScriptDirectory.from_config(_config(folder))
    return frozenset(script.revision for script in scripts.walk_revisions()), scripts.get_current_head()


def _config(folder: Path) -> Config:
    config = Config()
    # A percent sign in a path would be read as an interpolation.
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    return config


def current_migration(connection: Connection) -> str | None:
    """The migration a database is at; None for an empty one."""
    if not inspect(connection).has_table(_VERSIONS.name):
        return None
    return connection.execute(select(_VERSIONS.c.version_num)).scalar_one_or_none()
