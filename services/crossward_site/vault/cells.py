"""Slots and cells: who is charged when a study reads part of a dataset.

A dataset is a list of slots, one per person who was ever in it. Slots are cut into permanent cells of equal size by
secret chance, never by what the records hold. A study reads whole cells; a cell's spend bounds what any slot in it has
lost. A person keeps the slot, and the slot its cell, through all later versions of the data.
Why this is sound: docs/proofs/cells.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crossward.errors import InvalidData, InvalidSetting
from crossward.privacy.noise import SYSTEM, Randomness

CELLS = 20
EMPTY = -1

Cells = NDArray[np.intp]


def cut(slots: int, randomness: Randomness = SYSTEM, cells: int = CELLS) -> Cells:
    """The cell of each slot: a uniformly random cut in which no two cells differ by more than one slot."""
    return assign_new(np.empty(0, dtype=np.intp), slots, randomness, cells)


def assign_new(cell_of: Cells, new: int, randomness: Randomness = SYSTEM, cells: int = CELLS) -> Cells:
    """`cell_of` with `new` slots appended. Old slots stay; new ones fill the smallest cells, in random order.

    How many slots each cell gains depends on the sizes alone, which are public; which slot goes where is chance.
    """
    if new < 0 or cells < 1:
        raise InvalidSetting(
            f"Cannot put {new} new slots into {cells} cells.", "Give 0 slots or more, and 1 cell or more."
        )
    sizes = np.bincount(cell_of, minlength=cells)
    if sizes.size > cells:
        raise InvalidSetting(
            f"A slot is in cell {sizes.size - 1} of {cells}.", "Cells are permanent: keep their number."
        )
    gains = _levelled(sizes, int(sizes.sum()) + new) - sizes
    places = np.repeat(np.arange(cells), gains)
    return np.concatenate([cell_of, places[randomness.permutation(new)]]).astype(np.intp)


def _levelled(sizes: Cells, total: int) -> Cells:
    """The sizes after filling the smallest cells up, like water, to `total` slots. No cell shrinks."""
    levels = np.sort(sizes)
    filled = next(k for k in range(sizes.size, 0, -1) if levels[:k].sum() + total - levels.sum() >= k * levels[k - 1])
    water = int(levels[:filled].sum()) + total - int(levels.sum())
    level, more = divmod(water, filled)
    after = np.maximum(sizes, level)
    after[np.flatnonzero(sizes <= level)[:more]] += 1
    return after


@dataclass(frozen=True, slots=True)
class Slots:
    """Who sits where. Kept at the site, never published: only the number of slots in each cell is."""

    slot_of: Mapping[str, int]
    cell_of: Cells
    cells: int = CELLS

    @classmethod
    def register(cls, persons: Sequence[str], randomness: Randomness = SYSTEM, cells: int = CELLS) -> Slots:
        """The first version of a dataset: each person a slot, and the slots cut into cells."""
        return cls({}, np.empty(0, dtype=np.intp), cells).next_version(persons, randomness)

    def next_version(self, persons: Sequence[str], randomness: Randomness = SYSTEM) -> Slots:
        """A later version: known persons keep their slots, also while absent, and new ones get slots at the end."""
        _check_once(persons)
        new = [person for person in persons if person not in self.slot_of]
        slot_of = {**self.slot_of, **{person: len(self.slot_of) + i for i, person in enumerate(new)}}
        return Slots(slot_of, assign_new(self.cell_of, len(new), randomness, self.cells), self.cells)

    def rows(self, persons: Sequence[str], cells: Iterable[int]) -> Cells:
        """For each slot of these cells, in slot order: the row of `persons` that fills it, or EMPTY."""
        _check_once(persons)
        row_of = np.full(len(self.slot_of), EMPTY, dtype=np.intp)
        for row, person in enumerate(persons):
            if person not in self.slot_of:
                raise InvalidData(
                    "A person has no slot in this dataset.", "Register the new version of the data first."
                )
            row_of[self.slot_of[person]] = row
        return row_of[np.isin(self.cell_of, list(cells))]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The public number of slots in each cell."""
        return tuple(int(size) for size in np.bincount(self.cell_of, minlength=self.cells))


def _check_once(persons: Sequence[str]) -> None:
    if len(set(persons)) != len(persons):
        raise InvalidData("A person occurs in several rows.", "Keep one record per person, or pay for more.")
