"""The frames between both processes: a letter, a length, so many bytes. Nothing is unpickled on either side.

A reading is `F` (its form and columns, JSON), then for each batch `P` (where its rows stand, JSON) and `B` (an Arrow
IPC message), at the end `T` (faults, JSON); or, at any point, `E` (an error of ours: class, cause and fix).

What comes is held against what was announced: the parent makes the schema itself, from four known types, checks every
length before it takes memory for it, refuses compressed messages, and has Arrow validate each batch to the last byte.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from crossward.errors import CrosswardError, EmptyData, InvalidData, InvalidSetting
from crossward_connector.csv_files import ENCODINGS
from crossward_connector.tables import (
    DECIMAL,
    DELIMITER,
    ENCODING,
    MOST_FAULTS,
    TYPES,
    Fault,
    Form,
    Limits,
    Longs,
    Piece,
)

FORM, PIECE, BATCH, TRAILER, ERROR = b"F", b"P", b"B", b"T", b"E"
HEAD = struct.Struct("<cQ")
MOST_JSON = 16 << 20
"""A form, an error and faults have no more bytes: as JSON they take some twenty times that when they are read."""
_LARGE = 1 << 16
_LONGEST_WORDS = 20_000
_LONGEST_TOLD = 2_000
_LONGEST_COLUMN = 200
_KINDS = frozenset(("csv", "parquet", "sql"))
_DECIMALS = frozenset((".", ","))
_ENCODINGS = frozenset(("", *ENCODINGS.values()))
_LONGEST_NAMES = MOST_JSON // 16  # each is sent twice, and a character may take six bytes
_ERRORS: dict[str, type[CrosswardError]] = {
    "InvalidData": InvalidData,
    "EmptyData": EmptyData,
    "InvalidSetting": InvalidSetting,
}
_TYPE_NAMES = {kind: name for name, kind in TYPES.items()}


class Garbled(Exception):
    """Bytes that no connector of ours sends."""


# -- what is sent ------------------------------------------------------------------------------------------------------
Write = Callable[[Any], None]


def send_json(write: Write, kind: bytes, value: Any) -> None:
    """A frame of JSON."""
    data = json.dumps(value).encode()
    write(HEAD.pack(kind, len(data)) + data)


def send_form(write: Write, form: Form, schema: pa.Schema) -> None:
    """How the table is written, and the columns to come."""
    columns = [[field.name, _TYPE_NAMES[field.type]] for field in schema]
    about = {name: getattr(form, name) for name in Form.__slots__}
    if sum(map(len, form.names)) > _LONGEST_NAMES or max(map(len, form.names), default=0) > _LONGEST_WORDS:
        cause = f"The names of the columns are longer than {_LONGEST_WORDS:,} characters, or {_LONGEST_NAMES:,} in all."
        raise InvalidData(cause, "Name columns in a few letters each.")
    if not all(map(_is_text, form.names)):
        cause = "The name of a column holds a zero, or half of a character, which no text does."
        raise InvalidData(cause, "Name columns in plain letters.")
    send_json(write, FORM, {"form": about, "columns": columns})


class Pieces:
    """Sends batches of one schema. Columns go out as they lie in memory: a copy would take as long as to read them."""

    def __init__(self, write: Write, schema: pa.Schema) -> None:
        self._write, self._out = write, _Out(write)
        self._stream = pa.ipc.new_stream(pa.PythonFile(self._out, "w"), schema)
        self._stream.write_batch(
            pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
        )
        self._out.is_open = True  # what a stream begins with, its schema, nobody hears: the site makes its own

    def send(self, piece: Piece) -> None:
        """A batch, and where its rows stand."""
        about: dict[str, Any] = {"progress": piece.progress}
        if piece.starts is not None and piece.lines is not None:
            about |= {"starts": piece.starts.tolist(), "lines": piece.lines.tolist()}
        send_json(self._write, PIECE, about)
        self._write(HEAD.pack(BATCH, pa.ipc.get_record_batch_size(piece.batch)))
        self._stream.write_batch(piece.batch)
        self._out.flush()


class _Out:
    """What a stream is written to: large columns as they are, many small ones together."""

    closed, mode = False, "wb"

    def __init__(self, write: Write) -> None:
        self._write, self._at, self._few, self.is_open = write, 0, bytearray(), False

    def write(self, data: Any) -> int:
        piece = memoryview(data).cast("B")
        self._at += len(piece)
        if not self.is_open:
            return len(piece)
        if len(piece) >= _LARGE:
            self.flush()
            self._write(piece)
            return len(piece)
        self._few += piece
        if len(self._few) >= _LARGE:
            self.flush()
        return len(piece)

    def flush(self) -> None:
        few, self._few = self._few, bytearray()
        if few:
            self._write(few)

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        pass


def send_trailer(write: Write, faults: list[Fault]) -> None:
    """The end."""
    send_json(write, TRAILER, {"faults": [[f.cause, f.fix, f.line, f.column] for f in faults]})


def send_error(write: Write, error: CrosswardError) -> None:
    """The end, with an error of ours."""
    send_json(write, ERROR, [type(error).__name__, error.cause, error.fix])


# -- what is taken -----------------------------------------------------------------------------------------------------
def json_of(data: Any) -> Any:
    """A frame of JSON."""
    try:
        return json.loads(bytes(data))
    except (ValueError, RecursionError):
        raise Garbled from None


def form_of(value: Any, limits: Limits) -> tuple[Form, pa.Schema]:
    """The form and the schema that were announced."""
    try:
        about, columns = value["form"], value["columns"]
        names = tuple(_words(name) for name in about["names"])
        total = about["total_rows"]
        form = Form(
            _words(about["kind"]),
            names,
            _words(about["delimiter"]),
            _words(about["encoding"]),
            _words(about["decimal"]),
            bool(about["bom"]),
            None if total is None else _number(total),
            tuple(_words(name) for name in about["short"]),
            tuple(_words(name) for name in about["guesses"]),
        )
        schema = pa.schema([(_words(name), TYPES[kind]) for name, kind in columns])
    except (KeyError, TypeError, ValueError):
        raise Garbled from None
    if (
        form.kind not in _KINDS
        or form.decimal not in _DECIMALS
        or form.encoding not in _ENCODINGS
        or len(set(schema.names)) < len(schema)
        or not set(form.short) <= set(names)
        or not set(form.guesses) <= {DELIMITER, ENCODING, DECIMAL}
        or len(names) > limits.columns
        or len(schema) > len(names)
        or not set(schema.names) <= set(names)
    ):
        raise Garbled
    return form, schema


def place_of(value: Any, rows: int) -> tuple[float, Longs | None, Longs | None]:
    """Progress, and where the rows of the next batch stand."""
    try:
        progress = min(max(float(value["progress"]), 0.0), 1.0)
        if "starts" not in value:
            return progress, None, None
        starts = np.array(value["starts"], np.int64)
        lines = np.array(value["lines"], np.int64)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise Garbled from None
    right = starts.shape == lines.shape and starts.ndim == 1 and bool(len(starts)) == bool(rows)
    if not right or (len(starts) and (starts[0] != 0 or starts[-1] >= rows or (np.diff(starts) <= 0).any())):
        raise Garbled
    return progress, starts, lines


def batch_of(data: pa.Buffer, schema: pa.Schema, limits: Limits) -> pa.RecordBatch:
    """A batch of the announced schema, valid to its last byte; no byte of the message is two values' own."""
    if _packed(data):
        raise Garbled
    try:
        batch = pa.ipc.read_record_batch(data, schema)
        batch.validate(full=True)
    except (pa.ArrowException, ValueError, TypeError, OSError):
        raise Garbled from None
    if batch.num_rows > limits.batch_rows or batch.nbytes > data.size:
        raise Garbled
    return batch


