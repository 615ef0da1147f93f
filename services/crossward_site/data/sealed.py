"""The sealed copy of a dataset's version: typed, columnar, compressed, and encrypted with a key that only the site has.

    frame  = length (8 bytes, big-endian), AES-256-GCM of its bytes
    file   = MAGIC, a frame per batch of records, a last frame that says how many there were

Every file has a key of its own, from the site's secret and the file's random name; the nonce is the frame's number, and
what the frame is, is authenticated with it. So frames cannot be exchanged, left out or read by anyone else, and a
damaged one is noticed. A batch is Arrow IPC, each column compressed by itself: a task decodes only what it needs.

Values are kept without loss. A text that a number writes exactly so ("126", not "126.0" or "007") is kept as that
number, batch by batch; what a value means for a study is decided when it is read, one record at a time.
"""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from crossward.errors import StorageFailed
from crossward_site.data.beside import Pulse, ahead, unwatched
from crossward_site.data.straight import Outflow, Room, leave_some, settle
from crossward_site.data.tags import Tags

MAGIC = b"crossward sealed 1\n"
TAG = "tag"
LENGTH_BYTES, TAG_BYTES = 8, 16
"""What stands before a frame, and what AES-GCM adds to authenticate it."""

DISTINCT = 0.25
"""Texts of which fewer than this share differ are kept as a dictionary."""

TRIED, WORTH = 1 << 11, 0.9
"""A frame is compressed if its first rows then have at most this share of their bytes: some numbers cannot be."""

_SMALLER, _AS_IT_IS = pa.ipc.IpcWriteOptions(compression="lz4"), pa.ipc.IpcWriteOptions()


def damaged(path: Path, why: str) -> StorageFailed:
    """A sealed copy that is not as it was written."""
    return StorageFailed(
        f"The sealed copy {path.name} is damaged: {why}.", "Restore it from a backup, or refresh the data."
    )


class Frames:
    """Writes frames, one after the other; the file appears under its name only when it is whole and on disk."""

    def __init__(self, path: Path, secret: bytes) -> None:
        self._path, self._part = path, path.with_name(path.name + ".part")
        self._key, self._count = _key(secret, path.name), 0
        try:
            self._file = Outflow(self._part)
        except OSError as error:
            raise _unwritten(error) from error
        self._file.put(MAGIC)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._give_up()
        elif not self._file.closed:
            self.finish()

    def finish(self) -> None:
        """The last frame was written: the file is whole, on disk, and has its name when this returns."""
        try:
            with self._frame(b"end") as frame:
                frame.write(json.dumps({"frames": self._count}).encode())
            self._file.finish()
            self._part.replace(self._path)
            settle(self._path.parent)
        except OSError as failure:
            self._give_up()
            raise _unwritten(failure) from failure
        except StorageFailed:
            self._give_up()
            raise

    def _give_up(self) -> None:
        """Leave no part."""
        self._file.close()
        self._part.unlink(missing_ok=True)

    def write(self, data: bytes) -> None:
        """One more frame."""
        with self._frame(b"frame") as frame:
            frame.write(data)
        self._count += 1

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """A batch as a frame: it is sealed as it is packed, column by column, and copied nowhere else."""
        few = batch.slice(0, TRIED)
        smaller = _packed_size(few, _SMALLER) <= WORTH * _packed_size(few, _AS_IT_IS)
        with self._frame(b"frame") as frame, pa.PythonFile(frame, "w") as sink:
            _pack(batch, sink, _SMALLER if smaller else _AS_IT_IS)
        self._count += 1

    @contextmanager
    def _frame(self, what: bytes) -> Iterator[_Frame]:
        frame = _Frame(self._file, self._key, _nonce(self._count), what)
        yield frame
        frame.finish()
        try:
            leave_some(self._file.fileno(), self._file.filled)
            self._file.flow()
        except OSError as error:
            raise _unwritten(error) from error


