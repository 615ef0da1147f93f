"""What a check found, in words: problems with their lines, most important first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from crossward.learning.encoding import Category, Flag, Number
from crossward.learning.encoding.labels import label_codes
from crossward.learning.encoding.values import FLAG_WORDS, UNREAD
from crossward.protocol.constants import CELLS
from crossward.study import Study
from crossward_connector.tables import Table
from crossward_site.data import units
from crossward_site.data.beside import Pulse
from crossward_site.data.check_views import Problem, Severity
from crossward_site.data.counting import MOST_LINES, Column, FeatureTally, Ids, Seen, Tally, copies
from crossward_site.data.mapping import Codes, ColumnMap, DataMap
from crossward_site.data.mending import Mending
from crossward_site.data.reading import FeatureWords, NumberColumn, WordColumn, nearest
from crossward_site.data.shapes import YES_NO, Oddity, looks_like_identifier, looks_like_name

MOST_SHAPES = 5
MUCH_CLIPPED, NEARLY_ALL_CLIPPED, FEWEST_CLIPPED = 0.05, 0.9, 10
MUCH_MISSING = 0.5
MOST_NAMED = 12
FEW_UNREAD = 0.01
MANY_ROWS = 200
"""A table of so many rows that has fewer persons than a release has cells hardly names its persons."""
NEARLY, ENOUGH_EXPLAINED = 0.95, 0.8
_ALL_ALIKE = (Oddity.COMMA, Oddity.UNIT, Oddity.CASE, Oddity.YES_NO)
"""Where one cell is written so, others are, and a mapping or another export mends all of them: never a trifle."""


class Telling:
    """Problems as they are found, and the mapping that would mend some of them."""

    def __init__(self, table: Table, mapping: DataMap, study: Study | None, seen: Seen) -> None:
        self._table, self._mapping, self._study, self._seen = table, mapping, study, seen
        self._names = list(table.form.names)
        self.names_are_told = True
        self._problems: list[Problem] = []
        self.mending = Mending(mapping)
        self._pointless = {} if study is None else _pointless_recodes(mapping, study)
        for column, recodes in self._pointless.items():
            if column in seen.columns:
                texts = dict.fromkeys(text for recode in recodes for text in recode.texts)
                seen.columns[column].no_level = Codes((), texts)

    def problems(self) -> list[Problem]:
        """What was told, most important first."""
        order = {"error": 0, "warning": 1, "note": 2}
        return sorted(self._problems, key=lambda problem: (order[problem.severity], -problem.count))

    def tell_all(self, most: int, pulse: Pulse) -> int:
        """Tell what the pass found; how many people there are. `most`: how many records of each are kept."""
        self._tell_faults()
        self._tell_mapping()
        pulse()
        persons = self._tell_persons(most)
        pulse()
        self._tell_label()
        self.tell_tally(
            "warning",
            self._seen.hollow,
            "Records without a label and with next to no features.",
            "Remove them if they are none, such as a total below the table: each would be a person.",
        )
        for name in self._seen.features:
            self._tell_feature(name)
            pulse()
        self._tell_columns()
        return persons

    def _tell_faults(self) -> None:
        unit = "line" if self._table.form.kind == "csv" else "row"
        alike: dict[tuple[str | None, str, str], list[int | None]] = {}
        for fault in self._table.faults:
            alike.setdefault((fault.column, fault.cause, fault.fix), []).append(fault.line)
        for (column, cause, fix), numbers in alike.items():
            lines = tuple(f"{unit} {number}" for number in numbers if number is not None)
            self._problems.append(
                Problem(
                    severity="error",
                    column=column,
                    line=lines[0] if lines else None,
                    lines=lines[:MOST_LINES],
                    count=len(numbers),
                    cause=cause,
                    fix=fix,
                )
            )
        if self._seen.rows == 0 and not alike:
            self.tell("error", "The table has no records.", "Give at least one.")

    def _tell_mapping(self) -> None:
        """What the mapping says that means nothing for the study."""
        mapping, study = self._mapping, self._study
        for mapped in (*mapping.features.values(), *mapping.labels.values()):
            if any(not text.strip() for text in mapped.recode):
                self.tell(
                    "warning",
                    "The mapping recodes an empty cell: it is missing, and cannot be recoded.",
                    "Leave it out of `recode`; what is missing counts as the study's default.",
                    mapped.column,
                )
        if study is None:
            return
        self._tell_unknown("features", mapping.features, [feature.name for feature in study.features])
        self._tell_unknown("labels", mapping.labels, [study.label.name])
        for column, recodes in self._pointless.items():
            for recode in recodes:
                self.tell(
                    "error",
                    f"The mapping recodes to {_listed(recode.words)}, none of the study's levels.",
                    f"Recode to one of {_listed(recode.levels)}, or to null.",
                    column,
                    recode.name,
                    count=len(recode.texts),
                )

    def _tell_unknown(self, section: str, named: Iterable[str], known: Sequence[str]) -> None:
        strange = [name for name in named if name not in known]
        if not strange:
            return
        close = {name: _nearest(name, known) for name in strange}
        alike = "; ".join(f"{name!r} may be {other!r}" for name, other in close.items() if other is not None)
        self.tell(
            "warning",
            f"The mapping has {section} that the study has not: {_listed(strange)}. They are not used.",
            f"{f'Correct the names: {alike}.' if alike else f'The study has {_listed(known)}.'} Names that are another "
            "study's may stay.",
            count=len(strange),
        )

    def _tell_persons(self, most: int) -> int:
        person, record = self._mapping.person, self._mapping.record
        persons, many, beyond = self._seen.persons.count(most)
        self._tell_ids(person, "person", self._seen.persons)
        if 0 < persons < CELLS and self._seen.rows >= MANY_ROWS:
            self.tell(
                "error",
                f"{self._seen.rows:,} rows of {_plural(persons, 'person', 'persons')}: is this the column that names "
                "the person?",
                "Map the person to the column of their ids.",
                person,
            )
        if many:
            kept = "one is kept" if most == 1 else f"{most} are kept"
            self.tell_tally(
                "warning",
                beyond,
                f"{_plural(many, 'person has', 'people have')} several records; of each, {kept}, chosen without "
                f"looking at them: {beyond.count:,} would not be used.",
                "Bring one record per person, or raise --records-per-person; every record of a person costs them.",
                person,
            )
        if record is not None and record in self._seen.columns:
            self._tell_ids(record, "record", self._seen.records)
            _, several, twice = self._seen.records.count(1)
            if several:
                self.tell_tally(
                    "error",
                    twice,
                    f"{_plural(several, 'record id stands', 'record ids stand')} for several records.",
                    "Give each record its own id, or remove the copies.",
                    record,
                )
        if persons < self._seen.rows and len(self._seen.columns) > 1:  # rows of different persons differ
            same = copies(self._seen.keys.joined())
            if same.count:
                self.tell_tally(
                    "warning", same, "Rows that say the same as another, person included.", "Remove the copies."
                )
        return persons

    def _tell_ids(self, column: str, what: str, ids: Ids) -> None:
        told: tuple[tuple[Tally, Severity, str, str], ...] = (
            (ids.blank, "error", f"Records without their {what}.", f"Every record needs its {what}."),
            (
                ids.words,
                "error",
                f"Words for a missing value where the {what} is due: all such records would be one {what}'s.",
                f"Every record needs its {what}.",
            ),
            (
                ids.totals,
                "error",
                f"A line that sums up the others, no record: a word such as total stands where the {what} is due.",
                "Remove such lines.",
            ),
            (
                ids.scientific,
                "error",
                "Ids in scientific notation, as a spreadsheet writes long ones: their last digits are lost.",
                "Format the column as text in the spreadsheet, and export it again from the source.",
            ),
            (
                ids.inexact,
                "error",
                "Ids are floating point numbers too large to have kept their last digits.",
                "Export the column as a text, or as whole numbers.",
            ),
            (
                ids.floating,
                "warning",
                "Ids are written as floating point numbers: large ones are no longer exact.",
                "Export them as whole numbers or texts.",
            ),
            (
                ids.padded,
                "warning",
                "Ids with blanks before or after them.",
                "The blanks are ignored: check that the ids are meant to be the same without.",
            ),
        )
        for tally, severity, cause, fix in told:
            self.tell_tally(severity, tally, cause, fix, column)

    def _tell_label(self) -> None:
        study = self._study
        if self._seen.label is None or study is None:
            self._tell_local_labels()
            return
        column, name = self._seen.label.column, study.label.name
        self.tell_tally(
            "warning",
            self._seen.unlabelled,
            "The label is missing.",
            "Such records are left out; check that this is meant.",
            column,
            name,
        )
        self._tell_odd(self._seen.columns[column], self._seen.label, name, self._seen.rows, label=True)
        if self._seen.rows and len(self._seen.labels) < 2:
            which = {1: "positive", 0: "negative"}.get(next(iter(self._seen.labels), -1))
            cause = "All labels are " + which + "." if which else "No label can be read."
            self.tell("error", cause, "Bring records of both classes, or correct the label's recoding.", column, name)

    def _tell_local_labels(self) -> None:
        for name, mapped in self._mapping.labels.items() if self._study is None else ():
            column = self._seen.columns.get(mapped.column)
            if column is not None and self._seen.rows and column.distinct.count in (0, 1):
                self.tell(
                    "error",
                    "The label has one value only.",
                    "Bring records of both classes, or correct the label's recoding.",
                    mapped.column,
                    name,
                )

    def _tell_feature(self, name: str) -> None:
        tally = self._seen.features[name]
        part, counts, column = tally.part, tally.counts, tally.part.column
        self._tell_odd(self._seen.columns[column], part, name, max(1, tally.values + counts["unread"]))
        share = counts["missing"] / max(1, self._seen.rows)
        if share >= 1:
            self.tell("error", "Every value is missing.", "Map the feature to another column.", column, name)
        elif counts["missing"] > self._seen.hollow.count and (part.feature.default is None or share > MUCH_MISSING):
            used = "the study's default" if part.feature.default is not None else "nothing, as the study has no default"
            self.tell_tally(
                "warning",
                tally.first["missing"],
                f"Missing in {_percent(share)} of the records; they count as {used}.",
                "Fill the column where you can.",
                column,
                name,
            )
        if isinstance(part, NumberColumn):
            self._tell_range(part, tally, name)

    def _tell_range(self, part: NumberColumn, tally: FeatureTally, name: str) -> None:
        counts, column, feature = tally.counts, part.column, part.feature
        explained = self._tell_unit(part, tally, name)
        for code, seen in tally.codes.items():
            if seen.count > max(1, tally.near[code]) and not explained:  # among others like it, it is a value
                self.tell_tally(
                    "warning",
                    seen,
                    f"{code:g} stands outside of the range several times: it looks like a code for a missing value.",
                    f'List "{code:g}" under `missing`, or recode it to null in this feature.',
                    column,
                    name,
                )
                self.mending.recode_missing(name, f"{code:g}")
        share = counts["clipped"] / max(1, tally.values)
        if not explained and counts["odd_unit"] and share < NEARLY_ALL_CLIPPED:
            likely = ", ".join(unit for unit, _ in tally.likely.most_common(2))
            self.tell_tally(
                "warning",
                tally.first["odd_unit"],
                f"Single values look as if they were in {likely}, not {feature.unit}.",
                "Convert them where they come from.",
                column,
                name,
            )
        if share > MUCH_CLIPPED and not explained:
            self.tell_tally(
                "error" if share >= NEARLY_ALL_CLIPPED and counts["clipped"] >= FEWEST_CLIPPED else "warning",
                tally.first["clipped"],
                f"{share:.0%} of the values lie outside of the study's range from {feature.low:g} to {feature.high:g} "
                f"{feature.unit}".rstrip()
                + " and would be clipped.",
                _clipped_fix(self._mapping.of_feature(name), feature.unit),
                column,
                name,
            )
        self.tell_tally(
            "warning",
            tally.first["implausible"] if not explained else Tally(),
            "Values beyond what the study calls plausible; they would be clipped as any other.",
            "Correct them, or leave them empty.",
            column,
            name,
        )

    def _tell_unit(self, part: NumberColumn, tally: FeatureTally, name: str) -> bool:
        """Whether another unit explains that most values are outside; it is told then."""
        clipped, unit, low, high = tally.counts["clipped"], part.feature.unit, part.feature.low, part.feature.high
        if clipped * 2 <= tally.values:
            return False
        if tally.inside_unconverted >= ENOUGH_EXPLAINED * clipped:
            self.tell_tally(
                "error",
                tally.first["clipped"],
                f"The values look as if they were in the study's unit{f' ({unit})' if unit else ''} already.",
                "Remove unit, factor and offset from the mapping.",
                part.column,
                name,
            )
            self.mending.drop_unit(name)
            return True
        mapped = self._mapping.of_feature(name)
        named = units.named_substances(name, part.column) or tuple(filter(None, [mapped.substance.strip().lower()]))
        ways = _fitting(tally, clipped, named, mapped)
        if not ways:
            return False
        best = ways[0]
        sure = len({way.unit for way in ways}) == 1 or tally.middles[best] * 2 > tally.fits[best]
        known = list(dict.fromkeys(way.unit for way in (ways[:1] if sure else ways)))
        self.tell_tally(
            "error",
            tally.first["clipped"],
            f"Most values lie outside of {low:g} to {high:g} {unit}: the column looks like {' or '.join(known)}.",
            _unit_fix(best, named) if sure else "Ask in which unit it is, and say so in the mapping.",
            part.column,
            name,
        )
        likely = [way.substance for way in ways if way.unit == best.unit and way.substance]
        if sure and (not best.substance or len(named) == 1):
            self.mending.unit(name, best.unit, best.substance)
        elif sure:
            self.mending.todo(
                f"features.{name}: add unit: {best.unit} and substance: one of {', '.join(likely or units.SUBSTANCES)}"
            )
        else:
            self.mending.todo(f"features.{name}: add unit: {' or '.join(known)}, whichever it is in")
        return True

    def _tell_columns(self) -> None:
        for column in self._seen.columns.values():
            self._tell_shared(column)
            feature = next((use for use in column.use if use not in ("person", "record", "label")), None)
            used = feature is not None
            if not used and "label" not in column.use:
                self._tell_odd(column, None, None, max(1, self._seen.rows - column.missing))
            gives_away = column.leak.missing_tells
            if gives_away is not None and not {"person", "record", "label"} & set(column.use):
                which = "positive" if gives_away.of_positive else "negative"
                self.tell(
                    "warning" if used else "note",
                    f"It is {'filled' if gives_away.filled else 'empty'} for hardly anyone but those whose label is "
                    f"{which}: whether a cell is empty gives the label away.",
                    "Check that it is not known only after the outcome; a study should not use it.",
                    column.name,
                    feature,
                )
            if (
                self._seen.rows > 1
                and gives_away is None
                and column.distinct.count == 1
                and not {"person", "record", "label"} & set(column.use)
            ):
                severity: Severity = "warning" if used else "note"
                self.tell(severity, "All values are the same.", "It says nothing about anyone.", column.name, feature)
            if (said := column.leak.said) and not {"person", "record"} & set(column.use):
                self.tell(
                    "warning" if used else "note",
                    said,
                    "Check that it is not the outcome under another name, or known only after it.",
                    column.name,
                    feature,
                )
            if looks_like_identifier(column.name) and not {"person", "record"} & set(column.use):
                self.tell(
                    "error" if used else "note",
                    "By its name the column identifies people directly.",
                    "No study needs it." if used else "Leave it out of the export: no study needs it.",
                    column.name,
                    feature,
                )

    def _tell_shared(self, column: Column) -> None:
        if len(uses := list(dict.fromkeys(column.use))) > 1:
            self.tell(
                "warning",
                f"Read for several things: {', '.join(uses)}.",
                "Map each to a column of its own, unless they are the same.",
                column.name,
            )

    def _tell_odd(
        self,
        column: Column,
        part: NumberColumn | WordColumn | None,
        feature: str | None,
        there: int,
        *,
        label: bool = False,
    ) -> None:
        """The cells that cannot be read, by what they are."""
        odd = dict(column.odd)
        numbers = part is None or isinstance(part, NumberColumn)
        comma = odd.get(Oddity.COMMA)
        if comma is not None and comma.thousands == comma.distinct:  # 1,234 is a comma only beside others
            odd[Oddity.THOUSANDS] = odd.pop(Oddity.COMMA)
        for kind, tally in odd.items():
            if self._is_of_totals(tally):
                continue
            cause, fix = _said(kind, tally, self._table.form.decimal) if numbers else _said_of_word(kind, tally)
            grave = label or tally.count > FEW_UNREAD * there or kind in _ALL_ALIKE
            severity: Severity = "warning" if part is None or not grave else "error"
            self.tell_tally(severity, tally, cause, fix, column.name, feature)
            if kind is Oddity.WORD:
                self.mending.missing(sorted(column.words[kind]))
            elif kind is Oddity.COMMA and part is not None:
                self.mending.todo(
                    f"{feature}: its numbers have a decimal comma; if all do, say --decimal , when asking"
                )
            elif feature is not None and isinstance(part, WordColumn):
                words = words_of(part, self._study)
                if kind in (Oddity.CASE, Oddity.YES_NO):
                    self.mending.recode_words(feature, _meant(column.words[kind], words), label=label)
                elif kind in (Oddity.OTHER, Oddity.WHOLE):
                    self.mending.recode(feature, words, list(_shapes(tally)), label=label)

    def _is_of_totals(self, tally: Tally) -> bool:
        """Whether something was seen in lines alone that sum up the others: to remove those is all there is to do."""
        totals = self._seen.persons.totals
        return tally is not totals and 0 < tally.count == len(tally.rows) and set(tally.rows) <= set(totals.rows)

    # -- one problem ---------------------------------------------------------------------------------------------------
    def shown(self, name: str) -> str:
        """A column by its name, or by its place where the name may be a value."""
        if name not in self._names or (self.names_are_told and looks_like_name(name)):
            return name
        return f"column {self._names.index(name) + 1}"

    def tell(
        self,
        severity: Severity,
        cause: str,
        fix: str,
        column: str | None = None,
        feature: str | None = None,
        lines: Sequence[str] = (),
        count: int = 1,
    ) -> None:
        """A problem; a column whose name may be a value goes by its place."""
        self._problems.append(
            Problem(
                severity=severity,
                column=None if column is None else self.shown(column),
                feature=feature,
                line=lines[0] if lines else None,
                lines=tuple(lines),
                count=count,
                cause=cause,
                fix=fix,
            )
        )

    def tell_tally(
        self,
        severity: Severity,
        tally: Tally,
        cause: str,
        fix: str,
        column: str | None = None,
        feature: str | None = None,
    ) -> None:
        """A problem of the rows that were counted; none where there are none, or all of them are no records."""
        if tally.count and not self._is_of_totals(tally):
            lines = [self._table.line(row) for row in sorted(tally.rows)]
            self.tell(severity, cause, fix, column, feature, lines, tally.count)


# -- the mapping ------------------------------------------------------------------------------------------------------
class _Pointless(NamedTuple):
    """Texts of a feature or label that are recoded to words which are none of its levels."""

    name: str
    texts: list[str]
    words: list[str]
    levels: list[str]


def _pointless_recodes(mapping: DataMap, study: Study) -> dict[str, list[_Pointless]]:
    """Recodes to a word that is no level, by the column."""
    parts: list[tuple[str, ColumnMap, Callable[[Any], int], list[str]]] = [
        (feature.name, mapping.of_feature(feature.name), known.code, _levels(known))
        for feature in study.features
        if not isinstance(known := feature.feature(), Number)
    ]
    label, of_label = study.label, mapping.of_label(study.label.name)
    levels = [str(value) for value in (label.positive, label.negative) if value is not None]
    parts.append((label.name, of_label, label_codes(label.positive, label.negative), levels))
    found: dict[str, list[_Pointless]] = defaultdict(list)
    for name, mapped, code, levels in parts:
        wrong = {text: word for text, word in mapped.recode.items() if word is not None and code(word) == UNREAD}
        if wrong:
            words = list(dict.fromkeys(map(str, wrong.values())))
            found[mapped.column].append(_Pointless(name, list(wrong), words, levels))
    return found


def _levels(feature: Category | Flag) -> list[str]:
    return list(feature.levels) if isinstance(feature, Category) else ["yes", "no"]


def _nearest(name: str, known: Sequence[str]) -> str | None:
    """The study's name that is most alike, if it is so by half."""
    plain = {other.casefold(): other for other in known}
    near = get_close_matches(name.casefold(), list(plain), n=1, cutoff=0.5)
    return nearest(name, known) or (plain[near[0]] if near else None)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(repr(name) for name in names[:MOST_NAMED]) + more


