"""CSV files: how one is written is found by looking at its beginning; its rows come as texts, in bounded memory.

What no person told and the line of names does not show is a guess, and is said to be one: a record must not decide how
others are read.

The file is cut into chunks of whole records here, and Arrow reads each chunk. So the line of every record is known,
quoted line breaks and blank lines included, and a record without an end is found before it fills the memory.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from crossward.errors import EmptyData
from crossward_connector.tables import (
    DECIMAL,
    DELIMITER,
    ENCODING,
    MOST_FAULTS,
    Fault,
    Faults,
    Form,
    Limits,
    Longs,
    Opened,
    Piece,
    check_cells,
    check_count,
    check_rows,
    check_some,
    columns_of,
    runs,
    too_long,
)

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
ENCODINGS = {
    codecs.lookup(name).name: name
    for name in (
        *("utf-8", "utf-16", "utf-16-le", "utf-16-be", "ascii", "cp1252", "latin-1", "iso8859-15", "iso8859-2"),
        *("cp1250", "cp1251", "cp1253", "cp1254", "cp1257", "cp437", "cp850", "cp852", "mac-roman", "koi8-r"),
        *("gb18030", "big5", "shift_jis", "cp932", "euc_jp", "euc_kr", "iso8859-7", "iso8859-9", "iso8859-5"),
    )
}
"""The encodings that a file may be told to have; all are loaded with this module."""

SAMPLE = 1 << 18
_BLOCK = 4 << 20
_PER_COLUMN = 2048
"""So many bytes are taken at once for each column, so that a batch of many columns has many rows."""
_QUOTE, _LF, _CR = 34, 10, 13
_NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)?(?:[eE][-+]?\d+)?")
_DATE = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}(?:[ T].*)?")
_QUOTED = re.compile(r'"[^"]*+(?:""[^"]*+)*+"')
_LOOKED_AT = 1 << 16
"""So much of a line is looked at to find how the file is written."""
_HTML = re.compile(rb"(?i)\s*<(?:!doctype|html|\?xml|table)")
_JSON = re.compile(rb'\s*(?:\{\s*["}]|\[\s*[\[{"\d])')

_AS_CSV = 'In Excel: File, Save As, "CSV UTF-8".'
_MAGIC: tuple[tuple[bytes, str, str], ...] = (
    (b"\xd0\xcf\x11\xe0", "an Excel file of the old kind (.xls)", _AS_CSV),
    (b"\x1f\x8b", "a gzip archive", "Unpack it first."),
    (b"\xfd7zXZ\0", "an xz archive", "Unpack it first."),
    (b"\x28\xb5\x2f\xfd", "a Zstandard archive", "Unpack it first."),
    (b"BZh", "a bzip2 archive", "Unpack it first."),
    (b"7z\xbc\xaf", "a 7-Zip archive", "Unpack it first."),
    (b"Rar!", "a RAR archive", "Unpack it first."),
    (b"%PDF", "a PDF document", "Export the table that it was made from."),
    (b"PAR1", "a Parquet file", "Give it the ending .parquet."),
    (b"ARROW1", "an Arrow file", "Export the table as CSV or Parquet."),
    (b"SQLite format 3\0", "an SQLite database", "Let the site's settings declare it as a connection."),
    (b"Obj\x01", "an Avro file", "Export the table as CSV or Parquet."),
    (b"$FL2", "an SPSS file", "Export the table as CSV or Parquet."),
    (b"<stata_dta>", "a Stata file", "Export the table as CSV or Parquet."),
    (b"\x7fELF", "a program", "Export the table as CSV or Parquet."),
)


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """What was told about a CSV; None is found by looking."""

    delimiter: str | None = None
    encoding: str | None = None
    decimal: str | None = None


class CsvReading:
    """One reading of a CSV. `read` gives its bytes, `size` is how many there are."""

    def __init__(
        self,
        where: str,
        read: Callable[[int], bytes],
        size: int,
        wanted: Sequence[str] | None,
        options: CsvOptions,
        limits: Limits,
        lenient: bool = False,
    ) -> None:
        self.faults = Faults(where, lenient)
        self._limits = limits
        self._size = size
        self._blocks = _Blocks(read, size, options.encoding, limits, self.faults)
        self._line = 1
        self._rows = 0
        self._data = self._blocks.first()
        head = self._header(options)
        self.form = Form(
            "csv",
            tuple(head.names),
            head.delimiter,
            self._blocks.encoding,
            head.decimal,
            self._blocks.bom,
            guesses=(*((ENCODING,) if self._blocks.guessed else ()), *head.guesses),
        )
        self._delimiter = head.delimiter
        chosen = columns_of(head.names, wanted, self.faults)
        self.schema = pa.schema([(head.names[index], pa.string()) for index in chosen])
        keys = [f"c{index}" for index in range(len(head.names))]
        self._keys, self._all_keys = [keys[index] for index in chosen], keys

    def close(self) -> None:
        """Nothing of its own is open."""

    # -- the beginning -------------------------------------------------------------------------------------------------
    def _header(self, options: CsvOptions, hinted: bool = False) -> _Header:
        """The line of names, taken off the data; and what the lines below it look like. Excel's hint comes once."""
        limits, faults = self._limits, self.faults
        while not (records := _records(self._data, _CANDIDATES, self._blocks.ended)).ends.size or (
            records.filled().size < 1
        ):
            if self._blocks.ended:
                raise EmptyData(
                    f"{faults.where} is empty.", "Give a line of column names, then a line for each record."
                )
            self._check_length(self._data, records.open)
            self._data += self._blocks.next()
        told = options.delimiter
        first = self._record(records, 0)
        hint = None if hinted else re.fullmatch(r"sep=([\x01-\x21\x23-\x7f])", first)  # what Excel writes for itself
        if hint:
            told = told or hint[1]
            self._drop(records, 0)
            return self._header(CsvOptions(told, options.encoding, options.decimal), True)
        lines = [self._record(records, row)[:_LOOKED_AT] for row in range(min(50, records.filled().size))]
        if len(first) <= _LOOKED_AT:  # a longer line is no title
            self._check_above(lines, records.lines(self._line), told)
        delimiter = self._find_delimiter(lines, told)
        if first.count(delimiter) > 4 * limits.columns:
            check_count(first.count(delimiter) + 1, limits, faults)
        names = _split(first, delimiter)
        check_count(len(names), limits, faults)
        names = [name.strip() for name in names]
        line = int(records.lines(self._line)[0])
        self._check_names(names, line)
        decimal = options.decimal or _find_decimal(lines[1:], delimiter)
        guesses = (
            *((DELIMITER,) if delimiter != (told or self._find_delimiter(lines[:1], None)) else ()),
            *((DECIMAL,) if decimal != (options.decimal or ".") else ()),
        )
        self._drop(records, 0)
        self._blocks.widen(len(names))
        return _Header(names, delimiter, decimal, guesses)

    def _record(self, records: _Records, row: int) -> str:
        start, end = records.span(row)
        return self._data[start:end].decode("utf-8", "replace").strip("\r\n")

    def _drop(self, records: _Records, row: int) -> None:
        """Take everything up to the end of a record off the data."""
        end = min(records.span(row)[1] + 1, len(self._data))
        self._line += int(np.searchsorted(records.breaks, end))
        self._data = self._data[end:]

    def _find_delimiter(self, lines: list[str], told: str | None) -> str:
        bare = [_QUOTED.sub("", line) for line in lines]
        score: dict[str, float] = {}
        for candidate in dict.fromkeys([*DELIMITERS, *([told] if told else [])]):
            counts = [line.count(candidate) for line in bare]
            if counts[0]:
                score[candidate] = counts[0] * sum(count == counts[0] for count in counts) / len(counts)
        best = max(score, key=lambda candidate: score[candidate], default=None)
        if told and told not in score and best and score[best] >= 1:
            cause = f"Its cells are separated by {DELIMITERS[best]}, not by {DELIMITERS.get(told, repr(told))}."
            raise self.faults.fatal(Fault(cause, f"Say so: --separator {best!r}."))
        return told or best or ","

    def _check_above(self, lines: list[str], numbers: Longs, told: str | None) -> None:
        """Refuse a file whose table begins further down, below a title and remarks: they name no columns."""
        bare = [_QUOTED.sub("", line) for line in lines]
        for delimiter in [told] if told else DELIMITERS:
            counts = [line.count(delimiter) for line in bare]
            usual = max(set(counts), key=counts.count)
            head = counts.index(usual)
            most = max(
                (line.count(other) for line in bare[:head] for other in DELIMITERS), default=0
            )  # 1,5;2,5 is no head
            if head and usual > 1 and 2 * counts.count(usual) > len(counts) and 2 * most < usual:
                above = f"lines 1 to {numbers[head] - 1}" if numbers[head] > 2 else "line 1"
                cause = f"The table begins in line {numbers[head]}: what stands above it is no part of it."
                raise self.faults.fatal(Fault(cause, f"Remove {above}: the column names come first.", int(numbers[0])))

    def _check_names(self, names: list[str], line: int) -> None:
        filled = [name for name in names if name]
        values = [name for name in filled if _NUMBER.fullmatch(name) or _DATE.fullmatch(name)]
        if not filled:
            raise self.faults.fatal(Fault("The first line names no column.", "Begin with a line of names.", line))
        if 2 * len(values) >= len(filled):
            cause = "The first line holds values, not the names of columns."
            raise self.faults.fatal(Fault(cause, "Put a line of column names above the records.", line))
        for name in filled:
            if not name.isprintable() or "�" in name:
                cause = f"The name of column {names.index(name) + 1} holds characters that cannot be shown."
                fix = "Name columns in plain letters; if the names look right elsewhere, give the file's encoding."
                raise self.faults.fatal(Fault(cause, fix, line))

    # -- the rows ------------------------------------------------------------------------------------------------------
    def pieces(self) -> Iterator[Piece]:
        """All rows below the header; a chunk gives at least one piece, so that a reader knows that all is well."""
        while self._data or not self._blocks.ended:
            cut, records = self._cut()
            if cut:
                yield from self._parse(self._data[:cut] if cut < len(self._data) else self._data, records)
                self._data = self._data[cut:]
            elif self._blocks.ended:
                break
            else:
                self._check_length(self._data, records is not None and records.open)
            if not self._blocks.ended:
                self._data += self._blocks.next()
        check_some(self._rows, self.faults)

    def _cut(self) -> tuple[int, _Records | None]:
        """How much of the data is whole records; the records themselves where lines alone do not tell them."""
        data, ended = self._data, self._blocks.ended
        if b'"' not in data and not _lone_returns(data, ended):
            return (len(data) if ended else data.rfind(b"\n") + 1), None
        records = _records(data, self._delimiter.encode(), ended)
        if ended and records.open:
            self.faults.add(self._unclosed(records))
        cut = len(data) if ended else int(records.ends[-1]) + 1 if records.ends.size else 0
        return cut, replace(records, breaks=records.breaks[records.breaks < cut])

    def _unclosed(self, records: _Records) -> Fault:
        line = self._line + int(np.searchsorted(records.breaks, records.opened))
        cause = "A quote is opened here and never closed, so that everything after it is one cell."
        return Fault(cause, 'Close the quote; within quotes, write a quote as "".', line)

    def _check_length(self, data: bytes, open_quote: bool) -> None:
        """Refuse a record that has no end within the limit."""
        if len(data) > self._limits.record:
            size = f"{self._limits.record:,} bytes"
            if open_quote:
                cause = f"The record that begins here has a quote that is not closed within {size}."
                fix = 'Close the quote; within quotes, write a quote as "".'
            else:
                cause = f"The line is longer than {size}."
                fix = "Check that this is a CSV with a line for each record."
            raise self.faults.fatal(Fault(cause, fix, self._line))

    def _parse(self, chunk: bytes, records: _Records | None) -> Iterator[Piece]:
        self._check_bytes(chunk)
        if not self.faults.lenient or chunk.isascii() or _is_utf8(chunk):
            text = chunk
        else:
            text, records = chunk.decode("utf-8", "replace").encode(), None
        breaks = records.breaks.size if records else text.count(b"\n")
        multiline = records is not None and records.ends.size != breaks
        invalid: list[Any] = []
        table = self._arrow(text, multiline, True, invalid)
        regular = not invalid and not multiline and table.num_rows == breaks + (not text.endswith((b"\n", b"\r")))
        if regular:
            lines = np.arange(self._line, self._line + table.num_rows, dtype=np.int64)
        else:
            records = records if records and text is chunk else _records(text, self._delimiter.encode(), True)
            lines = records.lines(self._line)
            if invalid:
                invalid.clear()
                table = self._arrow(text, multiline, False, invalid)
                lines = self._without(invalid, lines)
        table, lines = self._without_names(table, lines)
        self._rows += table.num_rows
        check_rows(self._rows, self._limits, self.faults)
        progress = self._blocks.progress(len(self._data) - len(chunk))
        done, told = 0, len(lines) == table.num_rows
        for batch in table.to_batches(self._limits.batch_rows) or [pa.RecordBatch.from_pylist([], table.schema)]:
            part = lines[done : done + batch.num_rows] if told else lines[:0]
            batch = pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)  # noqa: PLW2901
            if long := check_cells(batch, self._limits):
                raise self.faults.fatal(too_long(self._limits, int(part[long[0]]) if told else None, long[1]))
            yield Piece(batch, progress, *(runs(part) if told else (None, None)))
            done += batch.num_rows
        self._line += breaks

    def _without(self, invalid: list[Any], lines: Longs) -> Longs:
        """Tell the rows with more or fewer cells than the header, and leave them out."""
        numbers = np.array([row.number - 1 for row in invalid], np.int64)
        for row, index in zip(invalid, numbers, strict=True):
            cause = f"The header has {row.expected_columns} columns, this record {row.actual_columns}."
            if row.actual_columns > row.expected_columns:
                fix = "Put cells that hold the separator (a decimal comma, a remark) into quotes."
            else:
                fix = (
                    "Fill up the record, or remove it if it is none, such as a total below the table; "
                    "a line break inside a cell must stand in quotes."
                )
            self.faults.add(Fault(cause, fix, int(lines[index]) if index < len(lines) else None))
        return np.delete(lines, numbers[numbers < len(lines)])

    def _without_names(self, table: Any, lines: Longs) -> tuple[Any, Longs]:
        """Tell the rows that repeat the column names, as files do that were put one below the other; leave them out."""
        if table.num_columns < 2:
            return table, lines
        again = pc.equal(table.column(0), self.schema.names[0])
        if not pc.any(again).as_py():
            return table, lines
        for column, name in zip(table.columns[1:], self.schema.names[1:], strict=True):
            again = pc.and_(again, pc.equal(column, name))
        rows, told = np.flatnonzero(again.to_numpy()), len(lines) == table.num_rows
        for row in rows.tolist():
            fix = "Remove such lines: files that are put together have one line of names."
            self.faults.add(Fault("The column names stand here again.", fix, int(lines[row]) if told else None))
        return table.filter(pc.invert(again)), np.delete(lines, rows) if told else lines

    def _check_bytes(self, chunk: bytes) -> None:
        if (zero := chunk.find(b"\0")) >= 0:
            cause = "The file holds a zero byte, which no text does: it is damaged, or no CSV."
            self.faults.add(Fault(cause, "Export the table again.", self._line_at(chunk, zero)))
        if not chunk.isascii() and not _is_utf8(chunk):
            try:
                chunk.decode("utf-8")
            except UnicodeDecodeError as error:
                fix = "Save the file as UTF-8, or give its encoding (often cp1252)."
                self.faults.add(Fault("This is not UTF-8.", fix, self._line_at(chunk, error.start)))

    def _line_at(self, chunk: bytes, position: int) -> int:
        return self._line + _count_lines(chunk[:position])

    def _arrow(self, text: bytes, multiline: bool, threads: bool, invalid: list[Any]) -> Any:
        def skip(row: Any) -> str:
            if len(invalid) <= 100 * MOST_FAULTS or not threads:
                invalid.append(row._replace(text=""))
            return "skip" if self.faults.lenient else "error"  # a strict reading ends with the first

        if len(text) * len(self._keys) > self._limits.memory // 4 and text.strip(b"\r\n"):
            return self._wide(text, invalid)
        block = max(len(text) // 4, 1 << 16) if threads and not multiline else len(text) + 1
        read = pyarrow.csv.ReadOptions(use_threads=threads, block_size=block, column_names=self._all_keys)
        parse = pyarrow.csv.ParseOptions(
            delimiter=self._delimiter, newlines_in_values=multiline, invalid_row_handler=skip
        )
        convert = pyarrow.csv.ConvertOptions(
            check_utf8=False,
            column_types=dict.fromkeys(self._keys, pa.string()),
            include_columns=self._keys,
            strings_can_be_null=False,
        )
        if not self._keys:
            convert = pyarrow.csv.ConvertOptions(check_utf8=False, default_column_type=pa.string())
        if not text.strip(b"\r\n"):
            return pa.table([pa.array([], pa.string()) for _ in self._keys], names=self._keys)
        try:
            table = pyarrow.csv.read_csv(pa.BufferReader(text), read, parse, convert)
        except pa.ArrowMemoryError:
            raise
        except pa.ArrowException:
            if invalid and not self.faults.lenient:
                return pa.table([pa.array([], pa.string()) for _ in self._keys], names=self._keys)
            if threads:  # a record that is longer than a block
                invalid.clear()
                return self._arrow(text, multiline, False, invalid)
            fault = Fault("The lines from here on cannot be read as CSV.", "Export the table again.", self._line)
            raise self.faults.fatal(fault) from None
        return table if self._keys else table.select([])

    def _wide(self, text: bytes, invalid: list[Any]) -> Any:
        """The same where there are many columns. Arrow would set aside the bytes of all of them for each one.

        So it is given every cell as a line of its own, and the long column that it makes is cut into the wide table's.
        """
        width, delimiter = len(self._all_keys), self._delimiter.encode()
        records, array = _records(text, delimiter, True), np.frombuffer(text, np.uint8).copy()
        filled = records.filled()
        starts, ends = records.starts()[filled], records.ends[filled]
        marks = np.flatnonzero(array == delimiter[0])
        if b'"' in text:
            begins, closes = _pairs(array, np.flatnonzero(array == _QUOTE), delimiter)
            marks = marks[np.searchsorted(begins, marks) <= np.searchsorted(closes, marks)]
        cells = np.searchsorted(marks, ends) - np.searchsorted(marks, starts) + 1
        invalid += [_Misfit(int(row) + 1, width, int(cells[row])) for row in np.flatnonzero(cells != width)]
        array[marks] = _LF
        whole = cells == width
        rows, inside = int(np.count_nonzero(whole)), np.zeros(len(array) + 2, np.int32)
        np.add.at(inside, starts[whole], 1)
        np.add.at(inside, ends[whole] + 1, -1)
        data = array[np.cumsum(inside)[: len(array)] > 0].tobytes()
        if rows and ends[whole][-1] == len(text):  # the last line lacks its break
            data += b"\n"
        values = self._column(data) if rows else pa.array([], pa.string())
        if len(values) != rows * width:
            fault = Fault("The lines from here on cannot be read as CSV.", "Export the table again.", self._line)
            raise self.faults.fatal(fault)
        wanted = [int(key[1:]) for key in self._keys]
        flat = pc.take(values, pa.array(np.arange(rows * width).reshape(rows, width)[:, wanted].T.ravel()))
        return pa.table([flat.slice(at * rows, rows) for at in range(len(wanted))], names=self._keys)

    def _column(self, data: bytes) -> Any:
        """Texts of which each is a line, or several in quotes."""
        unused = next((byte for byte in range(31, 128) if byte != _QUOTE and byte not in data), None)
        if unused is None:
            fault = Fault("The lines from here on hold every character there is.", "Export fewer columns.", self._line)
            raise self.faults.fatal(fault)
        read = pyarrow.csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=["cell"])
        parse = pyarrow.csv.ParseOptions(delimiter=chr(unused), newlines_in_values=True, ignore_empty_lines=False)
        convert = pyarrow.csv.ConvertOptions(
            check_utf8=False, column_types={"cell": pa.string()}, strings_can_be_null=False
        )
        return pyarrow.csv.read_csv(pa.BufferReader(data), read, parse, convert).column(0).combine_chunks()


