"""Who sits where, for good: each person a seat, each seat a cell and a number of rows.

Seats are cut into permanent cells of equal size by secret chance, never by what the records hold. A study reads whole
cells; a cell's spend bounds what any seat in it has lost. A person keeps the seat, and the seat its cell, through all
later versions of the data.

A seat holds a row for each record that its person ever had kept, at most m. The numbers of seats and of their rows are
public: a neighbour replaces what lies in one seat's rows. A row that no record fills, as when a person has left the
data, is filled with one fixed record, so that the number of rows never depends on who is there.
Why this is sound: docs/proofs/cells.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, bindparam, func, insert, select, update

from crossward.errors import InvalidSetting
from crossward.privacy.noise import SYSTEM, Randomness
from crossward.protocol.constants import CELLS
from crossward_site.data import tables

EMPTY = -1
"""No record fills this row."""

Ints = NDArray[np.intp]

_OF = tables.seats.c.dataset == bindparam("dataset")
_SEATS = (
    select(tables.seats.c.person, tables.seats.c.seat, tables.seats.c.cell, tables.seats.c.rows)
    .where(_OF)
    .order_by(tables.seats.c.seat)
)
_SIZES = select(tables.seats.c.cell, func.sum(tables.seats.c.rows)).where(_OF).group_by(tables.seats.c.cell)


def cut(seats: int, randomness: Randomness = SYSTEM, cells: int = CELLS) -> Ints:
    """The cell of each seat: a uniformly random cut in which no two cells differ by more than one seat."""
    return assign_new(np.empty(0, dtype=np.intp), seats, randomness, cells)


def assign_new(cell_of: Ints, new: int, randomness: Randomness = SYSTEM, cells: int = CELLS) -> Ints:
    """`cell_of` with `new` seats appended. Old seats stay; new ones fill the smallest cells, in random order.

    How many seats each cell gains depends on the sizes alone, which are public; which seat goes where is chance.
    """
    if new < 0 or cells < 1:
        raise InvalidSetting(
            f"Cannot put {new} new seats into {cells} cells.", "Give 0 seats or more, and 1 cell or more."
        )
    sizes = np.bincount(cell_of, minlength=cells)
    if sizes.size > cells:
        raise InvalidSetting(
            f"A seat is in cell {sizes.size - 1} of {cells}.", "Cells are permanent: keep their number."
        )
    gains = _levelled(sizes, int(sizes.sum()) + new) - sizes
    gained = np.repeat(np.arange(cells), gains)
    return np.concatenate([cell_of, gained[randomness.permutation(new)]]).astype(np.intp)


def _levelled(sizes: Ints, total: int) -> Ints:
    """The sizes after filling the smallest cells up, like water, to `total` seats. No cell shrinks."""
    levels = np.sort(sizes)
    filled = next(k for k in range(sizes.size, 0, -1) if levels[:k].sum() + total - levels.sum() >= k * levels[k - 1])
    water = int(levels[:filled].sum()) + total - int(levels.sum())
    level, more = divmod(water, filled)
    after = np.maximum(sizes, level)
    after[np.flatnonzero(sizes <= level)[:more]] += 1
    return after


@dataclass(frozen=True, slots=True)
class Seats:
    """A dataset's seats: whose each is, its cell, and how many rows it holds. Kept here; only counts are public."""

    seat_of: Mapping[str, int]
    cell_of: Ints
    rows_of: Ints
    cells: int = CELLS

    @classmethod
    def empty(cls, cells: int = CELLS) -> Seats:
        """Nobody yet."""
        return cls({}, np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp), cells)

    @classmethod
    def load(cls, connection: Connection, dataset: str) -> Seats:
        """The seats of a dataset."""
        stored = connection.execute(_SEATS, {"dataset": dataset}).all()
        cells = np.array([row.cell for row in stored], dtype=np.intp)
        rows = np.array([row.rows for row in stored], dtype=np.intp)
        return cls({row.person: row.seat for row in stored}, cells, rows)

    def next_version(self, records: Mapping[str, Sequence[int]], randomness: Randomness = SYSTEM) -> Seats:
        """Known persons keep their seats, also while absent; new ones get seats at the end; more records, more rows."""
        new = [person for person in records if person not in self.seat_of]
        seat_of = {**self.seat_of, **{person: len(self.seat_of) + k for k, person in enumerate(new)}}
        rows = np.concatenate([self.rows_of, np.ones(len(new), dtype=np.intp)])
        for person, kept in records.items():
            rows[seat_of[person]] = max(rows[seat_of[person]], len(kept))
        return Seats(seat_of, assign_new(self.cell_of, len(new), randomness, self.cells), rows, self.cells)

    def save(self, connection: Connection, dataset: str, before: Seats, humans: Mapping[str, str]) -> None:
        """Write the seats that are new since `before`, and those that hold more rows."""
        table, old = tables.seats, len(before.rows_of)
        new = [
            {"dataset": dataset, "person": person, "human": humans[person]}
            | {"seat": seat, "cell": int(self.cell_of[seat]), "rows": int(self.rows_of[seat])}
            for person, seat in self.seat_of.items()
            if seat >= old
        ]
        if new:
            connection.execute(insert(table), new)
        for seat in np.flatnonzero(self.rows_of[:old] != before.rows_of):
            grown = update(table).where(table.c.dataset == dataset, table.c.seat == int(seat))
            connection.execute(grown.values(rows=int(self.rows_of[seat])))

    def fill(self, records: Mapping[str, Sequence[int]]) -> tuple[Ints, Ints]:
        """For each row, in the order of seats: the record that fills it, or EMPTY; and its cell.

        Persons without a seat are left out: they came after the last registered version.
        """
        start = np.concatenate([[0], np.cumsum(self.rows_of)])
        filled = np.full(int(start[-1]), EMPTY, dtype=np.intp)
        for person, numbers in records.items():
            seat = self.seat_of.get(person)
            if seat is not None:
                kept = numbers[: self.rows_of[seat]]
                filled[start[seat] : start[seat] + len(kept)] = kept
        return filled, np.repeat(self.cell_of, self.rows_of)


def load_sizes(connection: Connection, dataset: str) -> tuple[int, ...]:
    """The public number of rows in each cell of a dataset."""
    sizes = {row[0]: int(row[1]) for row in connection.execute(_SIZES, {"dataset": dataset})}
    return tuple(sizes.get(cell, 0) for cell in range(CELLS))
