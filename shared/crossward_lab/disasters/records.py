"""The tables of a hospital: who is in them, who comes and leaves, and what the records say.

Who is there is drawn from the history's seed, and what the records say from another: so a history can be told again
with other records of the same persons.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from crossward_site.data.places import FilePlace, Sources

if TYPE_CHECKING:
    from crossward_lab.disasters.history import World

DATASET, SECOND = "patients", "clinic"
RECORDS = 60
SECOND_RECORDS = 40
COLUMNS = ("pid", "glucose", "family", "ill")
MARK, DIGITS = "glucose", 4
"""The column whose last digits, after the second decimal, are the number of the record's person, from 1."""


class Shelf(Sources):
    """A hospital's folder of tables, wherever it is: histories lie in memory, where no real table would."""

    def _check_root(self, name: str, root: Path) -> None:
        pass

    def _check_place(self, descriptor: int, where: str) -> None:
        pass


@dataclass
class Person:
    """Somebody, and what is known of them."""

    glucose: float
    family: bool
    ill: bool


def person_of(value: float) -> str | None:
    """Whose record has this value; None where no person's has."""
    number = round(value * 10 ** (2 + DIGITS)) % 10**DIGITS
    return f"p{number - 1}" if number else None


def place_of(dataset: str) -> FilePlace:
    """Where a dataset lies."""
    return FilePlace(kind="csv", path=f"{dataset}.csv")


class Tables:
    """What a hospital has of its patients. `persons` are all there ever were, `inside` those in each table now."""

    def __init__(self, world: World, party: str) -> None:
        self._world, self._folder = world, world.folder / "records" / party
        self.persons: dict[str, Person] = {}
        self.inside: dict[str, list[str]] = {}

    def load(self) -> None:
        """Know the persons of the tables that are there."""
        for path in sorted(self._folder.glob("*.csv")):
            with path.open(newline="") as file:
                rows = list(csv.DictReader(file))
            self.inside[path.stem] = [row["pid"] for row in rows]
            for row in rows:
                self.persons[row["pid"]] = Person(float(row["glucose"]), row["family"] == "yes", row["ill"] == "1")

    def begin(self) -> None:
        """The first table."""
        self.inside[DATASET] = [self._new() for _ in range(RECORDS)]
        self.write(DATASET)

    def begin_second(self) -> None:
        """Another table, of some who are known and some who are not."""
        draw = self._world.draw
        known = draw.sample(list(self.persons), min(len(self.persons), SECOND_RECORDS * 3 // 4))
        self.inside[SECOND] = known + [self._new() for _ in range(SECOND_RECORDS - len(known))]
        self.write(SECOND)

    def change(self, dataset: str) -> None:
        """Some leave the table, some return, some come for the first time, and of some another value is known."""
        draw, values, inside = self._world.draw, self._world.values, self.inside[dataset]
        gone = set(draw.sample(inside, draw.randint(0, len(inside) // 8)))
        outside = [person for person in self.persons if person not in inside]
        back = draw.sample(outside, draw.randint(0, min(6, len(outside))))
        self.inside[dataset] = [person for person in inside if person not in gone] + back
        self.inside[dataset] += [self._new() for _ in range(draw.randint(0, 6))]
        for person in draw.sample(self.inside[dataset], 5):
            self.persons[person].glucose = values.uniform(3.5, 11.0)
        self.write(dataset)

    def _new(self) -> str:
        values, name = self._world.values, f"p{len(self.persons)}"
        glucose, family = values.uniform(3.5, 11.0), values.random() < 0.3
        self.persons[name] = Person(glucose, family, values.random() < 0.2 + 0.6 * (glucose > 7.0))
        return name

    def write(self, dataset: str) -> None:
        """Export a table: it is there as a whole, in place of the last."""
        self._folder.mkdir(parents=True, exist_ok=True)
        part = self._folder / f"{dataset}.part"
        with part.open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow(COLUMNS)
            for name in self.inside[dataset]:
                person = self.persons[name]
                family, ill = "yes" if person.family else "no", "1" if person.ill else "0"
                mark = f"{int(name[1:]) + 1:0{DIGITS}d}"
                out.writerow([name, f"{person.glucose:.2f}{mark}", family, ill])
        part.replace(self._folder / f"{dataset}.csv")