@dataclass(frozen=True, slots=True)
class _Misfit:
    """A record with more or fewer cells than the header, as Arrow tells it."""

    number: int
    expected_columns: int
    actual_columns: int


@dataclass(frozen=True, slots=True)
class _Header:
    names: list[str]
    delimiter: str
    decimal: str
    guesses: tuple[str, ...]


# -- bytes to UTF-8 ----------------------------------------------------------------------------------------------------
class _Blocks:
    """A file's bytes, block by block, as UTF-8 without a byte order mark."""

    def __init__(
        self, read: Callable[[int], bytes], size: int, told: str | None, limits: Limits, faults: Faults
    ) -> None:
        self._read, self._size, self._faults = read, size, faults
        self._most = limits.batch_bytes
        self._block = min(_BLOCK, self._most)
        self._taken = 0
        self._lines = 0
        self.ended = False
        self.bom = False
        start = self._take(SAMPLE)
        _check_kind(start, faults)
        self.encoding = self._find_encoding(start, told)
        self.guessed = not told and self.encoding != self._find_encoding(_first_line(start), None)
        self._start, self._big = start, start.startswith(codecs.BOM_UTF16_BE)
        self._decoder: Any = None
        if self.encoding not in ("utf-8", "ascii"):
            self._decoder = codecs.getincrementaldecoder(self._codec())("strict")

    def first(self) -> bytes:
        """The beginning, without its byte order mark."""
        start, self._start = self._start, b""
        if self.encoding == "utf-8" and start.startswith(codecs.BOM_UTF8):
            start = start[3:]
        if self.encoding == "utf-16" and start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            start = start[2:]
        return self._plain(start)

    def widen(self, columns: int) -> None:
        """Take more at once, where there are many columns."""
        self._block = min(max(self._block, _PER_COLUMN * columns), self._most)

    def next(self) -> bytes:
        """The next block; empty only at the end."""
        return self._plain(self._take(self._block))

    def progress(self, left: int) -> float:
        """The share that was read, but for what is still held."""
        return min(max(self._taken - left, 0) / self._size, 1.0) if self._size else 1.0

    def _take(self, count: int) -> bytes:
        parts: list[bytes] = []
        while count > 0:
            part = self._read(count)
            if not part:
                self.ended = True
                break
            parts.append(part)
            count -= len(part)
        data = b"".join(parts)
        self._taken += len(data)
        return data

    def _codec(self) -> str:
        """The encoding with the order of its bytes: a decoder that begins in the middle sees no mark."""
        if self.encoding != "utf-16":
            return self.encoding
        return "utf-16-be" if self._big else "utf-16-le"

    def _find_encoding(self, start: bytes, told: str | None) -> str:  # noqa: PLR0911 - a table of cases
        marks = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
        marked = next((name for mark, name in marks if start.startswith(mark)), None)
        self.bom = marked is not None
        if told:
            return marked or self._known(told)
        if marked:
            return marked
        if len(start) >= 4 and b"\0" in start[:64]:
            sample = start[:4096]
            if sample[1::2].count(0) > 0.8 * len(sample[1::2]) and sample[0::2].count(0) == 0:
                return "utf-16-le"
            if sample[0::2].count(0) > 0.8 * len(sample[0::2]) and sample[1::2].count(0) == 0:
                return "utf-16-be"
        try:
            codecs.getincrementaldecoder("utf-8")("strict").decode(start, self.ended)
        except UnicodeDecodeError:
            try:
                start.decode("cp1252")
            except UnicodeDecodeError:
                return "latin-1"
            return "cp1252"
        return "utf-8"

    def _known(self, told: str) -> str:
        try:
            name = codecs.lookup(told).name
        except LookupError:
            name = ""
        if name == "utf-8-sig":
            name = "utf-8"
        if name not in ENCODINGS:
            fix = f"Give one of {', '.join(sorted(ENCODINGS.values()))}, or none: it is found by looking."
            raise self._faults.fatal(Fault("The encoding that was given is not known.", fix))
        return ENCODINGS[name]

    def _plain(self, block: bytes) -> bytes:
        if self._decoder is None:
            return block
        try:
            text = self._decoder.decode(block, self.ended)
        except UnicodeDecodeError as error:
            before = error.object[: error.start].decode(self._codec(), "replace")
            line = 1 + self._lines + _count_lines(before.encode())
            fix = "Give the encoding that the file was saved with, or save it as UTF-8."
            self._faults.add(Fault(f"This is not {self.encoding}.", fix, line))
            decoder = codecs.getincrementaldecoder(self._codec())("replace")
            text, self._decoder = decoder.decode(error.object, self.ended), decoder
        data: bytes = text.encode("utf-8", "replace")
        self._lines += _count_lines(data)
        return data


