"""Connecting data, registering new versions, and handing out rows by cell.

Records are read from their place each time, into memory, and never copied: the database knows persons as keyed hashes
and nothing of what their records say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter
from sqlalchemy import Connection, bindparam, func, insert, select, update

from crossward.errors import (
    AlreadyOpen,
    CrosswardError,
    InvalidData,
    InvalidSetting,
    UnknownDataset,
)
from crossward.privacy.budget import Budget
from crossward.privacy.noise import Array
from crossward.protocol.canonical import canonical
from crossward.protocol.constants import CELLS, FilterKind, Role
from crossward.protocol.ledger.lines import LineKind, OpenBody
from crossward.protocol.ledger.rules import Balance
from crossward.study import Study, work
from crossward_service.db.engine import read, write
from crossward_site.data.checks import check_budget, check_known, check_labels, check_not_closed, check_others
from crossward_site.data.mapping import DataMap
from crossward_site.data.persons import Persons, persons_of
from crossward_site.data.places import AnyPlace, Place
from crossward_site.data.report import ReportView, TableReport, encode, table_report
from crossward_site.data.seats import EMPTY, Seats, load_sizes
from crossward_site.data.tables import datasets, seats, versions
from crossward_site.site import Site

_PLACE: TypeAdapter[AnyPlace] = TypeAdapter(Place)

MOST_RECORDS = 100


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset as its current version has it."""

    name: str
    version: int
    records_per_person: int
    place: AnyPlace
    mapping: DataMap
    report: TableReport

    def misfit(self, study: Study) -> str:
        """Why a study cannot read this dataset, from columns and units alone; empty if it can."""
        try:
            self.mapping.check(study)
        except CrosswardError as error:
            return str(error)
        missing = [name for name in self.mapping.columns_for(study) if name not in self.report.columns]
        return f"It has no column {', '.join(map(repr, missing))}." if missing else ""


@dataclass(frozen=True, slots=True)
class Rows:
    """Encoded rows of a study's levels, in the order of seats; `present` is False where the fixed record fills one.

    The fixed record has every encoded column 0 and the negative label. It is the same everywhere, so it says nothing.
    """

    X: Array
    y: Array
    level: NDArray[np.str_]
    present: NDArray[np.bool_]


