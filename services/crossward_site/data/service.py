"""The vault: datasets as sealed copies, one seat for each person of the site, and rows handed out by cell.

Opening or refreshing a dataset reads its place once, seals what was read, seats the persons, and only then, in one
transaction, writes the version and the ledger's line. Until that line nothing has happened: files that no row of the
database names are removed. Tasks read sealed copies alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import TypeAdapter
from sqlalchemy import Connection, bindparam, delete, insert, select, true, update

from crossward.errors import (
    AlreadyOpen,
    Conflict,
    CrosswardError,
    InvalidData,
    InvalidSetting,
    StorageFailed,
    UnknownDataset,
)
from crossward.learning.stored import StoredRows, rows_store
from crossward.privacy.budget import Budget, Cost
from crossward.protocol.canonical import canonical
from crossward.protocol.constants import CELLS, FilterKind, Role
from crossward.protocol.ledger.lines import OpenBody
from crossward.protocol.ledger.rules import Balance
from crossward.study import Study, work
from crossward_service.db.engine import read, write
from crossward_site import facts
from crossward_site.data import likeness, seating, usage
from crossward_site.data.beside import Pulse
from crossward_site.data.checks import check_budget, check_records_per_person
from crossward_site.data.intake import Intake, Progress, Told, taking_in, unheard
from crossward_site.data.mapping import DataMap
from crossward_site.data.places import AnyPlace, Place
from crossward_site.data.reading import Reader
from crossward_site.data.report import Fit, ReportView, TableReport
from crossward_site.data.sealed import SealedCopy, write_cells
from crossward_site.data.seats import NOBODY, PART, Seated, SeatTable, ranges, seat
from crossward_site.data.tables import datasets, opt_outs, seat_tables, versions
from crossward_site.data.tags import Tagger, Tags
from crossward_site.site import Site

_PLACE: TypeAdapter[AnyPlace] = TypeAdapter(Place)


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset as one of its versions has it: the current one, unless another is asked for.

    `counts` are public: the number of rows in each cell.
    """

    name: str
    version: int
    records_per_person: int
    place: AnyPlace
    mapping: DataMap
    report: TableReport
    counts: tuple[int, ...]
    sealed: str | None

    def misfit(self, study: Study) -> str:
        """Why a study cannot read this dataset, from columns and units alone; empty if it can."""
        try:
            wanted = Reader(study, self.mapping, self.report.decimal).columns
        except CrosswardError as error:
            return str(error)
        missing = [name for name in wanted if name not in self.report.columns]
        return f"It has no column {', '.join(map(repr, missing))}." if missing else ""


@dataclass(frozen=True, slots=True)
class Rows:
    """Encoded rows of a study's levels; each level's lie side by side. `present` is False where the fixed record is.

    The fixed record has every encoded column 0 and the negative label. It is the same everywhere, so it says nothing.
    """

    X: StoredRows
    y: NDArray[np.int8]
    spans: Mapping[str, slice]
    present: NDArray[np.bool_]


Ending = Callable[[Connection, Dataset | None], None]
"""Hears, in the transaction that writes it down, what a dataset then is; None: it is gone."""


def untold(connection: Connection, dataset: Dataset | None) -> None:
    """Nobody needs to know."""


