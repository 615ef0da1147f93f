"""Encoded rows on disk, in place of a matrix in memory: every learner takes either.

Rows come in batches and lie in a scratch file without a name: nobody else can open it, and nothing is left of it after
a crash. They are read with `pread` into memory of one's own, never mapped, so that what is resident is bounded; threads
may read at the same time. The file is a sequence of blocks of rows, and in a block the numbers of a column stand side
by side: a model on a few columns reads no others, and K models on disjoint columns read the file once between them.
Blocks are cut by the count of rows alone, so a result does not depend on the batches in which rows came.

What is resident in a fit of n = 5*10^7 rows of d = 50 columns, 20 GB on disk: the interpreter and its libraries, 200
MB; labels as int8, n bytes, 50 MB; a sample for the solver (`solver.solve.SAMPLE_BYTES`), 256 MB; when that is gone, a
line search's margins, up to as much (`solver.blocked.HELD_BYTES`; more are computed again at each try); a few blocks
per thread, 10 MB; sums per block, 8 n d / `block_rows`, 5 MB. Row scales are computed with each block, and level-1
scores, 8 n K bytes, are stored rows again. Only a random order of rows (DPPSGD, PST-S, and PST-F without given levels;
a site gives them) needs more: it is drawn in 20 n bytes, 1 GB, and `take` then keeps 12 n and 400 MB.
"""

from __future__ import annotations

import os
import stat
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crossward.errors import InvalidSetting, StorageFailed, WrongShape
from crossward.learning.workers import BLOCK_BYTES
from crossward.privacy.noise import Array

LONGEST_BLOCK, SHORTEST_BLOCK = 1 << 13, 64
"""Rows of a block. The rounding error of a sum over a block grows with them; very few make many small reads."""

MEMORY = 1 << 26
"""Bytes of rows that are kept in memory, unless told otherwise: few data never touch the disk."""

TAKEN_BYTES, MOST_PILES = 1 << 27, 256
"""Rows in another order are first put on piles that fit in so much memory each; so many, for each is an open file."""

_PILE_BLOCK = 1 << 16

_NUMBER = 8

_SLAB = 1 << 25
"""Blocks that stay in memory get it in pieces of so many bytes, for which the system has larger pages: of small ones
there would be many to touch."""

_AHEAD = 4
"""The system is asked for the block that comes so many later. Where the file is not in the page
cache, reading it took 40 to 80 % of the time; where it is, asking costs up to a fifth of a fit."""

_CAN_ADVISE = hasattr(os, "posix_fadvise")


