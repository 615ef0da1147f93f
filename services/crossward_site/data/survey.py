"""`data check`: one pass over a table that tells every problem at once, with its lines, its cause and what mends it.

No value is told: lines, counts and the shapes of texts are, and words that stand in a public list: for missing values,
for yes and no, and the study's own in another case.
What is kept in memory grows with the rows by two numbers each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crossward.errors import CrosswardError
from crossward.study import Study
from crossward.study.features import StudyFeature
from crossward_connector.tables import DECIMAL, ENCODING, Table
from crossward_site.data.beside import Pulse, unwatched
from crossward_site.data.check_views import CheckReport, ColumnCheck, FeatureCheck
from crossward_site.data.counting import Column, FeatureTally, Keys, Seen, mix, number_keys
from crossward_site.data.intake import SHORT, WHOLE, guess_words
from crossward_site.data.mapping import Codes, DataMap
from crossward_site.data.reading import (
    NumberColumn,
    Values,
    WordColumn,
    column_of,
    feature_column,
    label_column,
    nearest,
)
from crossward_site.data.shapes import Oddity, looks_like_name, odd_number, odd_word
from crossward_site.data.telling import Telling, words_of

MOST_NAMES = 5
MOST_SEARCHED, MOST_SEARCHED_AMONG, LONGEST_NAME = 100, 1_000, 100
"""So many columns are looked for, among so many others, by names that are no longer."""

HOLLOW = 0.8
"""A row that lacks so many of its features, and its label, may be no record at all."""


def survey(
    table: Table, mapping: DataMap, study: Study | None = None, *, most: int = 1, pulse: Pulse = unwatched
) -> CheckReport:
    """Read a table once and tell everything about it. `most`: how many records of a person are kept."""
    return _Survey(table, mapping, study).run(most, pulse)


class _Survey:
    def __init__(self, table: Table, mapping: DataMap, study: Study | None) -> None:
        self._table, self._mapping, self._study = table, mapping, study
        names, codes = dict.fromkeys(table.form.names), Codes(mapping.missing, {})
        self._seen = Seen({name: Column(name, codes, table.form.decimal) for name in names})
        self._by_column: dict[str, list[FeatureTally]] = defaultdict(list)
        self._telling = Telling(table, mapping, study, self._seen)
        self._searched = 0

    def run(self, most: int, pulse: Pulse) -> CheckReport:
        """One pass, then everything that it found."""
        self._look_at_form()
        self._prepare(pulse)
        for batch in self._table.batches():
            self._add(batch)
        seen, persons = self._seen, self._telling.tell_all(most, pulse)
        problems = self._telling.problems()
        return CheckReport(
            where=self._table.where,
            study=None if self._study is None else self._study.id,
            rows=seen.rows,
            persons=persons,
            positives=None if seen.label is None else seen.positives,
            ready=not any(problem.severity == "error" for problem in problems),
            problems=problems,
            columns=[self._column(column) for column in seen.columns.values()],
            fit={name: FeatureCheck(column=tally.part.column, **tally.counts) for name, tally in seen.features.items()},
            suggestion=self._telling.mending.text(),
        )

    def _column(self, column: Column) -> ColumnCheck:
        return ColumnCheck(
            name=self._telling.shown(column.name),
            kind=column.kind(self._seen.rows),
            missing=column.missing,
            distinct=column.distinct.count,
            use=column.use,
        )

    # -- before the pass -------------------------------------------------------------------------------------------
    def _look_at_form(self) -> None:
        form, tell = self._table.form, self._telling.tell
        names = list(form.names)
        if form.bom:
            tell("note", "The file begins with a byte order mark.", "Nothing: it is skipped.")
        for guess in form.guesses:
            tell("error", *guess_words(form, guess))
        if form.decimal == "," and DECIMAL not in form.guesses:
            tell("note", "Numbers are read with a decimal comma.", "If that is wrong: --decimal '.'.")
        if form.encoding not in ("", "utf-8", "ascii") and ENCODING not in form.guesses:
            cause = f"The file is read as {form.encoding}, not UTF-8."
            tell("note", cause, "Look at a name with an accent; give the encoding if it is another, or save as UTF-8.")
        if form.kind == "csv" and len(names) == 1 and any(mark in names[0] for mark in ";\t|,"):
            tell("error", "All cells are in one column.", "Say what separates them, such as --separator ';' or tab.")
        strange = [name for name in names if not looks_like_name(name)]
        if names and len(strange) * 2 > len(names):
            cause = (
                f"{len(strange)} of {len(names)} column names look like values: the first line seems to be a record."
            )
            self._telling.names_are_told = False  # they are somebody's values
            tell("error", cause, "Begin the file with a line of column names.", count=len(strange))
        if any(odd_number(name) is Oddity.GARBLED for name in names):
            tell("error", "Column names hold garbled characters.", "Give the encoding the file was saved with.")

    def _prepare(self, pulse: Pulse) -> None:
        """What is read from which column; what is not there is told."""
        mapping, study = self._mapping, self._study
        for role, name in (("person", mapping.person), ("record", mapping.record)):
            if name is not None and self._find(name, role, role, None) and name in self._table.form.short:
                self._telling.tell("error", f"The column that names the {role} {SHORT}.", WHOLE, name)
        if study is None:
            for name, mapped in mapping.features.items():
                self._find(mapped.column, name, f"feature {name}", name)
            for name, mapped in mapping.labels.items():
                self._find(mapped.column, "label", f"label {name}", name)
            return
        label = label_column(study, mapping)
        wanted = dict.fromkeys([*(mapping.of_feature(feature.name).column for feature in study.features), label.column])
        if len(wanted) > 1 and not wanted.keys() & self._seen.columns.keys() and not self._alike(wanted):
            cause = f"None of the {len(wanted)} columns that the study is read from is there."
            fix = f"Is this the right table, with the column names first? Else map its columns{self._unread()}."
            self._telling.tell("error", cause, fix)
            return
        for feature in study.features:
            pulse()
            self._prepare_feature(feature)
        if self._find(label.column, "label", f"label {label.name}", label.name):
            self._seen.label = label

    def _prepare_feature(self, feature: StudyFeature) -> None:
        name, column = feature.name, self._mapping.of_feature(feature.name).column
        there = self._find(column, name, f"feature {name}", name)
        try:
            part = feature_column(feature, self._mapping, self._table.form.decimal)
        except CrosswardError as error:
            self._telling.tell("error", error.cause, error.fix, column, name)
            return
        if there:
            self._seen.features[name] = FeatureTally(part)
            self._by_column[column].append(self._seen.features[name])

    def _find(self, column: str, use: str, what: str, feature: str | None) -> bool:
        if column in self._seen.columns:
            self._seen.columns[column].use.append(use)
            return True
        alike = self._nearest(column)
        hint = f"Is it {alike!r}? " if alike else ""
        fix = f"{hint}Map the {what} to a column that is there{self._unread() if not alike else ''}."
        cause = f"There is no column {column!r}, which the {what} is read from."
        self._telling.tell("error", cause, fix, column, feature)
        if alike:
            self._telling.mending.rename(column, alike, feature, label=use == "label")
        return False

    def _alike(self, wanted: Iterable[str]) -> bool:
        """Whether any of these may be there, spelled otherwise."""
        return any(self._nearest(name) for name in wanted)

    def _unread(self) -> str:
        """The first columns that nothing is read from, as an aside."""
        names = self._free if self._telling.names_are_told else []
        if not names:
            return ""
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        return f" (nothing is read from {', '.join(map(repr, names[:MOST_NAMES]))}{more})"

    def _nearest(self, name: str) -> str | None:
        """A free column that is spelled alike. Few are looked for, among few: each takes a look at all the others."""
        self._searched += 1
        if self._searched > MOST_SEARCHED or len(name) > LONGEST_NAME or not self._telling.names_are_told:
            return None
        return nearest(name, [free for free in self._free[:MOST_SEARCHED_AMONG] if len(free) <= LONGEST_NAME])

    @cached_property
    def _free(self) -> list[str]:
        """The columns that nothing is read from: what is missing may be one of these, and none of the others."""
        mapping, study = self._mapping, self._study
        mapped = [item.column for item in (*mapping.features.values(), *mapping.labels.values())]
        taken = {*mapping.identity, *mapped, *(mapping.columns_for(study) if study is not None else ())}
        return [name for name in self._seen.columns if name not in taken and looks_like_name(name)]

    # -- the pass ------------------------------------------------------------------------------------------------------
    def _add(self, batch: pa.RecordBatch) -> None:
        """Count one batch."""
        seen, start = self._seen, self._seen.rows
        keys = np.zeros(batch.num_rows, np.uint64)
        label, there = self._add_label(batch, start), set(batch.schema.names)
        hollow = np.zeros(batch.num_rows, np.int64)
        for place, (name, column) in enumerate(seen.columns.items()):
            if name not in there:
                continue
            values = column_of(batch, name)
            column.type = values.type
            column.distinct.add(values)
            if label is not None and "label" not in column.use:
                column.leak.add(values, label.read)
            found = self._add_column(batch, column, values, label, start, hollow)
            if name != self._mapping.record:  # by its id every row differs
                mix(keys, found, place)
        if label is not None and len(seen.features) > 1:
            empty = np.flatnonzero(hollow >= HOLLOW * len(seen.features))
            seen.hollow.add(empty[np.isin(empty, label.missing)], start)
        seen.keys.extend(keys)
        seen.rows += batch.num_rows

    def _add_column(
        self,
        batch: pa.RecordBatch,
        column: Column,
        values: pa.Array,
        label: Values[np.intp] | None,
        start: int,
        hollow: NDArray[np.int64],
    ) -> Keys:
        """Count one column, by what it is used for; a number for each of its values. `hollow`: features missing."""
        if column.name == self._mapping.person:
            found = self._seen.persons.add(values, start)
            column.missing = self._seen.persons.blank.count
        elif column.name == self._mapping.record:
            found = self._seen.records.add(values, start)
            column.missing = self._seen.records.blank.count
        elif tallies := self._by_column.get(column.name):
            found = self._add_features(column, tallies, values, start, hollow)
        elif label is not None and self._seen.label is not None and column.name == self._seen.label.column:
            column.missing += len(label.missing)
            found = number_keys(label)
        else:
            found = column.look(values, start)
        return found

    def _add_features(
        self, column: Column, tallies: list[FeatureTally], values: pa.Array, start: int, hollow: NDArray[np.int64]
    ) -> Keys:
        for tally in tallies:
            read: Values[Any] = tally.part.read(values)
            tally.add(read, start)
            hollow[read.missing] += 1
        column.missing += len(read.missing)
        column.numbers = isinstance(tally.part, NumberColumn)
        column.tell_odd(values, read.unread, start, self._kind_of(tally.part))
        return number_keys(read)

    def _add_label(self, batch: pa.RecordBatch, start: int) -> Values[np.intp] | None:
        seen = self._seen
        if seen.label is None or seen.label.column not in batch.schema.names:
            return None
        column = column_of(batch, seen.label.column)
        read = seen.label.read(column)
        seen.positives += int(np.count_nonzero(read.read == 1))
        seen.labels |= {code for code in (0, 1) if np.any(read.read == code)}
        seen.unlabelled.add(read.missing, start)
        seen.columns[seen.label.column].tell_odd(column, read.unread, start, self._kind_of(seen.label))
        return read

    def _kind_of(self, part: NumberColumn | WordColumn) -> Callable[[str], Oddity]:
        if isinstance(part, NumberColumn):
            return odd_number
        levels = frozenset(word.casefold() for word in words_of(part, self._study))
        return lambda text: odd_word(text, levels)
