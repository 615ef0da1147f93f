"""What a reading is made of. No cell is quoted anywhere: lines, columns and counts are told, values never."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crossward.errors import EmptyData, InvalidData

Longs = NDArray[np.int64]

MOST_FAULTS = 100
"""So many are told one by one; of the others, their number."""

MOST_RUNS = 2_000_000
"""So many places where lines and rows part are kept; in a stranger file, rows are told instead of lines."""

TEXT, WHOLE, REAL, YES_NO = "text", "whole", "real", "yes-no"
TYPES = {TEXT: pa.string(), WHOLE: pa.int64(), REAL: pa.float64(), YES_NO: pa.bool_()}
"""The types of columns that a reading hands over; there are no others."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a reading may take; all of it public, from the site's settings. Times in seconds, sizes in bytes.

    `seconds` is for the whole reading, `silence` the longest time without a batch, `memory` the address space beyond
    what the interpreter and its libraries take, `cell` the longest cell.
    """

    seconds: float = 3600.0
    silence: float = 60.0
    rows: int = 100_000_000
    columns: int = 10_000
    memory: int = 1 << 30
    cell: int = 1 << 20
    batch_rows: int = 1 << 16

    @property
    def batch_bytes(self) -> int:
        """About how large a batch is: many of them fit into the memory."""
        return max(1 << 16, min(32 << 20, self.memory // 32))

    @property
    def message(self) -> int:
        """The most bytes that are handed over at once: a batch is cut into so small parts, and a row must fit."""
        return max(self.memory // 4, 2 * self.batch_bytes)

    @property
    def record(self) -> int:
        """The longest record of a text file."""
        return min(max(16 << 20, 4 * self.cell), max(1 << 20, self.memory // 16))


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong with a table's form, that a person must mend.

    `line` is the line of a CSV (its first is 1), or the row of anything else, from 1.
    """

    cause: str
    fix: str
    line: int | None = None
    column: str | None = None

    def refusal(self, where: str, unit: str = "line") -> InvalidData:
        """The fault as an error."""
        place = f"{where}, {unit} {self.line}: " if self.line is not None else f"{where}: "
        return InvalidData(f"{place}{self.cause}", self.fix)


DELIMITER, ENCODING, DECIMAL = "delimiter", "encoding", "decimal"
"""What may have to be told about a CSV."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a table is written, as it was found or told.

    `kind` is csv, parquet or sql. `decimal` is a comma where a CSV's numbers are written so. `total_rows` is known
    beforehand of Parquet alone. `short` columns are floating-point numbers of 32 bits or fewer: no ids. `guesses` names
    what was neither told nor follows from the line of column names, but was found by looking at records.
    """

    kind: str
    names: tuple[str, ...]
    delimiter: str = ""
    encoding: str = ""
    decimal: str = "."
    bom: bool = False
    total_rows: int | None = None
    short: tuple[str, ...] = ()
    guesses: tuple[str, ...] = ()


