"""From a place to a sealed copy: one reading, batch by batch, in bounded memory. Nothing is opened or charged here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crossward.errors import EmptyData, InvalidData
from crossward.study import Study
from crossward_connector.tables import DECIMAL, DELIMITER, ENCODING, Form, Table
from crossward_site.data.beside import Beside
from crossward_site.data.likeness import Likeness
from crossward_site.data.mapping import DataMap
from crossward_site.data.reading import Reader
from crossward_site.data.report import Fit
from crossward_site.data.sealed import Frames, numbered
from crossward_site.data.tags import Growing, Tagger, Tags, id_texts, lost_digits

SHORT = "holds floating-point numbers of 32 bits or fewer, which keep no more than seven digits of an id"
SHORTENED = r"^[0-9](?:[.,][0-9]+)?[eE]\+[0-9]+$"
"""What Excel and others make of an id that is too long for them."""
WHOLE = "Export the column as a text, or as whole numbers."

Progress = Callable[[float, str], None]
"""Hears how far a job has come, and raises where it is to end."""


def unheard(share: float, step: str) -> None:
    """Progress that nobody follows."""


class Told:
    """Progress that is told again while a step takes long: whoever hears it may end the job meanwhile."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._last = progress, (0.0, "")

    def __call__(self, share: float, step: str) -> None:
        """So much is done, and this is under way."""
        self._last = share, step
        self._progress(share, step)

    def pulse(self) -> None:
        """The same again."""
        self._progress(*self._last)


@dataclass(slots=True)
class Intake:
    """What one reading brought: who the rows are about, and where the records lie now."""

    where: str
    form: Form
    names: tuple[str, ...]
    persons: Tags
    records: Tags | None
    lengths: list[int]
    missing: dict[str, int]
    opted_out: int
    fit: Fit | None = None

    @property
    def rows(self) -> int:
        """How many rows were taken in."""
        return len(self.persons)


@dataclass(slots=True)
class _Taking:
    persons: Growing = field(default_factory=Growing)
    records: Growing = field(default_factory=Growing)
    lengths: list[int] = field(default_factory=list)
    missing: Counter[str] = field(default_factory=Counter)
    opted_out: int = 0
    rows: int = 0


@contextmanager
def taking_in(
    table: Table,
    mapping: DataMap,
    study: Study | None,
    file: Path,
    secret: bytes,
    opted_out: Tags,
    progress: Progress = unheard,
    likeness: Likeness | None = None,
) -> Iterator[Intake]:
    """Read a table into a sealed file. Persons who opted out are left out; the id columns are not kept.

    All is read when the context begins, and on disk when it ends: persons can be seated meanwhile. `likeness` takes in
    what the persons are like, where that is to be compared.
    """
    names = tuple(name for name in table.form.names if name not in mapping.identity)
    check_told(table)
    check_columns(table.form.names, mapping, study)
    reader = None if study is None else Reader(study, mapping, table.form.decimal)
    fit = None if study is None else Fit.empty(study)
    tagger, taking = Tagger(secret), _Taking()
    with Frames(file, secret) as frames, Beside() as sealing:
        for whole in table.batches():
            batch, persons, records = _known(table, whole, mapping, taking.rows, tagger)
            taking.rows += len(batch)
            if len(opted_out) and (out := np.isin(persons, opted_out)).any():
                taking.opted_out += int(np.count_nonzero(out))
                batch, persons, records = batch.filter(pa.array(~out)), persons[~out], records[~out]
            if mapping.record is not None:
                taking.records.extend(records)
            for name in names:
                taking.missing[name] += missing_in(batch.column(batch.schema.get_field_index(name)))
            if reader is not None and fit is not None:
                fit.add(reader.read(batch))
            if likeness is not None:
                likeness.add(batch, persons)
            sealing.do(partial(_seal, frames, batch, names, persons, table.form.decimal))
            taking.persons.extend(persons)
            taking.lengths.append(len(batch))
            progress(0.8 * table.progress, f"{taking.rows:,} rows read")
        if not sum(taking.lengths):
            raise EmptyData(f"{table.where} has no records.", "Give at least one.")
        sealing.do(frames.finish)
        yield Intake(
            table.where,
            table.form,
            names,
            taking.persons.joined(),
            None if mapping.record is None else taking.records.joined(),
            taking.lengths,
            {name: taking.missing[name] for name in names},
            taking.opted_out,
            fit,
        )
        sealing.finish()


