"""Parquet files: their footers are held against the limits before a page is unpacked; values come as plain columns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from crossward.errors import CrosswardError, EmptyData
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
    shown,
    too_long,
)

_MAGIC, _ENCRYPTED = b"PAR1", b"PARE"
_SWOLLEN = 1000
"""How many times its size a file may unpack to; only bombs do more, and only beyond the memory is it refused."""

_EXACT_DIGITS = 15
"""A decimal of so many digits is one floating point number, and back."""

_UNPLAIN = "Export this column as numbers or texts, one value in each cell."


@dataclass(frozen=True, slots=True)
class _Part:
    file: Any
    rows: int


class ParquetReading:
    """One reading of one or more Parquet files, which are one table."""

    def __init__(
        self, where: str, files: Sequence[int], wanted: Sequence[str] | None, limits: Limits, lenient: bool = False
    ) -> None:
        self.faults = Faults(where, lenient, "row")
        self._limits = limits
        if not files:
            raise EmptyData(f"{where} holds no Parquet file.", "Give a file, or a folder with files named *.parquet.")
        self._parts = [self._open(descriptor) for descriptor in files]
        schema = self._parts[0].file.schema_arrow
        for number, part in enumerate(self._parts[1:], 2):
            if not part.file.schema_arrow.equals(schema):
                cause = f"File {number} of the folder, by name, has other columns or types than the first."
                raise self.faults.fatal(Fault(cause, "Export all files with the same columns in the same order."))
        self._total = sum(part.rows for part in self._parts)
        check_rows(self._total, limits, self.faults)
        names = schema.names  # made anew each time it is asked for
        chosen = columns_of(names, wanted, self.faults)
        makers = {index: _plain(schema.field(index).type) for index in chosen}
        for index in chosen:
            if makers[index] is None:
                name, kind = names[index], _kind(schema.field(index).type)
                self.faults.add(Fault(f"The column {shown(name)} holds {kind}.", _UNPLAIN, column=name[:200]))
        self._columns = [index for index in chosen if makers[index]]
        self._makers: list[_Maker] = [maker for index in self._columns if (maker := makers[index])]
        self.schema = pa.schema(
            [(names[index], kind) for index, (kind, _) in zip(self._columns, self._makers, strict=True)]
        )
        short = tuple(field.name for field in schema if field.type in (pa.float16(), pa.float32()))
        self.form = Form("parquet", tuple(names), total_rows=self._total, short=short)
        self._batch = self._batch_rows()

    def close(self) -> None:
        """Nothing of its own is open: the descriptors are their owner's."""

    def pieces(self) -> Iterator[Piece]:
        """All rows, file by file."""
        rows = 0
        for part in self._parts:
            before = rows
            for batch in self._raw(part):
                plain = self._make(batch, rows)
                rows += plain.num_rows
                check_rows(rows, self._limits, self.faults)
                yield Piece(plain, min(rows / max(self._total, 1), 1.0))
            if rows - before != part.rows:
                raise self._damaged()
        check_some(rows, self.faults)

    def _open(self, descriptor: int) -> _Part:
        size = os.fstat(descriptor).st_size
        self._check_ends(descriptor, size)
        try:
            file = pyarrow.parquet.ParquetFile(
                pa.PythonFile(_Slices(descriptor, size), "r"),
                buffer_size=1 << 18,
                pre_buffer=False,
                page_checksum_verification=True,
                arrow_extensions_enabled=False,
            )
            meta = file.metadata
            check_count(len(file.schema_arrow.names), self._limits, self.faults)
            check_count(meta.num_columns, self._limits, self.faults)
            check_rows(meta.num_rows, self._limits, self.faults)
            self._check_sizes(meta, size)
        except (MemoryError, CrosswardError):
            raise
        except (pa.ArrowException, OSError, ValueError, TypeError, OverflowError):
            raise self._damaged() from None
        return _Part(file, meta.num_rows)

    def _check_ends(self, descriptor: int, size: int) -> None:
        start, end = os.pread(descriptor, 4, 0), os.pread(descriptor, 8, max(size - 8, 0))
        if _ENCRYPTED in (start, end[4:]):
            raise self.faults.fatal(Fault("This Parquet file is encrypted.", "Export it without encryption."))
        if not size:
            raise EmptyData(f"{self.faults.where} is empty.", "Export the table again.")
        if start != _MAGIC:
            raise self.faults.fatal(
                Fault("This is no Parquet file.", "Give a CSV the ending .csv, or export the table as Parquet.")
            )
        if end[4:] != _MAGIC:
            cause = "The Parquet file ends early: it was cut off, or is still being written."
            raise self.faults.fatal(Fault(cause, "Wait until it is whole, or copy it again."))
        footer = int.from_bytes(end[:4], "little")
        if footer > size - 12:
            raise self._damaged()
        if footer > self._limits.memory // 8:
            cause = f"The description of the Parquet file alone has {footer:,} bytes."
            raise self.faults.fatal(Fault(cause, "Export fewer columns, or in fewer and larger row groups."))

    def _check_sizes(self, meta: Any, size: int) -> None:
        """Refuse what would unpack to far more than a table can be, by the file's own words."""
        unpacked = 0
        for group in range(meta.num_row_groups):
            of_group = meta.row_group(group)
            unpacked += max(of_group.total_byte_size, 0)
            if of_group.num_rows < 0 or of_group.total_byte_size < 0:
                raise self._damaged()
        if unpacked > self._limits.memory and unpacked > _SWOLLEN * size:
            cause = f"The file has {size:,} bytes and would unpack to {unpacked:,}."
            raise self.faults.fatal(Fault(cause, "Export the table again; this is no table of a hospital."))
        if meta.num_rows and unpacked / meta.num_rows > self._limits.record * 4:
            cause = f"A row would take {unpacked // meta.num_rows:,} bytes."
            raise self.faults.fatal(Fault(cause, "Leave out columns of documents and images."))

    def _batch_rows(self) -> int:
        """So many rows that a batch has about the bytes that it should."""
        width = 8 * max(len(self._columns), 1)
        sizes = [part.file.metadata.row_group(0).total_byte_size // max(part.file.metadata.row_group(0).num_rows, 1)
                 for part in self._parts if part.file.metadata.num_row_groups]  # fmt: skip
        width = max([width, *sizes])
        return max(1, min(self._limits.batch_rows, self._limits.batch_bytes // int(width)))

    def _raw(self, part: _Part) -> Iterator[pa.RecordBatch]:
        batches = part.file.iter_batches(self._batch, columns=self.schema.names, use_threads=True)
        while True:
            try:
                batch = next(batches, None)
            except (MemoryError, CrosswardError):
                raise
            except (pa.ArrowException, OSError, ValueError):
                raise self._damaged() from None
            if batch is None:
                return
            yield batch

    def _make(self, batch: pa.RecordBatch, before: int) -> pa.RecordBatch:
        try:
            by_name = {name: batch.column(index) for index, name in enumerate(batch.schema.names)}
            columns = [make(by_name[name]) for name, (_, make) in zip(self.schema.names, self._makers, strict=True)]
            plain = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        except (MemoryError, CrosswardError):
            raise
        except (pa.ArrowException, KeyError, ValueError):
            raise self._damaged() from None
        if long := check_cells(plain, self._limits):
            raise self.faults.fatal(too_long(self._limits, before + long[0] + 1, long[1]))
        return plain

    def _damaged(self) -> Exception:
        return self.faults.fatal(Fault("The Parquet file is damaged.", "Copy or export it again."))


class _Slices:
    """A descriptor as a file that is read from anywhere; never written, never closed here."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor, self._size, self._at = descriptor, size, 0
        self.closed = False
        self.mode = "rb"

    def read(self, count: int = -1) -> bytes:
        left = max(self._size - self._at, 0)  # a page may claim to be larger than its file
        count = left if count < 0 else min(count, left)
        data = os.pread(self._descriptor, count, self._at)
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence] + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


# -- types -------------------------------------------------------------------------------------------------------------
_Maker = tuple[Any, Callable[[Any], Any]]


def _cast(kind: Any) -> _Maker:
    return kind, lambda column: column if column.type == kind else pc.cast(column, kind)


def _plain(kind: Any) -> _Maker | None:  # noqa: PLR0911 - a table of cases
    """How a column of this type becomes a plain one; None where it holds no single values."""
    types = pa.types
    if types.is_dictionary(kind):
        inner = _plain(kind.value_type)
        return inner and (inner[0], lambda column: inner[1](column.dictionary_decode()))
    if types.is_boolean(kind):
        return _cast(pa.bool_())
    if types.is_uint64(kind):
        return _cast(pa.string())  # not all of them are whole numbers of 64 bits with a sign
    if types.is_integer(kind):
        return _cast(pa.int64())
    if types.is_floating(kind):
        return _cast(pa.float64())
    if types.is_decimal(kind):
        exact = kind.precision <= _EXACT_DIGITS and 0 <= kind.scale <= _EXACT_DIGITS
        return (pa.float64(), lambda column: _nearest(column, kind)) if exact else _cast(pa.string())
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind) or types.is_null(kind):
        return _cast(pa.string())
    if types.is_date(kind):
        return pa.string(), lambda column: pc.cast(pc.cast(column, pa.date32()), pa.string())
    if types.is_timestamp(kind):
        zone = "Z" if kind.tz else ""
        naive = pa.timestamp(kind.unit)
        return pa.string(), lambda column: _iso(pc.cast(column, naive) if kind.tz else column, zone)
    if types.is_time(kind):
        return _cast(pa.string())
    return None


def _nearest(column: Any, kind: Any) -> Any:
    """Short decimals as the nearest numbers: both the digits and the power of ten are exact, so the quotient is."""
    wide = pc.cast(column, pa.decimal128(kind.precision, kind.scale))
    digits = np.frombuffer(wide.buffers()[1] or b"", np.int64, 2 * len(wide), 16 * wide.offset)[::2]
    return pa.array(digits / 10.0**kind.scale, pa.float64(), mask=np.asarray(wide.is_null()))


def _iso(column: Any, zone: str) -> Any:
    """Times as ISO 8601 writes them: 2024-02-29T13:05:00."""
    texts = pc.replace_substring(pc.cast(column, pa.string()), " ", "T")
    return pc.binary_join_element_wise(texts, zone, "") if zone else texts


def _kind(kind: Any) -> str:
    types = pa.types
    if types.is_nested(kind):
        word = (
            "lists" if types.is_list(kind) or types.is_large_list(kind) else "maps" if types.is_map(kind) else "records"
        )
        return f"{word} in each cell"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return "bytes, not texts"
    return f"values of the type {str(kind)[:40]}"