class Table(Protocol):
    """One reading of a place. `faults` is complete once `batches` is exhausted; `progress` is from 0 to 1."""

    where: str
    form: Form
    faults: list[Fault]
    progress: float

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The wanted columns, in order."""
        ...

    def line(self, row: int) -> str:
        """Where a row (from 0) stands, in words: `line 7` or `row 6`."""
        ...


@dataclass(frozen=True, slots=True)
class Piece:
    """A batch, and where its rows stand: row `starts[k]` and those after it are line `lines[k]` and those after it."""

    batch: pa.RecordBatch
    progress: float
    starts: Longs | None = None
    lines: Longs | None = None


class Reading(Protocol):
    """A reader at work on one table: what it found, then its pieces. `schema` names the columns handed over."""

    form: Form
    schema: pa.Schema
    faults: Faults

    def pieces(self) -> Iterator[Piece]:
        """The table from its beginning to its end, once."""
        ...

    def close(self) -> None:
        """Let go of what was open."""
        ...


class Faults:
    """The faults of one table. A strict reading ends with the first; a lenient one tells as many as are useful."""

    def __init__(self, where: str, lenient: bool, unit: str = "line") -> None:
        self.where, self.lenient, self.unit = where, lenient, unit
        self.kept: list[Fault] = []
        self.others = 0

    def add(self, fault: Fault) -> None:
        """Keep it, or raise it."""
        if not self.lenient:
            raise self.fatal(fault)
        if len(self.kept) < MOST_FAULTS:
            self.kept.append(fault)
        else:
            self.others += 1

    def fatal(self, fault: Fault) -> InvalidData:
        """The error of a fault beyond which nothing can be read."""
        return fault.refusal(self.where, self.unit)

    def all(self) -> list[Fault]:
        """What was found, in order."""
        if not self.others:
            return list(self.kept)
        rest = Fault(f"{self.others} more faults of these kinds.", "Mend the ones above first.")
        return [*self.kept, rest]


def parts(piece: Piece, limits: Limits, faults: Faults) -> Iterator[Piece]:
    """A piece in parts of about the bytes that a batch should have: rows may be far longer than those before them."""
    batch = piece.batch
    if batch.num_rows < 2 or batch.nbytes <= 2 * limits.batch_bytes:
        if batch.nbytes > limits.message - (1 << 16):
            cause = f"A row takes more than {limits.message:,} bytes, a quarter of data_limits.memory."
            raise faults.fatal(Fault(cause, "Leave out columns of documents and images."))
        yield piece
        return
    middle = batch.num_rows // 2
    for start, end in ((0, middle), (middle, batch.num_rows)):
        yield from parts(_cut(piece, start, end), limits, faults)


def _cut(piece: Piece, start: int, end: int) -> Piece:
    batch = piece.batch.slice(start, end - start)
    if piece.starts is None or piece.lines is None:
        return Piece(batch, piece.progress)
    first = int(np.searchsorted(piece.starts, start, side="right")) - 1
    last = int(np.searchsorted(piece.starts, end))
    starts, lines = piece.starts[first:last] - start, piece.lines[first:last].copy()
    lines[0] -= starts[0]
    starts[0] = 0
    return Piece(batch, piece.progress, starts, lines)


class Lines:
    """Which line each row stands in, kept as runs: a table with one line per row is one run, however long."""

    def __init__(self, unit: str = "line") -> None:
        self._unit = unit
        self._starts: list[Longs] = []
        self._lines: list[Longs] = []
        self._runs = 0
        self._next = (0, 0)

    def extend(self, row: int, rows: int, starts: Longs | None, lines: Longs | None) -> None:
        """The next `rows` rows, from `row` on; without lines, one after the other."""
        if starts is None or lines is None or self._runs > MOST_RUNS:
            return
        if rows and len(starts):
            known, line = self._next
            follows = self._runs and row == known and lines[0] == line and starts[0] == 0
            kept = slice(1, None) if follows else slice(None)
            self._starts.append(starts[kept] + row)
            self._lines.append(lines[kept])
            self._runs += len(starts[kept])
            self._next = (row + rows, int(lines[-1]) + rows - int(starts[-1]))

    def line(self, row: int) -> str:
        """Where a row stands, in words."""
        if not self._runs or self._runs > MOST_RUNS:
            return f"row {row + 1}"
        if len(self._starts) > 1:
            self._starts, self._lines = [np.concatenate(self._starts)], [np.concatenate(self._lines)]
        starts, lines = self._starts[0], self._lines[0]
        run = max(int(np.searchsorted(starts, row, side="right")) - 1, 0)
        return f"{self._unit} {int(lines[run]) + row - int(starts[run])}"


def runs(lines: Longs) -> tuple[Longs, Longs]:
    """The line of every row, as runs."""
    starts = np.concatenate([[0], np.flatnonzero(np.diff(lines) != 1) + 1]).astype(np.int64)
    return (starts, lines[starts]) if len(lines) else (starts[:0], lines)


@dataclass
class Opened:
    """A reading in this process, as the table that the site sees."""

    where: str
    reading: Reading
    limits: Limits
    faults: list[Fault] = field(default_factory=list)
    progress: float = 0.0

    def __post_init__(self) -> None:
        self.form = self.reading.form
        self._lines = Lines()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The wanted columns, in order; batches without rows are left out."""
        rows = 0
        for piece in self.reading.pieces():
            self._lines.extend(rows, piece.batch.num_rows, piece.starts, piece.lines)
            rows += piece.batch.num_rows
            self.progress = piece.progress
            if piece.batch.num_rows:
                yield piece.batch
        self.faults[:] = self.reading.faults.all()
        self.progress = 1.0

    def line(self, row: int) -> str:
        """Where a row stands, in words."""
        return self._lines.line(row)


