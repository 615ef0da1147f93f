"""Who sits where, for good: each person a slot, each slot a cell and a number of places.

A slot has a place for each record that its person ever had kept, at most m. The places of all slots are public
(as is the number of slots): a neighbour replaces what lies in one slot's places. A place that no record fills, as when
a person has left the data, is filled with one fixed record, so that the number of rows never depends on who is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, insert, select, update

from crossward_site.tables import slots
from crossward_site.vault.cells import CELLS, EMPTY, Slots

Ints = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Seats:
    """A dataset's slots, with the places of each."""

    slots: Slots
    places: Ints

    @classmethod
    def empty(cls) -> Seats:
        """Nobody yet."""
        return cls(Slots({}, np.empty(0, dtype=np.intp)), np.empty(0, dtype=np.intp))

    @classmethod
    def load(cls, connection: Connection, dataset: str) -> Seats:
        """The seats of a dataset."""
        query = select(slots.c.person, slots.c.slot, slots.c.cell, slots.c.places).where(slots.c.dataset == dataset)
        rows = connection.execute(query.order_by(slots.c.slot)).all()
        cells = np.array([row.cell for row in rows], dtype=np.intp)
        places = np.array([row.places for row in rows], dtype=np.intp)
        return cls(Slots({row.person: row.slot for row in rows}, cells), places)

    def next_version(self, rows_of: Mapping[str, Sequence[int]]) -> Seats:
        """Known persons keep their slots, new ones get slots at the end; more records of a person get more places."""
        after = self.slots.next_version(list(rows_of))
        places = np.concatenate([self.places, np.ones(len(after.slot_of) - len(self.places), dtype=np.intp)])
        for person, rows in rows_of.items():
            slot = after.slot_of[person]
            places[slot] = max(places[slot], len(rows))
        return Seats(after, places)

    def save(self, connection: Connection, dataset: str, before: Seats, humans: Mapping[str, str]) -> None:
        """Write the slots that are new since `before`, and the places that have grown."""
        old = len(before.places)
        new = [
            {"dataset": dataset, "person": person, "human": humans[person]}
            | {"slot": slot, "cell": int(cell), "places": int(places)}
            for (person, slot), cell, places in zip(
                list(self.slots.slot_of.items())[old:], self.slots.cell_of[old:], self.places[old:], strict=True
            )
        ]
        if new:
            connection.execute(insert(slots), new)
        for slot in np.flatnonzero(self.places[:old] != before.places):
            grown = update(slots).where(slots.c.dataset == dataset, slots.c.slot == int(slot))
            connection.execute(grown.values(places=int(self.places[slot])))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The public number of places in each cell."""
        sizes = np.bincount(self.slots.cell_of, weights=self.places, minlength=CELLS)
        return tuple(int(size) for size in sizes)

    def rows(self, rows_of: Mapping[str, Sequence[int]]) -> tuple[Ints, Ints]:
        """For each place, in the order of slots: the row that fills it, or EMPTY; and its cell.

        Persons without a slot are left out: they came after the last registered version.
        """
        start = np.concatenate([[0], np.cumsum(self.places)])
        filled = np.full(int(start[-1]), EMPTY, dtype=np.intp)
        for person, rows in rows_of.items():
            slot = self.slots.slot_of.get(person)
            if slot is not None:
                kept = rows[: self.places[slot]]
                filled[start[slot] : start[slot] + len(kept)] = kept
        return filled, np.repeat(self.slots.cell_of, self.places)