def _first_line(start: bytes) -> bytes:
    """The line of names, or what is there of it; of a file of two bytes a character, to the first byte of its end."""
    return re.split(rb"[\r\n]", start, maxsplit=1)[0]


def _check_kind(start: bytes, faults: Faults) -> None:
    """Refuse what is no CSV by how it begins."""
    if start.startswith(b"PK\x03\x04"):
        office = b"xl/" in start[:8192] or b"[Content_Types].xml" in start[:8192]
        what, fix = ("an Excel file (.xlsx)", _AS_CSV) if office else ("a zip archive", "Unpack it first.")
        raise faults.fatal(Fault(f"This is {what}, not a CSV.", fix))
    for magic, what, fix in _MAGIC:
        if start.startswith(magic):
            raise faults.fatal(Fault(f"This is {what}, not a CSV.", fix))
    if _HTML.match(start):
        raise faults.fatal(Fault("This is a web page or XML, not a CSV.", "Export the table as CSV or Parquet."))
    if _JSON.match(start):
        raise faults.fatal(Fault("This is JSON, not a CSV.", "Export the table as CSV or Parquet."))


# -- where records end -------------------------------------------------------------------------------------------------
_CANDIDATES = "".join(DELIMITERS).encode()


@dataclass(frozen=True, slots=True)
class _Records:
    """Where records end (`ends`: positions of line breaks outside quotes), and all line breaks (`breaks`)."""

    data: bytes
    ends: Longs
    breaks: Longs
    open: bool
    opened: int

    def starts(self) -> Longs:
        return np.concatenate([[0], self.ends[:-1] + 1]).astype(np.int64) if self.ends.size else self.ends

    def filled(self) -> Longs:
        """The numbers of the records that are not blank lines."""
        starts = self.starts()
        lengths = self.ends - starts
        array = np.frombuffer(self.data, np.uint8)
        if not len(array):
            return np.flatnonzero(lengths > 0)
        blank = (lengths <= 0) | ((lengths == 1) & (array[np.minimum(starts, len(array) - 1)] == _CR))
        return np.flatnonzero(~blank)

    def span(self, row: int) -> tuple[int, int]:
        """Where a record that is not blank begins and ends."""
        index = self.filled()[row]
        return int(self.starts()[index]), int(self.ends[index])

    def lines(self, first: int) -> Longs:
        """The line in which each record that is not blank begins."""
        return first + np.searchsorted(self.breaks, self.starts()[self.filled()]).astype(np.int64)