# -- units ------------------------------------------------------------------------------------------------------------
def _fitting(tally: FeatureTally, clipped: int, named: Sequence[str], mapped: ColumnMap) -> list[units.Way]:
    """The ways to read a column that bring nearly all of its values into the range, the likeliest first.

    Where the names tell the substance, no other is thought of; the way that the mapping takes already is none.
    """
    taken = {
        way
        for way in tally.fits
        if mapped.unit is not None
        and units.spelled(way.unit) == units.spelled(mapped.unit)
        and way.substance in ("", mapped.substance.strip().lower())
    }
    fits = {
        way: fit
        for way, fit in tally.fits.items()
        if fit >= ENOUGH_EXPLAINED * clipped
        and way not in taken
        and (not way.substance or not named or way.substance in named)
    }
    near = [way for way, fit in fits.items() if fit >= NEARLY * max(fits.values())]
    return sorted(near, key=lambda way: -tally.middles[way])


def _clipped_fix(mapped: ColumnMap, unit: str) -> str:
    if mapped.unit is None or units.spelled(mapped.unit) == units.spelled(unit):
        return "Check the unit; if it is right, tell the study's lead that the range is narrow."
    return f"Neither {mapped.unit}, which the mapping says, nor {unit} fits: ask in which unit the column is."


