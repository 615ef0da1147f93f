"""Whether a database takes writes, by writing: one row of a table of its own counts how often that was asked."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from sqlalchemy import BigInteger, Column, Engine, Integer, MetaData, Table

from crossward.errors import StorageFailed
from crossward_service.db.engine import new_row, write

ROOM_BYTES = 1 << 16


def probe_table(metadata: MetaData) -> Table:
    """The table, to be made by a service's migrations."""
    return Table(
        "probe",
        metadata,
        Column("id", Integer, primary_key=True, autoincrement=False),
        Column("count", BigInteger, nullable=False),
    )


def check_writes(engine: Engine, probe: Table) -> None:
    """Refuse a database that cannot commit a write and flush it, or whose disk has no room for more."""
    with write(engine) as connection:
        row = new_row(connection, probe).values(id=1, count=1)
        connection.execute(row.on_conflict_do_update(index_elements=["id"], set_={"count": probe.c.count + 1}))
    if engine.dialect.name == "sqlite":
        # A full disk may still take that row: SQLite writes it where its log has been before.
        _check_room(Path(engine.url.database or "").parent)


def _check_room(folder: Path) -> None:
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            left = ROOM_BYTES
            while left:
                left -= file.write(bytes(left))
            os.fsync(file.fileno())
    except OSError as error:
        raise StorageFailed(
            f"Nothing more can be written to {folder}: {error.strerror}.", "Free space there."
        ) from None