class Vault:
    """A site's datasets."""

    def __init__(self, site: Site) -> None:
        self._site = site

    # -- connecting -----------------------------------------------------------------------------------------------
    def connect(
        self,
        name: str,
        place: AnyPlace,
        mapping: DataMap,
        budget: Budget,
        *,
        rule: FilterKind = FilterKind.BASIC,
        records_per_person: int = 1,
        study: Study | None = None,
    ) -> Dataset:
        """Open a dataset with its lifetime budget, and cut it into cells. With a study, check that it fits it too."""
        if not 1 <= records_per_person <= MOST_RECORDS:
            raise InvalidSetting(
                f"{records_per_person} records per person are not possible.", f"Keep 1 to {MOST_RECORDS}."
            )
        check_budget(budget, rule)
        body = OpenBody(name, CELLS, rule, budget.nano_epsilon, budget.atto_delta)
        persons, report = self._survey(name, place, mapping, records_per_person, study)
        nobody = Seats.empty()
        everyone = nobody.next_version(persons.records_of, self._site.machine.noise)
        with write(self._site.engine) as connection:
            if connection.execute(select(datasets.c.name).where(datasets.c.name == name)).first() is not None:
                raise AlreadyOpen(f"There is a dataset {name}.", "Register a new version, or choose another name.")
            if self._site.ledger.find(connection, LineKind.OPEN, name) is not None:
                raise AlreadyOpen(
                    f"{name} was opened before, and this database has forgotten who sat in which cell.",
                    "Restore a later backup, or choose another name.",
                )
            self._site.check_running(connection)
            check_others(connection, name, persons)
            self._site.append(connection, body)
            opened = {"version": 1, "records_per_person": records_per_person, "opened": self._site.clock()}
            connection.execute(insert(datasets).values(name=name, **opened))
            self._write_version(connection, name, 1, place, mapping, report)
            everyone.save(connection, name, nobody, persons.humans)
            return load_dataset(connection, name)

    def add_version(
        self, name: str, place: AnyPlace | None = None, mapping: DataMap | None = None, study: Study | None = None
    ) -> Dataset:
        """Register the data as they are now, or at a new place: persons keep their seats, cells their spend."""
        now = self.dataset(name)
        place, mapping = now.place if place is None else place, now.mapping if mapping is None else mapping
        if mapping.person != now.mapping.person:
            raise InvalidSetting(
                f"{name} knows persons by the column {now.mapping.person!r}; by {mapping.person!r} each would look new "
                "and get a fresh budget.",
                f"Keep person: {now.mapping.person}, and name the column so in the file or the query.",
            )
        persons, report = self._survey(name, place, mapping, now.records_per_person, study)
        with write(self._site.engine) as connection:
            self._site.check_running(connection)
            check_not_closed(connection, name)
            version = load_dataset(connection, name).version + 1
            before = Seats.load(connection, name)
            check_known(before, persons, name, place.where)
            check_others(connection, name, persons)
            before.next_version(persons.records_of, self._site.machine.noise).save(
                connection, name, before, persons.humans
            )
            connection.execute(update(datasets).where(datasets.c.name == name).values(version=version))
            self._write_version(connection, name, version, place, mapping, report)
            return load_dataset(connection, name)

    def _survey(
        self, name: str, place: AnyPlace, mapping: DataMap, most: int, study: Study | None
    ) -> tuple[Persons, TableReport]:
        """Read the data once and check what can be checked: columns, ids, persons, labels; with a study, all of it."""
        there = place.names()
        mapped = [item.column for item in (*mapping.features.values(), *mapping.labels.values())]
        wanted = list(dict.fromkeys([*mapping.identity, *mapped, *(mapping.columns_for(study) if study else [])]))
        raw = place.read(wanted)
        persons = persons_of(raw, mapping, name, self._site.secret, most)
        check_labels(raw, mapping)
        if study is not None:
            mapping.check(study)
        fit = None if study is None else encode(study, mapping, raw).fit
        return persons, table_report(raw, persons, there, fit)

    def _write_version(
        self,
        connection: Connection,
        name: str,
        version: int,
        place: AnyPlace,
        mapping: DataMap,
        report: TableReport,
    ) -> None:
        connection.execute(
            insert(versions).values(
                dataset=name,
                version=version,
                place=canonical(place.model_dump(mode="json")).decode(),
                mapping=canonical(mapping.model_dump(mode="json")).decode(),
                report=canonical(report.model_dump(mode="json")).decode(),
                registered=self._site.clock(),
            )
        )

    # -- looking --------------------------------------------------------------------------------------------------
    def dataset(self, name: str) -> Dataset:
        """A dataset by its name."""
        with read(self._site.engine) as connection:
            return load_dataset(connection, name)

    def datasets(self) -> list[Dataset]:
        """All datasets."""
        with read(self._site.engine) as connection:
            return load_datasets(connection)

    def balance(self, name: str) -> Balance:
        """A dataset's budget and what its cells have spent."""
        with read(self._site.engine) as connection:
            return load_balance(self._site, connection, name)

    def for_study(self, study: Study) -> list[Dataset]:
        """The datasets that a study can read, by their columns and units."""
        with read(self._site.engine) as connection:
            return fitting(connection, study)

    def report(self, name: str, study: Study | None = None) -> ReportView:
        """The report of the current version, as registered; with a study, how the data fit it now.

        How many persons are in another dataset too is counted now: a later one changes it.
        """
        others = select(seats.c.human).where(seats.c.dataset != name)
        query = select(func.count()).select_from(seats).where(seats.c.dataset == name, seats.c.human.in_(others))
        with read(self._site.engine) as connection:
            dataset = load_dataset(connection, name)
            twice = connection.execute(query).scalar_one()
        fit = dataset.report.fit
        if study is not None:
            raw = dataset.place.read(dataset.mapping.columns_for(study))
            fit = encode(study, dataset.mapping, raw).fit
        return ReportView.of(name, dataset.version, dataset.report, fit, twice)

    def in_several(self) -> dict[int, int]:
        """How many persons are in two datasets (and in more, where an earlier version let them in). It stays here."""
        count = func.count().label("datasets")
        each = select(count).select_from(seats).group_by(seats.c.human).having(func.count() > 1).subquery()
        query = (
            select(each.c.datasets, func.count().label("persons")).group_by(each.c.datasets).order_by(each.c.datasets)
        )
        with read(self._site.engine) as connection:
            return {row.datasets: row.persons for row in connection.execute(query)}

    # -- rows -----------------------------------------------------------------------------------------------------
    def rows(self, study: Study, role: Role, name: str, levels: Sequence[str]) -> Rows:
        """The rows of these levels, read now."""
        dataset = self.dataset(name)
        raw = dataset.place.read(dataset.mapping.columns_for(study))
        encoded = encode(study, dataset.mapping, raw)
        persons = persons_of(raw, dataset.mapping, name, self._site.secret, dataset.records_per_person)
        with read(self._site.engine) as connection:
            record_at, cell_at = Seats.load(connection, name).fill(persons.records_of)
        if np.count_nonzero(record_at == EMPTY) * 2 > len(record_at):
            raise InvalidData(
                f"{raw.where} has lost more than half of the persons of {name}.",
                "Point the dataset at the right data, or register a new version.",
            )
        cells = {level: _cells(study, role)[level] for level in levels}
        return _seated(encoded.X, encoded.y, record_at, cell_at, cells)