class _Frame:
    """A file whose bytes are sealed as they are written: what Arrow packs goes through no memory of its own."""

    closed, mode = False, "wb"

    def __init__(self, file: Outflow, key: bytes, nonce: bytes, what: bytes) -> None:
        self._file, self._start, self._size = file, file.filled, 0
        self._sealing = Cipher(algorithms.AES(key), modes.GCM(nonce)).encryptor()
        self._sealing.authenticate_additional_data(what)
        file.put(bytes(LENGTH_BYTES))

    def write(self, data: Any) -> int:
        piece = memoryview(data).cast("B")
        self._sealing.update_into(piece, self._file.room(len(piece) + TAG_BYTES))  # it asks for a block more
        self._file.filled += len(piece)
        self._size += len(piece)
        return len(piece)

    def finish(self) -> None:
        self._sealing.finalize()
        self._file.put(self._sealing.tag)
        self._file.put_at(self._start, (self._size + TAG_BYTES).to_bytes(LENGTH_BYTES, "big"))

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


def read_frames(path: Path, secret: bytes) -> Iterator[pa.Buffer]:
    """The frames of a file, each checked; one that ends early is noticed by what is missing."""
    cipher, count, room = AESGCM(_key(secret, path.name)), 0, Room()
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise damaged(path, "it begins otherwise")
            size = os.fstat(file.fileno()).st_size
            while True:
                head = file.read(LENGTH_BYTES)
                length = int.from_bytes(head, "big")
                if len(head) < LENGTH_BYTES or not TAG_BYTES <= length <= size - file.tell():
                    raise damaged(path, f"it ends after {count} frames")
                sealed, data = room.of(length), np.empty(length - TAG_BYTES, np.uint8)
                if file.readinto(sealed) != length:
                    raise damaged(path, f"it ends after {count} frames")
                last = file.tell() == size
                try:
                    cipher.decrypt_into(_nonce(count), sealed, b"end" if last else b"frame", data.data)
                except InvalidTag:
                    raise damaged(path, f"frame {count} is not as it was written") from None
                if last:
                    return
                yield pa.py_buffer(data)
                count += 1
    except OSError as error:
        raise StorageFailed(
            f"The sealed copy {path.name} cannot be read: {error.strerror}.",
            "Restore it from a backup, or refresh the data.",
        ) from error


def _key(secret: bytes, name: str) -> bytes:
    return hmac.digest(secret, b"crossward sealed copy: " + name.encode(), "sha256")


def _nonce(count: int) -> bytes:
    return count.to_bytes(12, "big")


def _unwritten(error: OSError) -> StorageFailed:
    return StorageFailed(f"The sealed copy cannot be written: {error.strerror}.", "Make room in the data directory.")


# -- records --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of a sealed copy: the columns asked for, the person of each row, and its cell."""

    columns: pa.RecordBatch
    persons: Tags
    cells: NDArray[np.uint8]


def numbered(batch: pa.RecordBatch, names: Sequence[str], persons: Tags, decimal: str) -> pa.RecordBatch:
    """A batch as it is sealed: its persons' tags, and columns by their number, so that no name is in the way."""
    columns = [compact(batch.column(batch.schema.get_field_index(name)), decimal) for name in names]
    return pa.RecordBatch.from_arrays([pa.array(persons), *columns], [TAG, *map(str, range(len(names)))])


def _packed_size(batch: pa.RecordBatch, options: pa.ipc.IpcWriteOptions) -> int:
    nowhere = pa.MockOutputStream()
    _pack(batch, nowhere, options)
    size: int = nowhere.size()
    return size


def _pack(batch: pa.RecordBatch, sink: pa.NativeFile, options: pa.ipc.IpcWriteOptions) -> None:
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)


