"""Who sits where, for good: each person of the site a seat, each seat a cell, and for each dataset a number of rows.

Seats belong to the site. A person has one seat in all its datasets, versions and roles, and the seat keeps its cell for
ever; the ledger charges cells. Cells are dealt by secret chance, never by what records hold. A study reads whole cells;
a cell's spend bounds what any seat in it has lost.

In a dataset a seat holds a row for each record that its person ever had kept there, at most m. The numbers of rows in
each cell are public: a neighbour replaces what lies in one seat. A row that no record fills, as when a person has left
the data, is filled with one fixed record, so that the number of rows never depends on who is there.
Why this is sound: docs/proofs/cells.md.

The table is one file, sorted by tag, that begins with random bytes. The ledger names its SHA-256 with every version: so
it commits to who sits where, and tells nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from crossward.errors import InvalidData, InvalidSetting, StorageFailed
from crossward.privacy.noise import SYSTEM, Randomness
from crossward.protocol.constants import CELLS
from crossward_site.data.beside import Pulse, unwatched
from crossward_site.data.straight import leave_some, settle
from crossward_site.data.tags import Tags

NOBODY = 255
"""The cell of a row that is not kept."""

MAGIC = b"crossward seats 1\n"
SALT = 32
PART = 2_000_000
"""About so many rows are seated at a time."""

Cells = NDArray[np.uint8]
Keys = Callable[[NDArray[np.intp], Tags, NDArray[np.intp]], Tags]
"""The key of each row, from the rows' numbers, their persons, and which of the person's rows each is."""
Sizes = NDArray[np.int64]
N = TypeVar("N", np.uint64, np.uint8, np.bool_)


@dataclass(frozen=True, slots=True)
class SeatTable:
    """Every seat of a site, in the order of tags, and how many rows each has in each dataset."""

    tags: Tags
    cells: Cells
    rows: Mapping[str, Cells]

    @classmethod
    def empty(cls) -> SeatTable:
        """Nobody yet."""
        return cls(np.empty(0, np.uint64), np.empty(0, np.uint8), {})

    def __len__(self) -> int:
        return len(self.tags)

    @property
    def sizes(self) -> Sizes:
        """The number of seats in each cell."""
        return _sums(self.cells, None)

    def counts(self, dataset: str) -> tuple[int, ...]:
        """The public number of rows that a dataset has in each cell."""
        rows = self.rows.get(dataset)
        return (0,) * CELLS if rows is None else tuple(_sums(self.cells, rows).tolist())

    def rows_of(self, dataset: str) -> Cells:
        """How many rows each seat has in a dataset."""
        rows = self.rows.get(dataset)
        return np.zeros(len(self), np.uint8) if rows is None else rows

    def with_rows(self, dataset: str, rows: Cells | None) -> SeatTable:
        """The table with other rows for a dataset; None: without it. All keep their seats."""
        others = {name: column for name, column in self.rows.items() if name != dataset}
        return SeatTable(self.tags, self.cells, others if rows is None else others | {dataset: rows})

    def rows_for(self, tags: Tags, dataset: str) -> Cells:
        """How many rows these persons have in a dataset here; 0 for those without a seat."""
        found = np.searchsorted(self.tags, tags)
        found[found == len(self)] = 0
        known = np.zeros(len(tags), bool) if not len(self) else self.tags[found] == tags
        rows = np.zeros(len(tags), np.uint8)
        rows[known] = self.rows_of(dataset)[found[known]]
        return rows

    def mark(self, tags: Tags, seats: NDArray[np.bool_]) -> None:
        """Mark the seats of these persons, of those who have one."""
        if len(self):
            found = np.minimum(np.searchsorted(self.tags, tags), len(self) - 1)
            seats[found[self.tags[found] == tags]] = True

    # -- the file -------------------------------------------------------------------------------------------------
    def save(self, path: Path, salt: bytes) -> str:
        """Write the table; gives its digest. What was written is on disk when this returns."""
        names = sorted(self.rows)
        head = json.dumps({"seats": len(self), "datasets": names}).encode()
        parts: list[bytes | NDArray[Any]] = [MAGIC, salt, len(head).to_bytes(4, "big"), head]
        parts += [self.tags.astype("<u8", copy=False), self.cells, *(self.rows[name] for name in names)]
        digest = hashlib.sha256()
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                leave_some(file.fileno(), sum(map(len, parts[:4])) + (9 + len(names)) * len(self))
                for part in parts:
                    data = part if isinstance(part, bytes) else _bytes(part)
                    digest.update(data)
                    file.write(data)
                file.flush()
                os.fsync(file.fileno())
            settle(path.parent)
        except OSError as error:
            path.unlink(missing_ok=True)
            raise StorageFailed(f"The table of seats cannot be written: {error.strerror}.", "Make room.") from error
        return digest.hexdigest()

    @classmethod
    def load(cls, path: Path, digest: str) -> SeatTable:
        """The table of a file, if it is the one with this digest."""
        try:
            data = path.read_bytes()
        except OSError:
            raise seats_lost("it cannot be read") from None
        if hashlib.sha256(data).hexdigest() != digest:
            raise seats_lost("it is not the one that the ledger names")
        start = len(MAGIC) + SALT
        length = int.from_bytes(data[start : start + 4], "big")
        head = json.loads(data[start + 4 : start + 4 + length])
        at, count = start + 4 + length, head["seats"]
        tags = np.frombuffer(data, "<u8", count, at).astype(np.uint64, copy=False)
        columns = np.frombuffer(data, np.uint8, count * (1 + len(head["datasets"])), at + 8 * count)
        cells, *rows = columns.reshape(1 + len(head["datasets"]), count)
        return cls(tags, cells, dict(zip(head["datasets"], rows, strict=True)))


def _sums(cells: Cells, rows: Cells | None) -> Sizes:
    """How many seats lie in each cell, or how many rows; part by part, for the count takes eight bytes of each."""
    total = np.zeros(CELLS, np.int64)
    for start in range(0, len(cells), PART):
        part = slice(start, start + PART)
        total += np.bincount(cells[part], None if rows is None else rows[part], CELLS).astype(np.int64)
    return total


def seats_lost(why: str) -> InvalidData:
    """The table of seats is not there, or not this one."""
    return InvalidData(
        f"The site's table of seats is lost: {why}.",
        "Restore a backup that has it, or run crossward site recover: every cell is then at the largest spend.",
    )


def digest_of(path: Path) -> str | None:
    """The digest of a file; None where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _bytes(column: NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(column).data.cast("B") if len(column) else memoryview(b"")


# -- dealing cells --------------------------------------------------------------------------------------------------
def deal(sizes: Sizes, new: int, randomness: Randomness = SYSTEM) -> Cells:
    """Cells for so many new seats: the smallest are filled up first, and chance says who gets which.

    How many seats each cell gains depends on the sizes alone, which are public.
    """
    if new < 0:
        raise InvalidSetting(f"Cannot deal {new} seats.", "Give 0 or more.")
    gains = levelled(sizes, int(sizes.sum()) + new) - sizes
    return np.repeat(np.arange(len(sizes), dtype=np.uint8), gains)[randomness.permutation(new)]


def levelled(sizes: Sizes, total: int) -> Sizes:
    """The sizes after filling the smallest cells up, like water, to `total` seats. No cell shrinks."""
    levels = np.sort(sizes)
    filled = next(k for k in range(sizes.size, 0, -1) if levels[:k].sum() + total - levels.sum() >= k * levels[k - 1])
    water = int(levels[:filled].sum()) + total - int(levels.sum())
    level, more = divmod(water, filled)
    after = np.maximum(sizes, level)
    after[np.flatnonzero(sizes <= level)[:more]] += 1
    return after


# -- seating the rows of a dataset ----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Seated:
    """A dataset's new version, seated. `cells` has the cell of each row, NOBODY where the row is not kept."""

    table: SeatTable
    cells: Cells
    persons: int
    new: int
    came: int
    left: int
    stayed: int
    kept: int


def seat(
    table: SeatTable,
    dataset: str,
    persons: Tags,
    keys: Keys,
    most: int,
    randomness: Randomness = SYSTEM,
    were: NDArray[np.bool_] | None = None,
    *,
    part: int = PART,
    pulse: Pulse = unwatched,
) -> Seated:
    """Seat the rows of a dataset: known persons where they sit, new ones by chance; at most so many rows of each.

    `persons` has the tag of each row; of a person with too many rows those with the smallest keys are kept. `were` says
    of each seat whether its person was in the version before; without, all who ever were are taken to have been. Rows
    are taken by ranges of tags, so that what is needed beside the arrays themselves stays small.
    """
    sizes, cell_of = table.sizes, np.full(len(persons), NOBODY, np.uint8)
    seats, most_seats = 0, len(table) + len(persons)  # what is not filled of this room takes no memory
    tags, cells, rows = np.empty(most_seats, np.uint64), np.empty(most_seats, np.uint8), np.empty(most_seats, np.uint8)
    old_rows = table.rows_of(dataset)
    were = old_rows > 0 if were is None else were
    count = {"persons": 0, "new": 0, "came": 0, "left": 0, "stayed": 0, "kept": 0}
    for low, high in ranges(max(1, -(-len(persons) // part))):
        pulse()
        here = np.flatnonzero((persons >= low) & (persons <= high)) if low or high != _LAST else np.arange(len(persons))
        here, who, start = _chosen(here, persons, keys, most)
        first, last = np.searchsorted(table.tags, low), np.searchsorted(table.tags, high, "right")
        known, old_cells, old = table.tags[first:last], table.cells[first:last], old_rows[first:last]
        place = np.searchsorted(known, who)
        is_known = np.append(known, known[-1:])[place] == who if len(known) else np.zeros(len(who), bool)
        dealt = deal(sizes, int(np.count_nonzero(~is_known)), randomness)
        sizes = sizes + np.bincount(dealt, minlength=CELLS)
        kept = np.diff(np.append(start, len(here)))
        at = place + np.cumsum(~is_known) - ~is_known  # behind all who are known, and new, before them
        is_new = np.zeros(len(known) + len(dealt), bool)
        is_new[at[~is_known]] = True
        merged, cell = _woven(known, who[~is_known], is_new), _woven(old_cells, dealt, is_new)
        now = np.zeros(len(merged), np.int64)
        now[at] = kept
        before = _woven(old, np.zeros(len(dealt), np.uint8), is_new)
        was = _woven(were[first:last], np.zeros(len(dealt), bool), is_new)
        cell_of[here] = np.repeat(cell[at], kept)
        after = seats + len(merged)
        tags[seats:after], cells[seats:after], rows[seats:after] = merged, cell, np.maximum(before, now)
        seats = after
        count["persons"] += len(who)
        count["new"] += len(dealt)
        count["came"] += int(np.count_nonzero(~was & (now > 0)))
        count["left"] += int(np.count_nonzero(was & (now == 0)))
        count["stayed"] += int(np.count_nonzero(was & (now > 0)))
        count["kept"] += len(here)
    seated = _extended(table, tags[:seats], cells[:seats], dataset, rows[:seats])
    return Seated(seated, cell_of, **count)


_LAST = (1 << 64) - 1


def _woven(old: NDArray[N], new: NDArray[N], is_new: NDArray[np.bool_]) -> NDArray[N]:
    """Two columns as one, in the order that `is_new` says."""
    both = np.empty(len(is_new), old.dtype)
    both[is_new], both[~is_new] = new, old
    return both


def ranges(parts: int) -> list[tuple[np.uint64, np.uint64]]:
    """All tags, cut into so many ranges: tags are spread evenly, whoever is there."""
    step = (1 << 64) // parts
    starts = [k * step for k in range(parts)]
    return [
        (np.uint64(low), np.uint64(high))
        for low, high in zip(starts, [*(s - 1 for s in starts[1:]), _LAST], strict=True)
    ]


def _chosen(
    here: NDArray[np.intp], persons: Tags, keys: Keys, most: int
) -> tuple[NDArray[np.intp], Tags, NDArray[np.intp]]:
    """The rows that are kept, person by person; the persons, in the order of tags; and where each one's rows start."""
    own = persons[here]
    order = np.argsort(own)
    if (own[order][1:] == own[order][:-1]).any():  # a person's rows in their order; where each has one, it is no matter
        order = np.argsort(own, kind="stable")
    own = own[order]
    start = np.flatnonzero(np.append(True, own[1:] != own[:-1])) if len(own) else np.empty(0, np.intp)
    counts = np.diff(np.append(start, len(own)))
    if len(counts) and counts.max() > most:
        rank = np.arange(len(own)) - np.repeat(start, counts)
        order = order[np.lexsort((keys(here[order], own, rank), own))]
        order, own = order[rank < most], own[rank < most]
        start = np.flatnonzero(np.append(True, own[1:] != own[:-1]))
    return here[order], own[start], start


def _extended(table: SeatTable, tags: Tags, cells: Cells, dataset: str, rows: Cells) -> SeatTable:
    """The table with the new seats in their places; in other datasets they have no rows."""
    if len(tags) == len(table):
        return table.with_rows(dataset, rows)
    at = np.searchsorted(tags, table.tags)
    columns = {}
    for name, column in table.rows.items():
        wider = np.zeros(len(tags), np.uint8)
        wider[at] = column
        columns[name] = wider
    return SeatTable(tags, cells, columns | {dataset: rows})