def _unit_fix(best: units.Way, named: Sequence[str]) -> str:
    if not best.substance:
        return f"Say `unit: {best.unit}` in the mapping."
    if len(named) != 1:
        return f"Say `unit: {best.unit}` in the mapping, with its `substance`: by the name it is not known."
    return f"Say `unit: {best.unit}` and `substance: {best.substance}` in the mapping."


# -- words ------------------------------------------------------------------------------------------------------------
def words_of(part: WordColumn, study: Study | None) -> list[str]:
    """What a category, a flag or the study's label may say."""
    if isinstance(part, FeatureWords) and isinstance(part.feature, Category):
        return list(part.feature.levels)
    if not isinstance(part, FeatureWords) and study is not None and not isinstance(study.label.positive, bool):
        return [str(value) for value in (study.label.positive, study.label.negative) if value is not None]
    return [word for word in FLAG_WORDS if isinstance(word, str)]


def _meant(texts: set[str], words: Sequence[str]) -> dict[str, str]:
    """What each text of a public list means in the study's words; what is in none of these may be another feature's."""
    alike = {word.casefold(): word for word in words}
    if {"yes", "no"} <= alike.keys():
        alike = {text: alike["yes" if yes else "no"] for text, yes in YES_NO.items()} | alike
    return {text: alike[text.casefold()] for text in sorted(texts) if text.casefold() in alike}