def columns_of(names: Sequence[str], wanted: Sequence[str] | None, faults: Faults) -> list[int]:
    """Which columns are handed over: those wanted, or each one that has a name of its own."""
    seen: dict[str, int] = {}
    twice: dict[str, None] = {}
    for index, name in enumerate(names):
        if name in seen:
            twice[name] = None
        seen.setdefault(name, index)
    asked = list(seen) if wanted is None else list(dict.fromkeys(wanted))
    if missing := [name for name in asked if name not in seen]:
        there = ", ".join(shown(name) for name in list(seen)[:60] if name)
        listed = ", ".join(shown(name) for name in missing[:20])
        for name in missing if faults.lenient else missing[:1]:
            cause = f"There is no column {shown(name) if faults.lenient else listed}."
            faults.add(Fault(cause, f"Map to a column that is there: {there}.", column=name[:200]))
    for name in asked:
        if name in twice and name:
            faults.add(Fault(f"The column {shown(name)} is there twice.", "Rename one of them.", column=name[:200]))
    if wanted is None and (blank := list(names).count("")):
        plural = "A column has" if blank == 1 else f"{blank} columns have"
        faults.add(Fault(f"{plural} no name.", "Name every column, or remove those without a name."))
    return [seen[name] for name in asked if name in seen and (name or wanted is not None)]


def check_count(count: int, limits: Limits, faults: Faults) -> None:
    """Refuse more columns than the limit, and none at all."""
    if count > limits.columns:
        cause = f"There are {count:,} columns; {limits.columns:,} are the limit."
        raise faults.fatal(Fault(cause, "Export only the columns that studies use, or raise data_limits.columns."))
    if not count:
        raise EmptyData(f"{faults.where} has no columns.", "Give a table with named columns.")


def check_rows(rows: int, limits: Limits, faults: Faults) -> None:
    """Refuse more rows than the limit."""
    if rows > limits.rows:
        cause = f"There are more than {limits.rows:,} rows, the limit."
        raise faults.fatal(Fault(cause, "Ask for fewer, or raise data_limits.rows."))


def check_some(rows: int, faults: Faults) -> None:
    """Name a table without a row."""
    if not rows and not (faults.kept or faults.others):
        cause, fix = "There are columns and no records.", "Give a table with a row for each record."
        if not faults.lenient:
            raise EmptyData(f"{faults.where}: {cause}", fix)
        faults.add(Fault(cause, fix))


def check_cells(batch: pa.RecordBatch, limits: Limits) -> tuple[int, str] | None:
    """The row and column of a cell that is longer than the limit, if there is one."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if column.type == pa.string() and len(column) and (lengths := text_lengths(column)).max() > limits.cell:
            return int(np.argmax(lengths > limits.cell)), name
    return None


def too_long(limits: Limits, line: int | None, column: str) -> Fault:
    """The fault of a cell that is longer than the limit."""
    cause = f"A cell of the column {shown(column)} is longer than {limits.cell:,} bytes."
    return Fault(cause, "Leave out columns of documents and images, or raise data_limits.cell.", line, column[:200])


def text_lengths(column: Any) -> Longs:
    """The length of every text in bytes."""
    offsets = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, column.offset * 4)
    return np.diff(offsets).astype(np.int64)


def shown(name: str) -> str:
    """A column's name as messages may show it: short and printable."""
    return repr(name) if len(name) <= 100 else f"{name[:100]!r}..."