# -- inside the caller's transaction --------------------------------------------------------------------------------
_DATASET = (
    select(datasets, versions.c.place, versions.c.mapping, versions.c.report)
    .join(versions, (versions.c.dataset == datasets.c.name) & (versions.c.version == datasets.c.version))
    .where(datasets.c.name == bindparam("name"))
)
_RECORDS_PER_PERSON = select(datasets.c.records_per_person).where(datasets.c.name == bindparam("name"))


def _unknown(name: str) -> UnknownDataset:
    return UnknownDataset(f"There is no dataset {name}.", "Connect it first.")


def load_dataset(connection: Connection, name: str) -> Dataset:
    """A dataset by its name, in its current version."""
    row = connection.execute(_DATASET, {"name": name}).one_or_none()
    if row is None:
        raise _unknown(name)
    return Dataset(
        name,
        row.version,
        row.records_per_person,
        _PLACE.validate_python(json.loads(row.place)),
        DataMap.from_data(json.loads(row.mapping)),
        TableReport.model_validate(json.loads(row.report)),
    )


def load_records_per_person(connection: Connection, name: str) -> int:
    """How many records of a person a dataset keeps at most."""
    most = connection.execute(_RECORDS_PER_PERSON, {"name": name}).scalar_one_or_none()
    if most is None:
        raise _unknown(name)
    return int(most)


def load_counts(connection: Connection, study: Study, role: Role, name: str) -> dict[str, int]:
    """The public number of rows of each level, from the seats alone: no record is read."""
    sizes = load_sizes(connection, name)
    return {level: sum(sizes[cell] for cell in cells) for level, cells in _cells(study, role).items()}


def load_datasets(connection: Connection) -> list[Dataset]:
    """All datasets, in the order of their names."""
    names = connection.execute(select(datasets.c.name).order_by(datasets.c.name)).scalars().all()
    return [load_dataset(connection, name) for name in names]


def load_balance(site: Site, connection: Connection, name: str) -> Balance:
    """A dataset's budget and what its cells have spent."""
    balance = site.ledger.balance(connection, name)
    if balance is None:
        raise UnknownDataset(f"Dataset {name} was never opened.", "Connect it first.")
    return balance


def fitting(connection: Connection, study: Study) -> list[Dataset]:
    """The datasets that a study can read, by their columns and units."""
    return [dataset for dataset in load_datasets(connection) if not dataset.misfit(study)]


# -- rows -----------------------------------------------------------------------------------------------------------
def _cells(study: Study, role: Role) -> dict[str, tuple[int, ...]]:
    return work.levels(study, role)


def _seated(
    X: Array, y: Array, record_at: NDArray[np.intp], cell_at: NDArray[np.intp], cells: Mapping[str, Sequence[int]]
) -> Rows:
    """The rows of the given levels, in the order of their seats."""
    level_of = np.full(CELLS, "", dtype=f"U{max(map(len, cells), default=1)}")  # numpy cuts longer texts
    for level, numbers in cells.items():
        level_of[list(numbers)] = level
    chosen = np.flatnonzero(level_of[cell_at] != "")
    records, present = record_at[chosen], record_at[chosen] != EMPTY
    taken, labels = np.zeros((len(chosen), X.shape[1])), np.full(len(chosen), -1.0)
    taken[present], labels[present] = X[records[present]], y[records[present]]
    return Rows(taken, labels, level_of[cell_at[chosen]], present)