def _seal(frames: Frames, batch: pa.RecordBatch, names: Sequence[str], persons: Tags, decimal: str) -> None:
    frames.write_batch(numbered(batch, names, persons, decimal))


def check_told(table: Table) -> None:
    """Refuse a CSV of which the records tell how it is written: one record would decide how all others are read."""
    if guesses := table.form.guesses:
        cause, fix = guess_words(table.form, guesses[0])
        raise InvalidData(f"{table.where}: {cause}", fix)


def guess_words(form: Form, guess: str) -> tuple[str, str]:
    """What was found by looking at records, and how to say it: a cause and a fix."""
    option, value, cause = {
        DELIMITER: ("--separator", repr(form.delimiter), "cells seem to be separated otherwise than the first line's"),
        ENCODING: ("--encoding", form.encoding, f"records are not UTF-8; they seem to be {form.encoding}"),
        DECIMAL: ("--decimal", form.decimal, "numbers seem to be written with a decimal comma"),
    }[guess]
    return (
        f"Its {cause}, and nothing says so but its records.",
        f"Look whether that is right, and say so: {option} {value}",
    )


def check_columns(there: Sequence[str], mapping: DataMap, study: Study | None) -> None:
    """Refuse a table without a column that the mapping, or the study, needs."""
    mapped = [item.column for item in (*mapping.features.values(), *mapping.labels.values())]
    wanted = dict.fromkeys([*mapping.identity, *mapped, *(mapping.columns_for(study) if study else [])])
    if missing := [name for name in wanted if name not in there]:
        raise InvalidData(
            f"There is no column {', '.join(map(repr, missing))}.", "Run crossward site data check: it tells all."
        )


def missing_in(column: pa.Array) -> int:
    """How many values are missing: none, NaN or blank."""
    if pa.types.is_floating(column.type):
        values = column.to_numpy(zero_copy_only=False)  # NaN where there is none
        return int(np.count_nonzero(values != values))  # noqa: PLR0124 - only NaN differs from itself
    if pa.types.is_string(column.type):
        return int(pc.sum(pc.fill_null(pc.equal(pc.utf8_trim_whitespace(column), ""), True)).as_py() or 0)
    return int(column.null_count)


def _known(
    table: Table, batch: pa.RecordBatch, mapping: DataMap, row: int, tagger: Tagger
) -> tuple[pa.RecordBatch, Tags, Tags]:
    """A batch, whom its rows are about, and a key of each record: the person's own where records have no ids."""
    persons = tagger.persons(_identities(table, batch, mapping.person, "person", row))
    if mapping.record is None:
        return batch, persons, persons
    return batch, persons, tagger.records(persons, _identities(table, batch, mapping.record, "record", row))


def _identities(table: Table, batch: pa.RecordBatch, column: str, what: str, row: int) -> pa.StringArray:
    """The ids of a column; every record needs one."""
    ids = batch.column(column)
    if column in table.form.short:
        raise InvalidData(f"{table.where}: column {column!r}, which names the {what}, {SHORT}.", WHOLE)
    if (lost := lost_digits(ids)).any():
        raise InvalidData(
            f"{table.where}, {table.line(row + int(np.argmax(lost)))}: column {column!r}, which names the {what}, is a "
            "floating-point number too large to have kept its last digits.",
            WHOLE,
        )
    texts = id_texts(ids)
    if pc.any(short := pc.match_substring_regex(texts, SHORTENED)).as_py():
        first = row + int(np.argmax(short.fill_null(False).to_numpy(zero_copy_only=False)))
        cause = "holds a number in scientific notation, which has lost digits"
        raise InvalidData(
            f"{table.where}, {table.line(first)}: column {column!r}, which names the {what}, {cause}.", WHOLE
        )
    if texts.null_count:
        first = row + int(np.argmax(texts.is_null().to_numpy(zero_copy_only=False)))
        raise InvalidData(
            f"{table.where}, {table.line(first)}: column {column!r}, which names the {what}, is empty.",
            f"Every record needs its {what}.",
        )
    return texts
