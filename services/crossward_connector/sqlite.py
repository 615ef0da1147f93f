"""A query on an SQLite file, which is opened for reading alone.

All values come as texts: SQLite's columns have no type, and a later row must not change how an earlier one is read.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from crossward.errors import InvalidData
from crossward_connector.tables import (
    Fault,
    Faults,
    Form,
    Limits,
    Piece,
    check_cells,
    check_count,
    check_rows,
    check_some,
    columns_of,
    too_long,
)

_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
_FORBIDDEN = frozenset({"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit"})
_ONLY_READ = "Give one SELECT that only reads."

_HALF = (
    "The database was left in the middle of a change.",
    "Open it once with the program that writes it, which mends it, or give a copy.",
)
_WORDS = {
    sqlite3.SQLITE_AUTH: ("The query does more than read.", _ONLY_READ),
    sqlite3.SQLITE_READONLY: ("The query does more than read.", _ONLY_READ),
    sqlite3.SQLITE_READONLY_ROLLBACK: _HALF,
    sqlite3.SQLITE_READONLY_RECOVERY: _HALF,
    sqlite3.SQLITE_READONLY_CANTINIT: _HALF,
    sqlite3.SQLITE_BUSY: ("The database is locked by others.", "Ask when nobody writes, or give a copy."),
    sqlite3.SQLITE_CANTOPEN: ("The database cannot be opened.", "Check that the file is there and may be read."),
    sqlite3.SQLITE_NOTADB: ("This is no SQLite database.", "Correct the connection's url."),
    sqlite3.SQLITE_CORRUPT: ("The database is damaged.", "Restore it from a copy."),
    sqlite3.SQLITE_INTERRUPT: ("The query took too long.", "Ask for less, or raise data_limits.seconds."),
    sqlite3.SQLITE_TOOBIG: ("A value is larger than a cell may be.", "Leave it out, or raise data_limits.cell."),
    sqlite3.SQLITE_NOMEM: ("The query took too much memory.", "Ask for less, or raise data_limits.memory."),
    sqlite3.SQLITE_IOERR: ("The database cannot be read to its end.", "Ask for less at once, and check the disk."),
    sqlite3.SQLITE_ERROR: ("The query is not understood.", "Check its words, tables and columns where you wrote it."),
}


class SqliteFile:
    """An open database in a reading transaction: nothing is opened by name after this."""

    def __init__(self, where: str, path: str, limits: Limits) -> None:
        self.where = where
        if not os.path.isfile(path):
            raise InvalidData(f"{where}: the database file is not there.", "Correct the connection's url.")
        mode = "mode=ro&immutable=1" if _at_rest(path) else "mode=ro"
        self._end = time.monotonic() + limits.seconds
        try:
            self.connection = sqlite3.connect(
                f"file:{quote(path)}?{mode}", uri=True, timeout=limits.silence / 2, isolation_level=None
            )
            self.connection.text_factory = bytes
            self.connection.execute("PRAGMA query_only = ON")
            self.connection.execute("PRAGMA temp_store = MEMORY")
            self.connection.execute("PRAGMA trusted_schema = OFF")
            self.connection.execute("PRAGMA mmap_size = 0")
            self.connection.execute("BEGIN")
            self.connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
            self.connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(limits.cell, 1 << 16) + 1)
            self.connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        except sqlite3.Error as error:
            if hasattr(self, "connection"):
                self.close()
            raise self.refusal(error) from None
        self.connection.set_authorizer(_authorize)
        self.connection.set_progress_handler(lambda: time.monotonic() > self._end, 100_000)

    def close(self) -> None:
        """Roll back and leave."""
        self.connection.close()

    def refusal(self, error: sqlite3.Error) -> InvalidData:
        """Words for a failure; never the driver's, which may quote the query or a value."""
        if isinstance(error, sqlite3.Warning | sqlite3.ProgrammingError):
            return InvalidData(f"{self.where}: The query is more than one statement.", _ONLY_READ)
        extended = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        code = extended & 0xFF
        cause, fix = _WORDS.get(extended) or _WORDS.get(
            code, (f"SQLite refuses with code {code}.", "Check the query and the database.")
        )
        return InvalidData(f"{self.where}: {cause}", fix)


class SqliteReading:
    """One reading of a query's result."""

    def __init__(
        self, file: SqliteFile, query: str, wanted: Sequence[str] | None, limits: Limits, lenient: bool = False
    ) -> None:
        self.faults = Faults(file.where, lenient, "row")
        self._file, self._limits = file, limits
        try:
            self._cursor = file.connection.execute(query)
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise file.refusal(error) from None  # type: ignore[arg-type]
        except (ValueError, UnicodeError, OverflowError):
            raise InvalidData(f"{file.where}: The query holds characters that no query does.", _ONLY_READ) from None
        if self._cursor.description is None:
            raise InvalidData(f"{file.where}: The query gives no table.", _ONLY_READ)
        names = [column[0] for column in self._cursor.description]
        check_count(len(names), limits, self.faults)
        self._columns = columns_of(names, wanted, self.faults)
        self.schema = pa.schema([(names[index], pa.string()) for index in self._columns])
        self.form = Form("sql", tuple(names))

    def close(self) -> None:
        """Roll back."""
        self._file.close()

    def pieces(self) -> Iterator[Piece]:
        """All rows, as texts."""
        rows, size = 0, 64
        while batch := self._fetch(size):
            plain = self._make(batch, rows)
            rows += len(batch)
            check_rows(rows, self._limits, self.faults)
            if long := check_cells(plain, self._limits):
                raise self.faults.fatal(too_long(self._limits, rows - len(batch) + long[0] + 1, long[1]))
            yield Piece(plain, 0.0)
            width = max(plain.nbytes // len(batch), 64 * len(self._columns), 1)
            size = max(1, min(self._limits.batch_rows, self._limits.batch_bytes // width, 4 * size))
        check_some(rows, self.faults)

    def _fetch(self, size: int) -> list[Any]:
        try:
            return self._cursor.fetchmany(size)
        except sqlite3.Error as error:
            raise self._file.refusal(error) from None

    def _make(self, rows: list[Any], before: int) -> pa.RecordBatch:
        columns = [[_text(row[index]) for row in rows] for index in self._columns]
        for name, column in zip(self.schema.names, columns, strict=True):
            if (at := next((row for row, value in enumerate(column) if value is False), None)) is not None:
                cause, fix = "A cell holds bytes that are no text.", "Leave the column out, or convert it."
                raise self.faults.fatal(Fault(cause, fix, before + at + 1, name[:200]))
        return pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in columns], schema=self.schema)


def _text(value: Any) -> str | bool | None:
    """A value as text; False where there is none."""
    if value is None:
        return None
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return False
    return repr(value)


def _authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    if action not in _ALLOWED or (action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FORBIDDEN):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _at_rest(path: str) -> bool:
    """Whether the file writes ahead (WAL) and nobody has it open: SQLite would make files beside it otherwise."""
    try:
        with open(path, "rb") as file:
            ahead = file.read(20)[18:20] == b"\x02\x02"
        return ahead and not (os.path.exists(f"{path}-wal") and os.path.getsize(f"{path}-wal"))
    except OSError:
        return False