class StoredRows:
    """A matrix (n, columns) of float64, of which little is in memory. One thread appends; then any number read.

    A slice with step 1 is a view, another index an array in memory; `take` stores rows of any index anew.

    >>> rows = StoredRows.writing(Path("/var/lib/site/scratch"), columns=50)  # doctest: +SKIP
    >>> for batch in batches:  # doctest: +SKIP
    ...     rows.append(batch)
    >>> PLR(Ball(1.0), 0.01, epsilon=1.0).fit(rows, labels)  # doctest: +SKIP
    """

    __slots__ = ("_blocks", "_start", "_stop")

    ndim = 2
    dtype = np.dtype(np.float64)

    def __init__(self, blocks: _Blocks, start: int = 0, stop: int | None = None) -> None:
        """For `writing` and views. Without a `stop`, all rows from `start` on, those yet to come among them."""
        self._blocks, self._start, self._stop = blocks, start, stop

    @classmethod
    def writing(cls, folder: Path, columns: int, memory: int = 0) -> StoredRows:
        """No rows yet. Up to `memory` bytes of them are kept in memory; more, and all are in a file in `folder`."""
        if columns < 1 or memory < 0:
            raise InvalidSetting(f"Rows of {columns} columns in {memory} bytes cannot be stored.", "Give at least one.")
        return cls(_Blocks(Path(folder), columns, memory, BLOCK_BYTES))

    # -- a matrix -----------------------------------------------------------------------------------------------------
    def __len__(self) -> int:
        return (self._blocks.rows if self._stop is None else self._stop) - self._start

    @property
    def shape(self) -> tuple[int, int]:
        """(n, columns)."""
        return len(self), self._blocks.columns

    @property
    def largest(self) -> float:
        """The largest number, sign aside, of all rows of the file; NaN where there is one."""
        return self._blocks.largest

    @property
    def on_disk(self) -> bool:
        """Whether there is a file."""
        return self._blocks.on_disk

    def __getitem__(self, rows: slice | int | NDArray[Any]) -> Any:
        """A slice with step 1: a view. Another slice, a mask or row numbers: an array in memory."""
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            if step == 1:
                return StoredRows(self._blocks, self._start + start, self._start + max(start, stop))
            return self._gather(np.arange(start, stop, step))
        if isinstance(rows, int | np.integer):
            return self._gather(_numbers(np.array([rows]), len(self)))[0]
        return self._gather(_numbers(rows, len(self)))

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("Stored rows may not fit in memory. Read a few with rows.read(start, stop).")

    # -- writing ------------------------------------------------------------------------------------------------------
    def append(self, rows: NDArray[np.floating]) -> None:
        """Add a batch of rows."""
        rows = np.asarray(rows)
        if rows.ndim != 2 or rows.shape[1] != self._blocks.columns:
            raise WrongShape(f"The store has {self._blocks.columns} columns, not rows of shape {rows.shape}.")
        if self._start or self._stop is not None:
            raise InvalidSetting("A part of stored rows cannot grow.", "Append to the whole.")
        self._blocks.append(rows)

    def like(self, columns: int, memory: int = MEMORY) -> StoredRows:
        """No rows yet, in the same folder: for what is computed from these."""
        return StoredRows.writing(self._blocks.folder, columns, memory)

    # -- reading ------------------------------------------------------------------------------------------------------
    @property
    def block_rows(self) -> int:
        """The most rows of a block."""
        return self._blocks.block_rows

    @property
    def lead(self) -> int:
        """How many rows of the first block come before the first row. Block i ends at row (i + 1) block_rows - lead."""
        return self._start % self._blocks.block_rows

    @property
    def block_count(self) -> int:
        """How many blocks hold these rows."""
        return -(-(len(self) + self.lead) // self.block_rows) if len(self) else 0

    def span(self, index: int) -> slice:
        """The rows of a block."""
        first = index * self.block_rows - self.lead
        return slice(max(0, first), min(len(self), first + self.block_rows))

    def block(self, index: int, columns: Sequence[range] | None = None) -> Array:
        """Rows of a block: all columns, or these runs of them. Columns stand side by side, as BLAS takes them.

        It is not to be written to: of rows in memory it is a view.
        """
        first = self._start // self.block_rows + index
        span, before = self.span(index), index * self.block_rows - self.lead
        block = self._blocks.read(first, (range(self._blocks.columns),) if columns is None else columns)
        return block[span.start - before : span.stop - before]

    def blocks(self) -> Iterator[Array]:
        """All rows, a block at a time."""
        return (self.block(index) for index in range(self.block_count))

    def read(self, start: int, stop: int) -> Array:
        """Rows start to stop, as an array in memory."""
        wanted = self[start:stop]
        rows = np.empty(wanted.shape)
        for index in range(wanted.block_count):
            rows[wanted.span(index)] = wanted.block(index)
        return rows

    def take(self, index: NDArray[np.intp], memory: int = MEMORY) -> StoredRows:
        """Distinct rows in the order of `index`, stored anew: read once, and put on piles by where they go to."""
        columns, pile_rows = self._blocks.columns, max(SHORTEST_BLOCK, TAKEN_BYTES // (_NUMBER * (self.shape[1] + 1)))
        pile_rows = max(pile_rows, -(-len(index) // MOST_PILES))
        place: NDArray[np.signedinteger] = np.full(len(self), -1, np.int32 if len(index) < 1 << 31 else np.int64)
        place[index] = np.arange(len(index), dtype=place.dtype)
        if np.count_nonzero(place >= 0) != len(index):
            raise InvalidSetting("A row is taken twice.", "Name each row once.")
        folder = self._blocks.folder
        piles = [_Blocks(folder, columns + 1, 0, _PILE_BLOCK) for _ in range(0, len(index), pile_rows)]
        for number in range(self.block_count):
            here = place[self.span(number)]
            wanted = np.flatnonzero(here >= 0)
            wanted = wanted[np.argsort(here[wanted], kind="stable")]
            if not len(wanted):
                continue
            going = np.column_stack([self.block(number)[wanted], here[wanted]])  # the place is exact below 2^53
            cuts = np.searchsorted(here[wanted], np.arange(1, len(piles)) * pile_rows)
            for pile, rows in zip(piles, np.split(going, cuts), strict=True):
                if len(rows):
                    pile.append(rows)
        taken = StoredRows.writing(folder, columns, memory)
        for number, pile in enumerate(piles):
            taken.append(_in_place(StoredRows(pile), number * pile_rows))
            pile.close()
        return taken

    def close(self) -> None:
        """Give the disk's room back, for all views too. Without, it happens when the last view is gone."""
        self._blocks.close()

    def _gather(self, numbers: NDArray[np.intp]) -> Array:
        rows = np.empty((len(numbers), self._blocks.columns))
        order = np.argsort(numbers, kind="stable")
        which = (numbers[order] + self.lead) // self.block_rows
        cuts = np.flatnonzero(np.diff(which)) + 1
        for some in np.split(order, cuts) if len(order) else ():
            index = int(numbers[some[0]] + self.lead) // self.block_rows
            rows[some] = self.block(index)[numbers[some] - self.span(index).start]
        return rows


Rows: TypeAlias = NDArray[np.floating] | StoredRows
"""What learners train on: a matrix in memory, or stored rows."""

Index: TypeAlias = slice | NDArray[np.intp]
"""Some rows: those of a slice with step 1 are never copied."""


def rows_store(folder: Path, columns: int, memory: int = MEMORY) -> StoredRows:
    """Where a learner's rows are put, batch by batch: up to `memory` bytes in memory, else all in a file."""
    return StoredRows.writing(folder, columns, memory)


def some_rows(X: Rows, index: Index) -> Rows:
    """Rows of X: a view for a slice, else a copy where X itself is, in memory or on disk."""
    if isinstance(X, StoredRows):
        return X.take(index) if isinstance(index, np.ndarray) else X[index]
    return X[index]


def count_rows(index: Index) -> int:
    """How many rows an index has; a slice must say where it starts and stops."""
    return index.stop - index.start if isinstance(index, slice) else len(index)


def as_slice(index: NDArray[np.intp]) -> Index:
    """The same rows as a slice, where they are in order and side by side."""
    count = len(index)
    if count and index[-1] - index[0] == count - 1 and bool(np.all(index[1:] > index[:-1])):
        return slice(int(index[0]), int(index[-1]) + 1)
    return index


def runs(columns: Sequence[int] | NDArray[np.intp]) -> tuple[range, ...]:
    """Column numbers as runs of neighbours, in their order.

    >>> runs([0, 1, 2, 7, 5, 6])
    (range(0, 3), range(7, 8), range(5, 7))
    """
    found: list[range] = []
    for column in map(int, columns):
        if found and found[-1].stop == column:
            found[-1] = range(found[-1].start, column + 1)
        else:
            found.append(range(column, column + 1))
    return tuple(found)


class _Blocks:
    """Blocks of rows, in a list or in a file, and the last one, which is not full and stays in memory."""

    def __init__(self, folder: Path, columns: int, memory: int, block_bytes: int) -> None:
        self.folder, self.columns, self._memory = folder, columns, memory
        self.block_rows = max(SHORTEST_BLOCK, min(LONGEST_BLOCK, block_bytes // (_NUMBER * columns)))
        self.rows, self.largest = 0, 0.0
        self._held: list[Array] = []  # each (columns, block_rows)
        self._rooms: list[Array] = []
        self._last: Array | None = None
        self._file: int | None = None
        self._closed = False
        self._end: weakref.finalize[..., Any] | None = None

    @property
    def on_disk(self) -> bool:
        return self._file is not None

    def append(self, rows: NDArray[np.floating]) -> None:
        self._refuse_if_closed()
        for start in range(0, len(rows), self.block_rows):
            few = rows[start : start + self.block_rows]
            # A NaN is neither below nor above anything, and stays.
            self.largest = float(np.max([self.largest, np.max(few), -np.min(few)]))
            while len(few):
                few = self._put(few)

    def _put(self, rows: NDArray[np.floating]) -> NDArray[np.floating]:
        """Put what fits into the last block; the rest is returned."""
        filled = self.rows % self.block_rows
        if self._last is None:
            self._last = self._room()
        fitting = rows[: self.block_rows - filled]
        self._last[:, filled : filled + len(fitting)] = fitting.T
        if filled + len(fitting) == self.block_rows:
            self._keep(self._last)
        self.rows += len(fitting)
        return rows[len(fitting) :]

    def _room(self) -> Array:
        """Memory for one more block: the first by themselves, then many at once, in pages as large as there are."""
        if not self._rooms:
            block = self.columns * self.block_rows * _NUMBER
            fitting = min(_SLAB // block, self._memory // block - len(self._held))
            self._rooms = list(
                np.empty((fitting if len(self._held) > 1 and fitting > 1 else 1, self.columns, self.block_rows))
            )
        return self._rooms.pop()

    def _keep(self, block: Array) -> None:
        index = self.rows // self.block_rows
        if self._file is None and (len(self._held) + 1) * block.nbytes <= self._memory:
            self._held.append(block)
            self._last = None
            return
        if self._file is None:
            self._open()
            for earlier, held in enumerate(self._held):
                self._write(earlier, held)
            self._held.clear()
            self._rooms.clear()
        self._write(index, block)

    def read(self, index: int, columns: Sequence[range]) -> Array:
        """Columns of a block, (rows, columns): for a run of columns in memory a view."""
        self._refuse_if_closed()
        rows = min(self.block_rows, self.rows - index * self.block_rows)
        if self._file is None or rows < self.block_rows or index >= self.rows // self.block_rows:
            block = self._held[index] if index < len(self._held) else self._last
            if block is None:
                raise InvalidSetting(f"There is no block {index}.")
            parts = [block[run.start : run.stop] for run in columns]
            return (parts[0] if len(parts) == 1 else np.concatenate(parts))[:, :rows].T
        block = np.empty((sum(map(len, columns)), self.block_rows))
        first = 0
        for run in columns:
            place = (index * self.columns + run.start) * self.block_rows * _NUMBER
            if _CAN_ADVISE:
                later = place + _AHEAD * self.block_rows * self.columns * _NUMBER
                os.posix_fadvise(self._file, later, len(run) * self.block_rows * _NUMBER, os.POSIX_FADV_WILLNEED)
            self._fill(block[first : first + len(run)].data.cast("B"), place)
            first += len(run)
        return block.T

    def close(self) -> None:
        self._closed, self._last = True, None
        self._held.clear()
        self._rooms.clear()
        if self._end is not None:
            self._end()

    def _open(self) -> None:
        try:
            self._file = _nameless(self.folder)
        except OSError as error:
            raise StorageFailed(
                f"No scratch file could be made for the rows: {error.strerror}.",
                "Give the service a folder of its own.",
            ) from error
        self._end = weakref.finalize(self, os.close, self._file)

    def _write(self, index: int, block: Array) -> None:
        assert self._file is not None
        left, place = block.data.cast("B"), index * block.nbytes
        try:
            while left:
                written = os.pwrite(self._file, left, place)
                left, place = left[written:], place + written
        except OSError as error:
            raise StorageFailed(
                f"The rows could not be written to the scratch file: {error.strerror}.", "Make room on the disk."
            ) from error

    def _fill(self, room: memoryview, place: int) -> None:
        assert self._file is not None
        while room:
            try:
                count = os.preadv(self._file, [room], place)
            except OSError as error:
                raise StorageFailed(f"The scratch file cannot be read: {error.strerror}.", "Check the disk.") from error
            if not count:
                raise StorageFailed("The scratch file ends early.", "Nothing but this process may write to it.")
            room, place = room[count:], place + count

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise InvalidSetting("These stored rows were closed.", "Store them anew.")


def _nameless(folder: Path) -> int:
    """A file that only its descriptor leads to, and only its owner may open."""
    flag = getattr(os, "O_TMPFILE", 0)
    if flag:
        try:
            return os.open(folder, os.O_RDWR | os.O_CLOEXEC | flag, stat.S_IRUSR | stat.S_IWUSR)
        except OSError:  # not every file system can
            pass
    file, name = tempfile.mkstemp(dir=folder, prefix=".rows-")  # mode 0600
    os.unlink(name)
    return file


def _numbers(rows: NDArray[Any], n: int) -> NDArray[np.intp]:
    """Row numbers from 0, of a mask or of numbers that may count from the end."""
    rows = np.asarray(rows)
    if rows.dtype == np.bool_:
        if rows.shape != (n,):
            raise IndexError(f"A mask of shape {rows.shape} for {n} rows.")
        return np.flatnonzero(rows)
    numbers = rows.astype(np.intp) if len(rows) else np.empty(0, np.intp)
    if numbers.ndim != 1 or (len(numbers) and not -n <= numbers.min() <= numbers.max() < n):
        raise IndexError(f"Rows that are not among {n}.")
    return np.where(numbers < 0, numbers + n, numbers)


def _in_place(pile: StoredRows, first: int) -> Array:
    """The rows of a pile where their last column says, counted from `first`; without that column."""
    rows = np.empty((len(pile), pile.shape[1] - 1))
    for block in pile.blocks():
        rows[block[:, -1].astype(np.intp) - first] = block[:, :-1]
    return rows