def compact(column: pa.Array, decimal: str) -> pa.Array:
    """A column in the least room that loses nothing, neither a value nor what it means.

    Where decimals have a comma, 5.5 is no number: as one it would be read, in batches where all texts look so.
    """
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)) or not len(column):
        return column
    for kind in (pa.int64(), pa.float64()) if decimal == "." else (pa.int64(),):
        try:
            numbers = column.cast(kind)
        except pa.ArrowInvalid:
            continue
        if numbers.cast(column.type).equals(column) and (kind == pa.int64() or _is_plain(numbers)):
            return numbers
    few = pc.count_distinct(column[: 1 << 12]).as_py() <= DISTINCT * min(len(column), 1 << 12)
    return column.dictionary_encode() if few else column


def _is_plain(numbers: pa.Array) -> bool:
    """Whether all are of a size that everybody writes alike: no exponent, no infinity, no negative zero."""
    size = pc.abs(numbers)
    plain = pc.or_(
        pc.and_(pc.less(size, 1e15), pc.greater_equal(size, 1e-4)), pc.equal(pc.cast(numbers, pa.string()), "0")
    )
    return pc.all(plain).as_py() is not False  # None where all are missing: then there is nothing to lose


class SealedCopy:
    """The records of a version, and the cell of each; read from the first to the last."""

    def __init__(self, records: Path, cells: Path, secret: bytes, names: Sequence[str]) -> None:
        self._records, self._cells = records, cells
        self._secret, self._names = secret, list(names)

    def batches(self, wanted: Sequence[str]) -> Iterator[Batch]:
        """All rows, kept or not, with these columns."""
        fields = [1 + self._names.index(name) for name in wanted]
        reading = pa.ipc.IpcReadOptions(included_fields=[0, *fields])
        for batch, cells in ahead((_unpacked(frame, reading), cells) for frame, cells in self._frames()):
            # Columns come in the order of the file, whatever order they are asked for in.
            ordered = [batch.column(str(field - 1)) for field in fields]
            columns = pa.RecordBatch.from_arrays(ordered, list(wanted)) if wanted else batch.select([])
            yield Batch(columns, batch.column(0).to_numpy(), cells)

    def is_whole(self, pulse: Pulse = unwatched) -> bool:
        """Whether all of it can be read."""
        try:
            for _ in self.batches(()):
                pulse()
        except StorageFailed:
            return False
        return True

    def without(self, persons: Tags, records: Path, cells: Path, pulse: Pulse = unwatched) -> int:
        """Write the copy anew without these persons; gives how many rows went."""
        gone = 0
        with Frames(records, self._secret) as rows, Frames(cells, self._secret) as kept:
            for frame, cell in self._frames():
                batch = _unpacked(frame, None)
                stays = ~np.isin(batch.column(0).to_numpy(), persons)
                gone += len(stays) - int(np.count_nonzero(stays))
                rows.write_batch(batch if stays.all() else _filtered(batch, stays))
                kept.write(cell[stays].tobytes())
                pulse()
        return gone

    def _frames(self) -> Iterator[tuple[pa.Buffer, NDArray[np.uint8]]]:
        cells = read_frames(self._cells, self._secret)
        for frame, cell in zip(read_frames(self._records, self._secret), cells, strict=True):
            yield frame, np.frombuffer(cell, np.uint8)


def write_cells(path: Path, secret: bytes, cells: NDArray[np.uint8], lengths: Iterable[int]) -> None:
    """The cell of each row, in frames that go with those of the records."""
    start = 0
    with Frames(path, secret) as frames:
        for length in lengths:
            frames.write(cells[start : start + length].tobytes())
            start += length


def _filtered(batch: pa.RecordBatch, stays: NDArray[np.bool_]) -> pa.RecordBatch:
    """The rows that stay. Dictionaries are made anew: in the old ones the words of those who go would stay."""
    columns = [
        column.dictionary_decode().dictionary_encode() if pa.types.is_dictionary(column.type) else column
        for column in batch.filter(pa.array(stays)).columns
    ]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _unpacked(frame: pa.Buffer, reading: pa.ipc.IpcReadOptions | None) -> pa.RecordBatch:
    with pa.ipc.open_stream(frame, options=reading) as reader:
        return reader.read_next_batch()
