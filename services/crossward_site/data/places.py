"""Where records lie, and reading them: every refusal names the place.

Values come as they are written. A CSV holds texts only: guessing a column's type from all of its values would let one
record change how another is read.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from pydantic import Field
from sqlalchemy import Connection, create_engine, exc, text
from sqlalchemy.engine import make_url

from crossward.errors import CrosswardError, EmptyData, InvalidData
from crossward.learning.encoding.tables import Column
from crossward.values import Section

Short = Annotated[str, Field(min_length=1, max_length=4000)]


@dataclass(frozen=True, slots=True)
class Raw:
    """Columns by name, all of one length, and the words for a row of them in this place."""

    where: str
    columns: dict[str, Column]
    rows: int
    row_name: Callable[[int], str]


class CsvPlace(Section):
    """A CSV file with a line of column names."""

    kind: Literal["csv"] = "csv"
    path: Short
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    encoding: Annotated[str, Field(max_length=40)] = "utf-8"

    @property
    def where(self) -> str:
        """The file."""
        return self.path

    def names(self) -> list[str]:
        """The columns there are."""
        try:
            encoding = "utf-8-sig" if self.encoding.lower().replace("_", "-") == "utf-8" else self.encoding
            with Path(self.path).open(encoding=encoding, newline="") as file:
                names = next(csv.reader(file, delimiter=self.delimiter), [])
        except (OSError, ValueError, LookupError, csv.Error) as error:
            raise _unreadable(self.path, error) from None
        if not names:
            raise EmptyData(f"{self.path} is empty.", "Give a file with a line of column names, then one per record.")
        return names

    def read(self, wanted: list[str]) -> Raw:
        """These columns."""
        _check_names(self.path, self.names(), wanted)
        convert = pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(wanted, pa.string()), include_columns=wanted, strings_can_be_null=False
        )
        parse = pyarrow.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True)
        # Without threads its errors name the row.
        options = pyarrow.csv.ReadOptions(encoding=self.encoding, use_threads=False)
        try:
            table = pyarrow.csv.read_csv(self.path, options, parse, convert)
        except (OSError, pa.ArrowException, LookupError, ValueError) as error:
            raise _unreadable(self.path, error) from None
        columns: dict[str, Column] = {name: table.column(name).to_pylist() for name in wanted}
        return Raw(self.path, columns, table.num_rows, lambda row: f"line {row + 2}")


class ParquetPlace(Section):
    """A Parquet file, or a folder of them."""

    kind: Literal["parquet"]
    path: Short

    @property
    def where(self) -> str:
        """The file."""
        return self.path

    def names(self) -> list[str]:
        """The columns there are."""
        try:
            return list(pyarrow.parquet.ParquetDataset(self.path).schema.names)
        except (OSError, pa.ArrowException, ValueError) as error:
            raise _unreadable(self.path, error) from None

    def read(self, wanted: list[str]) -> Raw:
        """These columns."""
        _check_names(self.path, self.names(), wanted)
        try:
            table = pyarrow.parquet.read_table(self.path, columns=wanted)
        except (OSError, pa.ArrowException, ValueError) as error:
            raise _unreadable(self.path, error) from None
        columns = {name: _plain(table.column(name)) for name in wanted}
        return Raw(self.path, columns, table.num_rows, _counted)


class SqlPlace(Section):
    """The result of a query. `${NAME}` in the URL is taken from the environment: passwords need not be stored."""

    kind: Literal["sql"]
    url: Short
    query: Annotated[str, Field(min_length=1, max_length=100_000)]

    @property
    def where(self) -> str:
        """The database, without user and password."""
        kind, mark, rest = self.url.partition("://")
        if not mark:  # no URL; a word is shown, and a variable's name, but nothing that may hold a password
            return f"the query on {self.url if self.url.strip('${}').isidentifier() else 'a database'}"
        before, _, after = rest.rpartition("@")
        # A question mark before the @ is the password's, or begins options that may hold one: then the kind must do.
        return f"the query on {kind}{mark}{'' if '?' in before else after.partition('?')[0]}"

    def names(self) -> list[str]:
        """The columns there are."""
        return self._run(lambda result: list(result.keys()))  # type: ignore[no-any-return]

    def read(self, wanted: list[str]) -> Raw:
        """These columns."""

        def fetch(result: Any) -> Raw:
            names = list(result.keys())
            _check_names(self.where, names, wanted)
            rows = result.all()
            columns: dict[str, Column] = {
                name: [row[index] for row in rows] for name, index in ((name, names.index(name)) for name in wanted)
            }
            return Raw(self.where, columns, len(rows), _counted)

        return self._run(fetch)  # type: ignore[no-any-return]

    def reach(self) -> None:
        """Connect and ask nothing: what the database says then is about the way to it, never about a record."""
        self._run(None)

    def _run(self, use: Callable[[Any], Any] | None) -> Any:
        try:
            engine = create_engine(make_url(os.path.expandvars(self.url)))
            try:
                with engine.connect() as connection:
                    return None if use is None else use(self._table(connection))
            finally:
                engine.dispose()
        except CrosswardError:
            raise
        except (exc.SQLAlchemyError, ImportError, OSError, ValueError, TypeError, LookupError) as error:
            # Drivers answer a URL or a query that makes no sense (a NUL, a port that is no number) with any of these.
            words = str(getattr(error, "orig", None) or _in_words(error)).partition("\n")[0].rstrip(".")
            raise InvalidData(f"{self.where} fails: {words}.", "Check URL, rights and query.") from None

    def _table(self, connection: Connection) -> Any:
        result = connection.execute(text(self.query))
        if not result.returns_rows:
            raise InvalidData(
                f"{self.where} gives no table.", "Give a query that only reads, such as SELECT ... FROM ..."
            )
        return result


AnyPlace = CsvPlace | ParquetPlace | SqlPlace
"""Where records lie."""

Place = Annotated[AnyPlace, Field(discriminator="kind")]
"""A place as it is read from a document."""


def _counted(row: int) -> str:
    return f"row {row + 1}"


def _in_words(error: Exception) -> str:
    """What is wrong where the library's own words may quote the URL."""
    if isinstance(error, exc.NoSuchModuleError):
        return "no such kind of database is known"
    if isinstance(error, ImportError):
        return f"the driver {error.name} is not installed"
    if isinstance(error, exc.ArgumentError):
        return "this is no URL such as postgresql://host/database"
    return type(error).__name__


def _plain(column: Any) -> Column:
    if pa.types.is_floating(column.type) or (pa.types.is_integer(column.type) and column.null_count == 0):
        return np.asarray(column.to_numpy())
    return list(column.to_pylist())


def _unreadable(path: str, error: Exception) -> InvalidData:
    words = getattr(error, "strerror", None) or str(error).partition("\n")[0]
    return InvalidData(f"{path} cannot be read: {words}", "Check the path, its rights and its form.")


def _check_names(where: str, there: list[str], wanted: list[str]) -> None:
    if missing := [name for name in wanted if name not in there]:
        listed = ", ".join(repr(name) for name in missing)
        raise InvalidData(
            f"{where} has no column {listed}.", f"Map to a column that is there: {', '.join(there[:60])}."
        )
    if twice := sorted({name for name in wanted if there.count(name) > 1}):
        raise InvalidData(f"{where} has the column {twice[0]!r} twice.", "Rename one of them.")