def _records(data: bytes, delimiters: bytes, ended: bool) -> _Records:
    array = np.frombuffer(data, np.uint8)
    breaks = np.flatnonzero(array == _LF)
    if b"\r" in data and _lone_returns(data, ended):
        returns = np.flatnonzero(array == _CR)
        after = array[np.minimum(returns + 1, len(array) - 1)]
        last = returns == len(array) - 1
        lone = returns[(last & ended) | (~last & (after != _LF))]
        breaks = np.sort(np.concatenate([breaks, lone]))
    ends, open_quote, opened = breaks, False, 0
    if b'"' in data:
        quotes = np.flatnonzero(array == _QUOTE)
        begins, closes = _pairs(array, quotes, delimiters)
        inside = (np.searchsorted(begins, breaks) - np.searchsorted(closes, breaks)) > 0
        ends, open_quote = breaks[~inside], len(begins) > len(closes)
        opened = int(begins[-1]) if open_quote else 0
    if ended and len(data) and not (ends.size and ends[-1] == len(data) - 1):
        ends = np.append(ends, len(data))  # the last line may lack its break
    return _Records(data, ends.astype(np.int64), breaks.astype(np.int64), open_quote, opened)


def _pairs(array: NDArray[np.uint8], quotes: NDArray[np.intp], delimiters: bytes) -> tuple[Any, Any]:
    """Where quoted parts begin and close. A doubled quote counts as closing and opening again.

    A quote opens a cell only where the cell begins: elsewhere it is a character like any other. Where no such stray
    quote is, quotes alternate; that is checked for all at once, and only otherwise they are gone through.
    """
    edge = np.zeros(256, bool)
    edge[[*delimiters, _LF, _CR]] = True
    before = edge[array[np.maximum(quotes - 1, 0)]] | (quotes == 0)
    doubled = np.zeros(len(quotes), bool)
    doubled[1:] = np.diff(quotes) == 1
    last = quotes == len(array) - 1
    after = edge[array[np.minimum(quotes + 1, len(array) - 1)]] | last
    follows = np.append(doubled[1:], False)
    if (before | doubled)[0::2].all() and (after | follows)[1::2].all():
        return quotes[0::2], quotes[1::2]
    begins, closes, inside, skip = [], [], False, False
    for position, starts, pair in zip(quotes.tolist(), before.tolist(), follows.tolist(), strict=True):
        if skip:
            skip = False
        elif inside:
            if pair:
                skip = True
            else:
                closes.append(position)
                inside = False
        elif starts:
            begins.append(position)
            inside = True
    return np.array(begins, np.int64), np.array(closes, np.int64)