def _plural(count: int, one: str, several: str) -> str:
    return f"{count:,} {one}" if count == 1 else f"{count:,} {several}"


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else "less than 1%"


def _shapes(tally: Tally) -> list[str]:
    return [text for text, _ in tally.shapes.most_common(MOST_SHAPES)]


def _said(kind: Oddity, tally: Tally, decimal: str) -> tuple[str, str]:
    shown = ", ".join(_shapes(tally))
    listed = "List the word under `missing`, or recode it."
    return {
        Oddity.WORD: ("Words for missing values that the mapping does not list.", listed),
        Oddity.LIMIT: (
            f"Values below or above what can be measured ({shown}).",
            "Recode each to a number that stands for it, such as half the limit, or to null.",
        ),
        Oddity.PERCENT: (f"Numbers with a percent sign ({shown}).", "Remove the sign where the table comes from."),
        Oddity.DATE: (f"Dates or times where numbers are due ({shown}).", "Map the feature to a column of numbers."),
        Oddity.SPAN: (f"Ranges instead of one number ({shown}).", "Give one number, or leave the cell empty."),
        Oddity.THOUSANDS: (f"Numbers with separators of thousands ({shown}).", "Export plain numbers."),
        Oddity.COMMA: (
            f"Numbers with a decimal comma ({shown}).",
            "If all numbers are so, say --decimal , when asking; else export with a decimal point.",
        ),
        Oddity.POINT: (
            f"Numbers with a point where the file has decimal commas ({shown}).",
            "Write all numbers the same way." if decimal == "," else "Export plain numbers.",
        ),
        Oddity.UNIT: (
            f"The unit stands inside the cell ({shown}).",
            "Export numbers alone, and name the unit in the mapping.",
        ),
        Oddity.GARBLED: (f"Garbled characters ({shown}).", "Give the encoding that the file was saved with."),
    }.get(kind, (f"Texts where numbers are due ({shown}).", "Correct them, leave them empty, or recode them."))


def _said_of_word(kind: Oddity, tally: Tally) -> tuple[str, str]:
    shown, distinct = ", ".join(_shapes(tally)), tally.distinct
    return {
        Oddity.WORD: (
            "Words for missing values that the mapping does not list.",
            "List the word under `missing`, or recode it.",
        ),
        Oddity.CASE: (
            f"Values that differ from a level by case or blanks only ({shown}).",
            "Recode them to the level, or write them as the study does.",
        ),
        Oddity.YES_NO: (
            f"Yes and no in other words than the study's ({shown}).",
            "Recode them: the suggested mapping does.",
        ),
        Oddity.WHOLE: (f"Whole numbers written with a point ({shown}).", "Export whole numbers, or recode them."),
        Oddity.GARBLED: (f"Garbled characters ({shown}).", "Give the encoding that the file was saved with."),
    }.get(
        kind,
        (
            f"{_plural(distinct, 'unknown value', 'unknown values')} ({shown}).",
            "Recode each to one of the study's, or to null.",
        ),
    )
