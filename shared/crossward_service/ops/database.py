"""The database as an examination may touch it: one look, one lock taken and given back, nothing made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from sqlalchemy import Connection, Engine, text
from sqlalchemy.engine import make_url

from crossward.errors import NotReady, StorageBusy
from crossward_service.db.engine import connect, read, write
from crossward_service.db.migrations import Migrations, found
from crossward_service.http.settings import ServiceSettings
from crossward_service.ops.findings import Findings

PATIENCE = 3.0
NOT_WRITABLE = "Check the rights of its file and folder, or of the database's role, and that neither is read-only."


def sqlite_file(settings: ServiceSettings) -> Path | None:
    """Where an SQLite database lies; None for PostgreSQL."""
    url = make_url(settings.database_url)
    return Path(url.database or "") if url.get_backend_name() == "sqlite" else None


@contextmanager
def _opened(settings: ServiceSettings) -> Iterator[Engine]:
    """The service's database. An SQLite file that is not there is not made."""
    file = sqlite_file(settings)
    if file is not None and not file.is_file():
        raise NotReady(f"The database {file} is not there.", "Run init, or correct the data directory.")
    engine = connect(settings.database_url, PATIENCE)
    try:
        yield engine
    finally:
        engine.dispose()


def examine(findings: Findings, settings: ServiceSettings, migrations: Migrations, stack: ExitStack) -> Engine | None:
    """Whether it can be reached, is of the form this code needs, and may be written; None if looking on is no use.

    It stays open until the stack is closed.
    """
    engine = None
    with findings.looking_at("database") as note:
        opened = stack.enter_context(_opened(settings))
        with read(opened) as connection:
            connection.execute(text("SELECT 1"))
        note.ok(f"{settings.describe()['database_url']} answers.")
        engine = opened
    if engine is None:
        return None
    usable = False
    with findings.looking_at("migrations") as note, read(engine) as connection:
        migrations.check_newest(connection)
        note.ok(f"At migration {found(connection)}, as this release needs.")
        usable = True
    if not usable:
        return None
    _writable(findings, engine)
    return engine


class _Enough(Exception):
    """Ends a transaction that has shown what it can."""


def _writable(findings: Findings, engine: Engine) -> None:
    with findings.looking_at("writing") as note:
        try:
            with suppress(_Enough), write(engine) as connection:
                if engine.dialect.name == "postgresql" and not _may_write(connection):
                    note.fault("The database takes no writes from this role.", NOT_WRITABLE)
                else:  # on a read-only file SQLite begins the transaction all the same; it refuses this, of no row
                    connection.execute(text("UPDATE ledger_heads SET sequence = sequence WHERE 1 = 0"))
                raise _Enough
        except StorageBusy:
            note.warning("Another transaction held the write lock all the time.", "Ask again when there is less work.")
        if note.empty:
            note.ok("A write transaction was begun and given up.")


def _may_write(connection: Connection) -> bool:
    query = (
        "SELECT current_setting('transaction_read_only') = 'off' "
        "AND has_table_privilege('ledger_lines', 'INSERT') AND has_table_privilege('ledger_heads', 'UPDATE')"
    )
    return bool(connection.execute(text(query)).scalar())