def faults_of(value: Any) -> list[Fault]:
    """The faults of a table."""
    try:
        return [
            Fault(
                _told(cause),
                _told(fix),
                None if line is None else _number(line),
                None if column is None else _told(column, _LONGEST_COLUMN),
            )
            for cause, fix, line, column in value["faults"][: MOST_FAULTS + 1]
        ]
    except (KeyError, TypeError, ValueError):
        raise Garbled from None


def error_of(value: Any) -> CrosswardError:
    """An error of ours."""
    try:
        name, cause, fix = value
        return _ERRORS[name](_told(cause), _told(fix))
    except (KeyError, TypeError, ValueError):
        raise Garbled from None


def _words(value: Any) -> str:
    """A text that can be written anywhere: a database takes no zero, and UTF-8 no half of a character."""
    if not isinstance(value, str) or len(value) > _LONGEST_WORDS or not _is_text(value):
        raise Garbled
    return value


def _told(value: Any, longest: int = _LONGEST_TOLD) -> str:
    """Words for people, in one line: nothing that steers a screen or a log, and not endless."""
    words = _words(value)
    words = words if len(words) <= longest else f"{words[: longest - 3]}..."
    return "".join(letter if letter.isprintable() else " " for letter in words)


def _is_text(words: str) -> bool:
    return "\0" not in words and not any("\ud800" <= letter <= "\udfff" for letter in words)


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise Garbled
    return value


def _packed(data: pa.Buffer) -> bool:
    """Whether a message says that its buffers are compressed: unpacking would take memory that nobody bounds.

    The message is a flatbuffer: a table gives, before its fields, the distance to a list of where each field lies.
    """
    view = memoryview(data)
    try:
        marker, length = struct.unpack_from("<Ii", view, 0)
        if marker != 0xFFFFFFFF or not 0 < length <= len(view) - 8:
            return True
        meta = view[8 : 8 + length]
        message = _follow(meta, 0)
        header = _field(meta, message, 2)
        if header is None:
            return True
        return _field(meta, _follow(meta, header), 3) is not None
    except (struct.error, IndexError):
        return True


def _follow(meta: memoryview, at: int) -> int:
    return at + int(struct.unpack_from("<I", meta, at)[0])


def _field(meta: memoryview, table: int, number: int) -> int | None:
    """Where a field of a table lies; None if it is left out."""
    places = table - int(struct.unpack_from("<i", meta, table)[0])
    if places < 0:
        raise IndexError
    size = int(struct.unpack_from("<H", meta, places)[0])
    slot = 4 + 2 * number
    if slot + 2 > size:
        return None
    offset = int(struct.unpack_from("<H", meta, places + slot)[0])
    return table + offset if offset else None