class Vault:
    """A site's datasets."""

    def __init__(self, site: Site) -> None:
        self._site = site

    # -- connecting -----------------------------------------------------------------------------------------------
    def open(
        self,
        name: str,
        place: AnyPlace,
        mapping: DataMap,
        budget: Budget | None = None,
        *,
        rule: FilterKind = FilterKind.BASIC,
        records_per_person: int = 1,
        study: Study | None = None,
        progress: Progress = unheard,
        ending: Ending = untold,
    ) -> Dataset:
        """Make the sealed copy of a new dataset. The first one comes with the budget that each person here has."""
        check_records_per_person(records_per_person)
        with read(self._site.engine) as connection:
            self._check_new(connection, name)
            self._budget(connection, budget, rule)
        taking = self._taking(name, place, mapping, records_per_person, study, progress)
        with taking as taken, write(self._site.engine) as connection:
            self._check_new(connection, name)
            if (body := self._budget(connection, budget, rule)) is not None:
                self._site.append(connection, body)
            version, now = usage.first_version(connection, name), self._site.clock()
            opened = {"version": version, "records_per_person": records_per_person, "opened": now}
            connection.execute(insert(datasets).values(name=name, **opened))
            return self._register(connection, name, version, place, mapping, taken, ending)

    def refresh(
        self,
        name: str,
        place: AnyPlace | None = None,
        mapping: DataMap | None = None,
        study: Study | None = None,
        progress: Progress = unheard,
        ending: Ending = untold,
    ) -> Dataset:
        """Seal the data as they are now, or at a new place: persons keep their seats, cells their spend."""
        now = self.dataset(name)
        place, mapping = now.place if place is None else place, now.mapping if mapping is None else mapping
        if mapping.person != now.mapping.person:
            raise InvalidSetting(
                f"{name} knows persons by the column {now.mapping.person!r}; by {mapping.person!r} all would look new.",
                f"Keep person: {now.mapping.person}, and name the column so in the file or the query.",
            )
        with self._taking(name, place, mapping, now.records_per_person, study, progress, now) as taken:
            if taken.knows_who_left:
                _check_same_people(name, taken.seated)
            with write(self._site.engine) as connection:
                version = load_dataset(connection, name).version + 1
                connection.execute(update(datasets).where(datasets.c.name == name).values(version=version))
                return self._register(connection, name, version, place, mapping, taken, ending)

    def _check_new(self, connection: Connection, name: str) -> None:
        self._site.check_running(connection)
        if connection.execute(select(datasets.c.name).where(datasets.c.name == name)).first() is not None:
            raise AlreadyOpen(
                f"There is a dataset {name}.", f"Bring a new version: crossward site data refresh {name}."
            )

    def _budget(self, connection: Connection, budget: Budget | None, rule: FilterKind) -> OpenBody | None:
        """The line that gives the site its budget; None where it has this one already."""
        balance = self._site.ledger.balance(connection)
        if budget is None:
            if balance is None:
                raise InvalidSetting(
                    "The site has no budget yet.", "Say what each person may lose for life: --epsilon, such as 1."
                )
            return None
        check_budget(budget, rule)
        version = 1 if balance is None else balance.opened.version + 1
        body = OpenBody(version, CELLS, rule, budget.nano_epsilon, budget.atto_delta)
        if balance is None:
            return body
        if balance.opened == replace(body, version=balance.opened.version):
            return None
        if balance.spend.releases:
            raise AlreadyOpen(
                f"Each person here has epsilon {Cost(balance.opened.nano_epsilon).epsilon:g} for life; some is spent.",
                "Leave --epsilon out: a new dataset shares the budget that its people have.",
            )
        return body

    @contextmanager
    def _taking(
        self,
        name: str,
        place: AnyPlace,
        mapping: DataMap,
        most: int,
        study: Study | None,
        progress: Progress,
        before: Dataset | None = None,
    ) -> Iterator[Taken]:
        """Read, seal and seat; files that are not registered by the end go again.

        `before` is the version that the persons should be recognised from.
        """
        site, file, told = self._site, _new_name(self._site), Told(progress)
        with read(site.engine) as connection:
            site.check_running(connection)
            table, version = seating.current(site, connection)
            opted_out = _opted_out(connection)
        try:
            told(0.0, "reading")
            with site.connectors.open(place, None, pulse=told.pulse) as source:
                known, new = _likeness(site, before, source.form.names, told.pulse)
                records = file_of(site, file, "records")
                with taking_in(source, mapping, study, records, site.secret, opted_out, told, new) as intake:
                    told(0.8, "seating")
                    keys = _Keys(Tagger(site.secret), intake.records)
                    were = _were_there(site, before, table, told.pulse)
                    seated = seat(table, name, intake.persons, keys, most, site.machine.noise, were, pulse=told.pulse)
                    _check_once(intake, told.pulse)
                    write_cells(file_of(site, file, "cells"), site.secret, seated.cells, intake.lengths)
                    digest = seated.table.save(file_of(site, file, "seats"), site.machine.secret(32))
            share = 1.0 if new is None else float(new.below) / 2**64
            strange = 0 if known is None or new is None else likeness.changed(known, new, intake.where, share)
            told(0.95, "writing down")
            site.machine.reach("vault-sealed")
            yield Taken(file, intake, seated, version, digest, strange, were is not None)
            site.machine.reach("vault-registered")
        except BaseException:
            with suppress(CrosswardError):  # a commit that failed may have happened: only the database knows
                _sweep(site)
            raise
        tidy(site)

    def _register(
        self,
        connection: Connection,
        name: str,
        version: int,
        place: AnyPlace,
        mapping: DataMap,
        taken: Taken,
        ending: Ending,
    ) -> Dataset:
        """Write a version down, with the ledger's line about its seats."""
        counts = taken.seated.table.counts(name)
        seats = seating.put(self._site, connection, taken.file, taken.digest, after=taken.seats_before)
        connection.execute(
            insert(versions).values(
                dataset=name,
                version=version,
                place=_text(place.model_dump(mode="json")),
                mapping=_text(mapping.model_dump(mode="json")),
                report=_text(_report(taken).model_dump(mode="json")),
                counts=_text(list(counts)),
                seats=seats,
                sealed=taken.file,
                registered=self._site.clock(),
            )
        )
        dataset = load_dataset(connection, name)
        ending(connection, dataset)
        return dataset

    # -- undoing and erasing --------------------------------------------------------------------------------------
    def undo(self, name: str, ending: Ending = untold, *, whole: bool = False) -> Dataset | None:
        """Take the last version back, or the `whole` dataset, as if it had never been; refused once it was charged.

        Gives the version before; None where there was none, and the dataset is gone. Seats stay, without rows.
        """
        site = self._site
        with read(site.engine) as connection:
            dataset = load_dataset(connection, name)
            self._check_uncharged(connection, dataset, whole)
            table, before = seating.current(site, connection)
            made = connection.execute(_SEATS_OF, {"name": name, "version": dataset.version}).scalar_one()
            one_before = {"name": name, "version": dataset.version - 1}
            goes = whole or connection.execute(_SEATS_OF, one_before).first() is None
            earlier = None if goes else seating.table_at(site, connection, made - 1)
        rows = None if earlier is None else earlier.rows_for(table.tags, name)
        file = _new_name(site)
        digest = table.with_rows(name, rows).save(file_of(site, file, "seats"), site.machine.secret(32))
        with write(site.engine) as connection:
            site.ledger.extend(connection, ())  # takes the ledger's lock: what is not charged now stays so
            self._check_uncharged(connection, dataset, whole)
            seating.put(site, connection, file, digest, after=before)
            undone = true() if goes else versions.c.version == dataset.version
            connection.execute(delete(versions).where(versions.c.dataset == name, undone))
            if goes:
                connection.execute(delete(datasets).where(datasets.c.name == name))
            else:
                values = {"version": dataset.version - 1}
                connection.execute(update(datasets).where(datasets.c.name == name).values(values))
            left = None if goes else load_dataset(connection, name)
            ending(connection, left)
        tidy(site)
        return left

    def _check_uncharged(self, connection: Connection, dataset: Dataset, whole: bool) -> None:
        self._site.check_running(connection)
        if load_dataset(connection, dataset.name).version != dataset.version:
            raise Conflict(f"{dataset.name} has a new version meanwhile.", "Look at it, and ask again.")
        for version in range(1 if whole else dataset.version, dataset.version + 1):
            if usage.is_charged(self._site, connection, dataset.name, version):
                raise Conflict(
                    f"Version {version} of {dataset.name} was charged: people have paid for what was learned from it.",
                    "It cannot be undone. Bring a new version, or erase persons from it.",
                )

    def erase(self, persons: Sequence[str], progress: Progress = unheard) -> int:
        """Remove persons from every sealed copy, and keep them out of all to come; gives the number of rows.

        Their seats stay, and what was spent stays spent. Copy by copy: one that cannot be read holds up no other.
        """
        site, tagger = self._site, Tagger(self._site.secret)
        tags = np.array(sorted({tagger.person(person) for person in persons}), np.uint64)
        with write(site.engine) as connection:
            known = set(connection.execute(select(opt_outs.c.tag)).scalars())
            new = [f"{tag:016x}" for tag in tags.tolist() if f"{tag:016x}" not in known]
            if new:
                connection.execute(insert(opt_outs), [{"tag": tag, "since": site.clock()} for tag in new])
            copies = connection.execute(_SEALED).all()
        gone, told, left = 0, Told(progress), dict[str, StorageFailed]()
        try:
            for number, row in enumerate(copies):
                told(number / len(copies), f"{row.dataset}, version {row.version}")
                try:
                    gone += self._erase_from(row.dataset, row.version, row.sealed, tags, told.pulse)
                except StorageFailed as error:
                    if not self._let_go(row.dataset, row.version, told.pulse):
                        left[f"version {row.version} of {row.dataset}"] = error
        except BaseException:
            with suppress(CrosswardError):
                _sweep(site)
            raise
        tidy(site)
        if left:
            why = next(iter(left.values()))
            cause = f"They are still in {', '.join(left)}, and nowhere else: {why.cause}"
            raise StorageFailed(cause, f"{why.fix} Then erase them again.")
        return gone

    def _let_go(self, name: str, version: int, pulse: Pulse) -> bool:
        """Give up a damaged copy of an earlier version; False if it is whole, current, or a release is owed from it."""
        site = self._site
        with read(site.engine) as connection:
            copy = open_copy(site, load_version(connection, name, version))
        if copy.is_whole(pulse):
            return False
        with write(site.engine) as connection:
            given_up = not usage.is_wanted(site, connection, name, version)
            if given_up:
                of = (versions.c.dataset == name) & (versions.c.version == version)
                connection.execute(update(versions).where(of).values(sealed=None))
        return given_up

    def _erase_from(self, name: str, version: int, sealed: str, tags: Tags, pulse: Pulse) -> int:
        site, file = self._site, _new_name(self._site)
        with read(site.engine) as connection:
            copy = open_copy(site, load_version(connection, name, version))
        gone = copy.without(tags, file_of(site, file, "records"), file_of(site, file, "cells"), pulse)
        of = (versions.c.dataset == name) & (versions.c.version == version) & (versions.c.sealed == sealed)
        with write(site.engine) as connection:
            connection.execute(update(versions).where(of).values(sealed=file))
        return gone

    def strangers(self, persons: Sequence[str]) -> int:
        """How many of these persons never had a seat here: most likely their ids are spelled otherwise."""
        tagger = Tagger(self._site.secret)
        with read(self._site.engine) as connection, suppress(CrosswardError):  # without seats nobody can tell
            table, _ = seating.current(self._site, connection)
            tags = np.array(sorted({tagger.person(person) for person in persons}), np.uint64)
            return int(np.count_nonzero(~np.isin(tags, table.tags)))
        return 0

    # -- looking --------------------------------------------------------------------------------------------------
    def dataset(self, name: str) -> Dataset:
        """A dataset by its name."""
        with read(self._site.engine) as connection:
            return load_dataset(connection, name)

    def datasets(self) -> list[Dataset]:
        """All datasets."""
        with read(self._site.engine) as connection:
            return load_datasets(connection)

    def copies(self) -> list[Dataset]:
        """Every version that has a sealed copy: the current ones, and those of which a release is owed."""
        with read(self._site.engine) as connection:
            return [load_version(connection, row.dataset, row.version) for row in connection.execute(_SEALED).all()]

    def balance(self) -> Balance:
        """The budget of each person here, and what the cells have spent of it."""
        with read(self._site.engine) as connection:
            return load_balance(self._site, connection)

    def for_study(self, study: Study) -> list[Dataset]:
        """The datasets that a study can read, by their columns and units."""
        with read(self._site.engine) as connection:
            return fitting(connection, study)

    def report(self, name: str, study: Study | None = None, progress: Progress = unheard) -> ReportView:
        """The report of the current version, as sealed; with a study, how the records fit it."""
        dataset = self.dataset(name)
        if study is None:
            return report_of(dataset)
        return report_of(dataset).model_copy(update={"fit": self._fit(dataset, study, progress).view()})

    def _fit(self, dataset: Dataset, study: Study, progress: Progress) -> Fit:
        reader = Reader(study, dataset.mapping, dataset.report.decimal)
        fit = Fit.empty(study)
        for batch in open_copy(self._site, dataset).batches(reader.columns):
            fit.add(reader.read(batch.columns))
            progress(fit.rows / max(1, dataset.report.rows), f"{fit.rows:,} rows read")
        return fit

    # -- rows -----------------------------------------------------------------------------------------------------
    def rows(
        self,
        study: Study,
        role: Role,
        name: str,
        levels: Sequence[str],
        version: int | None = None,
        progress: Progress = unheard,
    ) -> Rows:
        """The rows of these levels, from the sealed copy of a version. How many there are is public."""
        with read(self._site.engine) as connection:
            dataset = load_version(connection, name, version)
        cells = _cells(study, role)
        sizes = [sum(dataset.counts[cell] for cell in cells[level]) for level in levels]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
        level_of = np.full(256, -1, np.int16)
        for number, level in enumerate(levels):
            level_of[list(cells[level])] = number
        reader = Reader(study, dataset.mapping, dataset.report.decimal)
        width, memory = len(study.schema.columns), self._site.memory
        stores = [rows_store(self._site.home, width, memory // len(levels)) for _ in levels]
        y, present = np.full(int(starts[-1]), -1, np.int8), np.zeros(int(starts[-1]), bool)
        seen, room = 0, reader.room_for(0)
        for batch in open_copy(self._site, dataset).batches(reader.columns):
            wanted = level_of[batch.cells]
            seen += len(wanted)
            progress(seen / max(1, dataset.report.rows), f"{seen:,} rows read")
            chosen = wanted >= 0
            if not chosen.any():
                continue
            columns = batch.columns if chosen.all() else batch.columns.filter(pa.array(chosen))
            room = room if len(columns) <= len(room) else reader.room_for(len(wanted))
            reading, there = reader.read(columns, room=room), wanted[chosen]
            for number, store in enumerate(stores):
                here = np.flatnonzero((there == number) & (reading.y != 0))
                at = int(starts[number]) + len(store)
                y[at : at + len(here)], present[at : at + len(here)] = reading.y[here], True
                store.append(reading.X if len(here) == len(reading.X) else np.take(reading.X.T, here, axis=1).T)
        for store, size in zip(stores, sizes, strict=True):
            _fill_up(store, size)
        spans = {level: slice(int(starts[k]), int(starts[k + 1])) for k, level in enumerate(levels)}
        return Rows(_joined(stores), y, spans, present)


def _fill_up(store: StoredRows, rows: int) -> None:
    """The fixed record in every row that no record fills."""
    while (left := rows - len(store)) > 0:
        store.append(np.zeros((min(left, store.block_rows), store.shape[1])))


def _joined(stores: Sequence[StoredRows]) -> StoredRows:
    """The rows of all, one after the other."""
    first, *others = stores
    for store in others:
        for block in store.blocks():
            first.append(block)
        store.close()
    return first


@dataclass(frozen=True, slots=True)
class Taken:
    """A version that is read, sealed and seated, and not yet written down."""

    file: str
    intake: Intake
    seated: Seated
    seats_before: int
    digest: str
    changed: int
    knows_who_left: bool


@dataclass(frozen=True, slots=True)
class _Keys:
    """By which of a person's records some are kept: by their ids or, without, by which of the records each is."""

    tagger: Tagger
    records: Tags | None

    def __call__(self, rows: NDArray[np.intp], persons: Tags, rank: NDArray[np.intp]) -> Tags:
        return self.tagger.ordinals(persons, rank) if self.records is None else self.records[rows]


def _likeness(
    site: Site, before: Dataset | None, names: Sequence[str], pulse: Pulse
) -> tuple[likeness.Likeness, likeness.Likeness] | tuple[None, None]:
    """What persons were like in the version before, and room for what they are like now.

    None where its copy is gone or damaged: a new version is what mends that.
    """
    if before is None or before.sealed is None:
        return None, None
    copy, below = open_copy(site, before), likeness.sampled(before.report.rows)
    with suppress(StorageFailed):
        columns = likeness.steady_columns(copy, [name for name in before.report.columns if name in names])
        return likeness.of_copy(copy, columns, below, pulse), likeness.Likeness(columns, below)
    return None, None


def _were_there(site: Site, before: Dataset | None, table: SeatTable, pulse: Pulse) -> NDArray[np.bool_] | None:
    """Which seats' persons have rows in the version before; None where its copy cannot say."""
    if before is None or before.sealed is None:
        return None
    there = np.zeros(len(table), bool)
    with suppress(StorageFailed):
        for batch in open_copy(site, before).batches(()):
            pulse()
            table.mark(batch.persons[batch.cells != NOBODY], there)
        return there
    return None


def _check_once(intake: Intake, pulse: Pulse) -> None:
    """A record that is there twice counts twice: refuse it."""
    if intake.records is None:
        return
    count = 0
    for low, high in ranges(max(1, -(-intake.rows // PART))):
        pulse()
        here = np.flatnonzero((intake.persons >= low) & (intake.persons <= high))
        persons, records = intake.persons[here], intake.records[here]
        order = np.lexsort((records, persons))
        persons, records = persons[order], records[order]
        count += int(np.count_nonzero((persons[1:] == persons[:-1]) & (records[1:] == records[:-1])))
    if count:
        raise InvalidData(
            f"{intake.where}: {count} records have the id of another record of the same person.",
            "Remove the copies, or leave `record` out of the mapping. crossward site data check names the lines.",
        )


def _check_same_people(name: str, seated: Seated) -> None:
    """Persons whose ids are spelled otherwise would all look new."""
    known = seated.left + seated.stayed
    if seated.left * 2 > known:
        raise InvalidData(
            f"{seated.left} of the {known} persons that {name} knows are missing: spelled otherwise all look new.",
            "Spell the ids as before (007 as a text is not the number 7), or point the dataset at the right data.",
        )


def _report(taken: Taken) -> TableReport:
    intake, seated = taken.intake, taken.seated
    return TableReport(
        rows=intake.rows,
        persons=seated.persons,
        records_dropped=intake.rows - seated.kept,
        columns=intake.names,
        decimal=intake.form.decimal,
        missing=intake.missing,
        new=seated.new,
        known=seated.persons - seated.new,
        came=seated.came,
        left=seated.left,
        stayed=seated.stayed,
        opted_out=intake.opted_out,
        changed=taken.changed,
        fit=None if intake.fit is None else intake.fit.view(),
    )


def report_of(dataset: Dataset) -> ReportView:
    """The report of a version, as sealed."""
    stored = {field: getattr(dataset.report, field) for field in TableReport.model_fields}
    return ReportView(dataset=dataset.name, version=dataset.version, **stored)


# -- files ----------------------------------------------------------------------------------------------------------
PREFIX = "vault-"


def file_of(site: Site, name: str, kind: str) -> Path:
    """A file of the vault."""
    return site.home / f"{PREFIX}{name}.{kind}"


def open_copy(site: Site, dataset: Dataset) -> SealedCopy:
    """The sealed copy of a version."""
    if dataset.sealed is None:
        raise StorageFailed(
            f"The sealed copy of version {dataset.version} of {dataset.name} is gone.", "Restore a backup that has it."
        )
    records, cells = (file_of(site, dataset.sealed, kind) for kind in ("records", "cells"))
    return SealedCopy(records, cells, site.secret, dataset.report.columns)


def _new_name(site: Site) -> str:
    return site.machine.secret(16).hex()


def tidy_at_start(site: Site) -> None:
    """Tidy up as a site starts, unless its table of seats is lost.

    Then the database may be an old one, put back without its files, and those that it does not know the newer one's:
    they stay until the right database is back, or all are seated anew.
    """
    with read(site.engine) as connection:
        if facts.SEATS_LOST.get(connection) is not None:
            return
    tidy(site)


def tidy(site: Site) -> None:
    """Remove what no version, task or seat needs any more, and what a process that ended has left.

    Only one thread works on the vault, so whatever has no name in the database is nobody's.
    """
    with write(site.engine) as connection:
        for row in connection.execute(_SEALED).all():
            if not usage.is_needed(site, connection, row.dataset, row.version):
                of = (versions.c.dataset == row.dataset) & (versions.c.version == row.version)
                connection.execute(update(versions).where(of).values(sealed=None))
        seating.prune(site, connection)
    _sweep(site)


def _sweep(site: Site) -> None:
    """Remove the files that the database does not know."""
    with read(site.engine) as connection:
        kept = kept_files(connection)
    for path in site.home.glob(f"{PREFIX}*"):
        if path.name not in kept:
            path.unlink(missing_ok=True)


def kept_files(connection: Connection) -> set[str]:
    """The names of the vault's files that the database knows."""
    sealed = {f"{PREFIX}{row.sealed}.{kind}" for row in connection.execute(_SEALED) for kind in ("records", "cells")}
    return sealed | {f"{PREFIX}{name}.seats" for name in connection.execute(select(seat_tables.c.file)).scalars()}


# -- inside the caller's transaction --------------------------------------------------------------------------------
_VERSION = (
    select(versions, datasets.c.records_per_person)
    .join(datasets, versions.c.dataset == datasets.c.name)
    .where(versions.c.dataset == bindparam("name"), versions.c.version == bindparam("version"))
)
_CURRENT = select(datasets.c.version).where(datasets.c.name == bindparam("name"))
_SEATS_OF = select(versions.c.seats).where(
    versions.c.dataset == bindparam("name"), versions.c.version == bindparam("version")
)
_COUNTS = (
    select(versions.c.version, versions.c.counts, datasets.c.records_per_person)
    .join(datasets, versions.c.dataset == datasets.c.name)
    .where(versions.c.dataset == bindparam("name"), versions.c.version == bindparam("version"))
)
_SEALED = (
    select(versions.c.dataset, versions.c.version, versions.c.sealed)
    .where(versions.c.sealed.is_not(None))
    .order_by(versions.c.dataset, versions.c.version)
)


def _unknown(name: str) -> UnknownDataset:
    return UnknownDataset(f"There is no dataset {name}.", "Open it first.")


def _no_version(name: str, version: int | None) -> UnknownDataset:
    return UnknownDataset(f"There is no version {version} of {name}.", "Restore a backup that has it.")


def load_dataset(connection: Connection, name: str) -> Dataset:
    """A dataset by its name, in its current version."""
    return load_version(connection, name, None)


def load_version(connection: Connection, name: str, version: int | None) -> Dataset:
    """A version of a dataset; None: the current one."""
    current = connection.execute(_CURRENT, {"name": name}).scalar_one_or_none()
    if current is None:
        raise _unknown(name)
    row = connection.execute(_VERSION, {"name": name, "version": version or current}).one_or_none()
    if row is None:
        raise _no_version(name, version)
    return Dataset(
        name,
        row.version,
        row.records_per_person,
        _PLACE.validate_python(json.loads(row.place)),
        DataMap.from_data(json.loads(row.mapping)),
        TableReport.model_validate(json.loads(row.report)),
        tuple(json.loads(row.counts)),
        row.sealed,
    )


@dataclass(frozen=True, slots=True)
class PublicCounts:
    """What is public of a version: its rows at each level of a study, and how many a person may have."""

    version: int
    counts: Mapping[str, int]
    records_per_person: int


def load_counts(
    connection: Connection, study: Study, role: Role, name: str, version: int | None = None
) -> PublicCounts:
    """The public numbers of a version for a study: no record is read."""
    current = connection.execute(_CURRENT, {"name": name}).scalar_one_or_none()
    if current is None:
        raise _unknown(name)
    row = connection.execute(_COUNTS, {"name": name, "version": version or current}).one_or_none()
    if row is None:
        raise _no_version(name, version)
    sizes = json.loads(row.counts)
    counts = {level: sum(sizes[cell] for cell in cells) for level, cells in _cells(study, role).items()}
    return PublicCounts(row.version, counts, row.records_per_person)


def load_datasets(connection: Connection) -> list[Dataset]:
    """All datasets, in the order of their names."""
    names = connection.execute(select(datasets.c.name).order_by(datasets.c.name)).scalars().all()
    return [load_dataset(connection, name) for name in names]


def load_balance(site: Site, connection: Connection) -> Balance:
    """The budget of each person here, and what the cells have spent of it."""
    balance = site.ledger.balance(connection)
    if balance is None:
        raise UnknownDataset("No dataset was ever opened here.", "Open one first.")
    return balance


def fitting(connection: Connection, study: Study) -> list[Dataset]:
    """The datasets that a study can read, by their columns and units."""
    return [dataset for dataset in load_datasets(connection) if not dataset.misfit(study)]


def _opted_out(connection: Connection) -> Tags:
    return np.array([int(tag, 16) for tag in connection.execute(select(opt_outs.c.tag)).scalars()], np.uint64)


def _cells(study: Study, role: Role) -> dict[str, tuple[int, ...]]:
    return work.levels(study, role)


def _text(value: object) -> str:
    return canonical(value).decode()
