"""What a reading is asked for, and who reads it. A request is JSON: nothing of it is code."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from crossward_connector.tables import Limits, Reading

CSV, PARQUET, POSTGRES, SQLITE = "csv", "parquet", "postgresql", "sqlite"
_READERS = {CSV: "csv_files", PARQUET: "parquet_files", POSTGRES: "postgres", SQLITE: "sqlite"}


@dataclass(frozen=True, slots=True)
class Request:
    """One reading: of open files (`files`: descriptors), or of a query on a database (`connection`).

    `connection` is what libpq takes, or the `path` of an SQLite file. `options` are a CSV's.
    With `probe` nothing is read: the process says what it can still do, and which of these files it can open.
    """

    kind: str
    where: str
    wanted: tuple[str, ...] | None = None
    lenient: bool = False
    limits: Limits = field(default_factory=Limits)
    files: tuple[int, ...] = ()
    options: dict[str, str | None] = field(default_factory=dict)
    connection: dict[str, str] = field(default_factory=dict, repr=False)
    query: str = field(default="", repr=False)
    parent: int = 0
    probe: tuple[str, ...] = ()

    def to_json(self) -> bytes:
        """As it is sent."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Request:
        """As it was sent."""
        values = json.loads(data)
        wanted = values["wanted"]
        values |= {
            "wanted": None if wanted is None else tuple(wanted),
            "files": tuple(values["files"]),
            "probe": tuple(values["probe"]),
            "limits": Limits(**values["limits"]),
        }
        return cls(**values)


def load(kind: str) -> None:
    """Import all that reading this kind needs: afterwards no file may be opened."""
    match kind:
        case "csv":
            import crossward_connector.csv_files
        case "parquet":
            import crossward_connector.parquet_files
        case "postgresql":
            import crossward_connector.postgres
        case _:
            import crossward_connector.sqlite  # noqa: F401
    pa.array(["x"], pa.string())  # Arrow looks for pandas at the first array,
    pa.array(np.zeros(1))  # and for more of numpy at the first of numpy's


def connect(request: Request) -> Any:
    """Open the database, if there is one; files are open already."""
    if request.kind == POSTGRES:
        from crossward_connector.postgres import PostgresSession

        return PostgresSession(request.where, request.connection, request.limits)
    if request.kind == SQLITE:
        from crossward_connector.sqlite import SqliteFile

        return SqliteFile(request.where, request.connection["path"], request.limits)
    return None


def begin(request: Request, database: Any) -> Reading:
    """Look at the table's beginning: how it is written, and which columns it has."""
    try:
        return _begin(request, database)
    except BaseException:
        if database is not None:
            database.close()
        raise


def _begin(request: Request, database: Any) -> Reading:
    wanted, limits, lenient = request.wanted, request.limits, request.lenient
    if request.kind == CSV:
        from crossward_connector.csv_files import CsvOptions, CsvReading

        (file,) = request.files
        size = os.fstat(file).st_size
        read = _reader(file, size)
        return CsvReading(request.where, read, size, wanted, CsvOptions(**request.options), limits, lenient)
    if request.kind == PARQUET:
        from crossward_connector.parquet_files import ParquetReading

        return ParquetReading(request.where, request.files, wanted, limits, lenient)
    if request.kind == POSTGRES:
        from crossward_connector.postgres import PostgresReading

        return PostgresReading(database, request.query, wanted, limits, lenient)
    from crossward_connector.sqlite import SqliteReading

    return SqliteReading(database, request.query, wanted, limits, lenient)


def _reader(descriptor: int, size: int) -> Callable[[int], bytes]:
    """Reads a file from its beginning, to where it ended when it was opened."""
    at = 0

    def read(count: int) -> bytes:
        nonlocal at
        data = os.pread(descriptor, min(count, size - at), at)
        at += len(data)
        return data

    return read


def names(columns: Sequence[str] | None) -> tuple[str, ...] | None:
    """Wanted columns as a request has them."""
    return None if columns is None else tuple(columns)