def _lone_returns(data: bytes, ended: bool) -> bool:
    """Whether carriage returns end lines by themselves, as on old machines."""
    if b"\r" not in data:
        return False
    returns = data.count(b"\r") - (not ended and data.endswith(b"\r"))
    return returns != data.count(b"\r\n")


def _count_lines(data: bytes) -> int:
    return data.count(b"\n") + (data.count(b"\r") - data.count(b"\r\n") if b"\r" in data else 0)


def _is_utf8(data: bytes) -> bool:
    offsets = pa.py_buffer(np.array([0, len(data)], np.int64))
    whole = pa.Array.from_buffers(pa.large_utf8(), 1, [None, offsets, pa.py_buffer(data)])
    try:
        whole.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _split(line: str, delimiter: str) -> list[str]:
    """The cells of one record: as Arrow reads them, but in memory that does not grow with the number of columns."""
    if '"' not in line:
        return line.split(delimiter)
    csv.field_size_limit(max(csv.field_size_limit(), len(line) + 1))  # of the whole process
    return next(csv.reader([line], delimiter=delimiter), [])


def _find_decimal(lines: list[str], delimiter: str) -> str:
    """A comma, where numbers are written with one; between commas they cannot be."""
    if delimiter not in ";\t|":
        return "."
    cells = [cell.strip(' "') for line in lines for cell in line.split(delimiter)]
    commas = sum(bool(re.fullmatch(r"[-+]?\d+,\d+", cell)) for cell in cells)
    points = sum(bool(re.fullmatch(r"[-+]?\d+\.\d+", cell)) for cell in cells)
    return "," if commas > points else "."


# -- ways in -----------------------------------------------------------------------------------------------------------
def read_csv_bytes(
    data: bytes,
    wanted: Sequence[str] | None = None,
    options: CsvOptions | None = None,
    *,
    where: str = "The file",
    limits: Limits | None = None,
    lenient: bool = False,
) -> Opened:
    """A CSV that is in memory: the same reader, in this process.

    >>> table = read_csv_bytes(b"a;b\\n1;2,5\\n")
    >>> table.form.names, table.form.delimiter, table.form.decimal
    (('a', 'b'), ';', ',')
    >>> [batch.to_pydict() for batch in table.batches()]
    [{'a': ['1'], 'b': ['2,5']}]
    """
    limits = limits or Limits()
    reading = CsvReading(where, io.BytesIO(data).read, len(data), wanted, options or CsvOptions(), limits, lenient)
    return Opened(where, reading, limits)
