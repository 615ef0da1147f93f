"""One way in for records: a hospital's columns, in Arrow batches or one by one, become rows of a study.

    raw value -> missing words and recodes -> number or word -> the study's unit -> clipped and encoded

What a single value means is decided in Python, by `crossward.learning.encoding` and the mapping; columns are read by
deciding each distinct odd value once, and everything plain at once. Reading is total: what is missing or cannot be read
takes the feature's default, and without one is 0 in all its columns; numbers clip; a label that cannot be read is 0.
A record is read the same alone as in any batch. What became of the values is noted; no note holds a value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crossward.errors import InvalidData
from crossward.learning.encoding import Category, Flag, Number
from crossward.learning.encoding.labels import label_codes
from crossward.learning.encoding.values import MISSING, UNREAD, number_of
from crossward.privacy.noise import Array
from crossward.study import Study
from crossward.study.features import NumberFeature, StudyFeature
from crossward_site.data import units
from crossward_site.data.mapping import Codes, ColumnMap, DataMap
from crossward_site.data.shapes import looks_like_name

Rows: TypeAlias = NDArray[np.intp]
"""Numbers of rows, rising."""

NO_ROWS: Rows = np.empty(0, dtype=np.intp)

PLAIN = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
"""Numbers that Arrow reads as Python does. Everything else is decided in Python."""

MOST_KEPT = 1 << 16
"""How many decisions on distinct values of a column are remembered from batch to batch."""

READ, RECODED = 0, 1


@dataclass(frozen=True, slots=True)
class Notes:
    """What became of a column's values, by the numbers of their rows.

    `clipped` are outside of the range, `implausible` beyond what the study declares as possible, and `odd_unit` far
    outside in a way that another unit would explain: `likely` names it, for each of these rows. The last two are among
    the clipped.
    """

    missing: Rows = field(default_factory=lambda: NO_ROWS)
    unread: Rows = field(default_factory=lambda: NO_ROWS)
    clipped: Rows = field(default_factory=lambda: NO_ROWS)
    recoded: Rows = field(default_factory=lambda: NO_ROWS)
    implausible: Rows = field(default_factory=lambda: NO_ROWS)
    odd_unit: Rows = field(default_factory=lambda: NO_ROWS)
    likely: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """Encoded rows (n, columns) and labels -1 or +1 (0: missing or not to be read), with what became of the values.

    In rows with labels a column's numbers stand side by side, as they are stored for training.
    """

    X: Array
    y: Array
    notes: dict[str, Notes]
    label: Notes


V = TypeVar("V", np.float64, np.intp)


@dataclass(frozen=True, slots=True)
class Values(Generic[V]):
    """A column as it was read, in local units: numbers with NaN, or codes below 0, where there is no value."""

    read: NDArray[V]
    missing: Rows = field(default_factory=lambda: NO_ROWS)
    unread: Rows = field(default_factory=lambda: NO_ROWS)
    recoded: Rows = field(default_factory=lambda: NO_ROWS)


class Decisions:
    """What single values mean, each decided once."""

    def __init__(self, decide: Callable[[Any], tuple[float, int]]) -> None:
        self._decide = decide
        self._known: dict[tuple[type, Any], tuple[float, int]] = {}

    def __call__(self, value: Any) -> tuple[float, int]:
        """The number or code of a value, and READ, RECODED, MISSING or UNREAD."""
        key = (type(value), value)
        try:
            known = self._known.get(key)
        except TypeError:  # a list, say: nothing that could be looked up
            return self._decide(value)
        if known is None:
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            known = self._known[key] = self._decide(value)
        return known

    def of(self, values: Iterable[Any]) -> tuple[Array, NDArray[np.intp]]:
        """The same of several."""
        decided = [self(value) for value in values]
        return (
            np.array([number for number, _ in decided], dtype=np.float64),
            np.array([state for _, state in decided], dtype=np.intp),
        )


class NumberColumn:
    """A number feature: what a column's values are, and their place in the study's range."""

    def __init__(
        self, feature: Number, mapped: ColumnMap, codes: Codes, decimal: str, plausible: tuple[float, float] | None
    ) -> None:
        self.name, self.column = feature.name, mapped.column
        self.feature = feature
        self.conversion = mapped.conversion(feature.name, feature.unit)
        self._codes, self._decimal, self._plausible = codes, decimal, plausible
        self._decisions = Decisions(self._decide)
        self._odd_before = False
        self._words = pa.array([*codes.words, ""], pa.string())
        listed = (number_of(_pointed(word, decimal)) for word in codes.words)
        self._numbers = np.array(sorted({number for number in listed if number is not None and math.isfinite(number)}))

    # -- what a value means ------------------------------------------------------------------------------------------
    def _decide(self, value: Any) -> tuple[float, int]:
        value, listed = self._listed(value)
        number = number_of(value if listed else _pointed(value, self._decimal))
        if number is None or math.isinf(number):
            return math.nan, UNREAD
        if math.isnan(number):
            return math.nan, MISSING
        return number, RECODED if listed else READ

    def _listed(self, value: Any) -> tuple[Any, bool]:
        word, listed = self._codes.read(value)
        if not listed and self._decimal == "," and isinstance(value, str):
            word, listed = self._codes.read(_pointed(value, ",") or "")
        return (word, True) if listed else (value, False)

    # -- reading -----------------------------------------------------------------------------------------------------
    def read(self, column: pa.Array) -> Values[np.float64]:
        """The numbers of a column of any type."""
        column = flat(column)
        kind = column.type
        if pa.types.is_string(kind):
            return self._texts(column)
        if pa.types.is_floating(kind) or pa.types.is_integer(kind):
            return self._settled(column, _floats(column))
        if pa.types.is_decimal(kind):
            return self._settled(column, _floats(column.cast(pa.string())))
        if pa.types.is_boolean(kind) or pa.types.is_null(kind):
            return self._settled(column, np.full(len(column), np.nan))
        return Values(np.full(len(column), np.nan), np.flatnonzero(_nulls(column)), np.flatnonzero(~_nulls(column)))

    def read_values(self, values: Sequence[Any]) -> Values[np.float64]:
        """The numbers of plain values."""
        numbers, states = self._decisions.of(values)
        return _sorted_out(numbers, None, states)

    def _texts(self, column: pa.Array) -> Values[np.float64]:
        """Plain numbers are read at once; listed words, blanks and all that is odd come out as NaN, to be decided."""
        plain = pc.if_else(pc.is_in(column, value_set=self._words), None, column)
        if self._decimal == ",":
            plain = pc.if_else(pc.match_substring(plain, "."), None, plain)
            plain = pc.replace_substring(plain, ",", ".", max_replacements=1)
        return self._settled(column, _floats(self._plain_numbers(plain)))

    def _plain_numbers(self, column: pa.Array) -> pa.Array:
        """Null where a text is no plain number. Where one was not, the next batch is not expected to do without."""
        if not self._odd_before:
            try:
                return column.cast(pa.float64())
            except pa.ArrowInvalid:  # slow: it writes a sentence for every such text
                self._odd_before = True
        return pc.if_else(pc.match_substring_regex(column, PLAIN), column, None).cast(pa.float64())

    def _settled(self, column: pa.Array, numbers: Array) -> Values[np.float64]:
        """The numbers, with what is listed or odd decided value by value."""
        odd = ~np.isfinite(numbers)
        for number in self._numbers:
            odd |= numbers == number
        rows = np.flatnonzero(odd)
        if len(rows) == 0:
            return Values(numbers)
        distinct = column.take(pa.array(rows)).dictionary_encode()
        decided, states = self._decisions.of([*distinct.dictionary.to_pylist(), None])
        places = _places(distinct)
        if not numbers.flags.writeable:
            numbers = numbers.copy()
        numbers[rows] = decided[places]
        return _sorted_out(numbers, rows, states[places])

    # -- encoding ----------------------------------------------------------------------------------------------------
    def encode(self, values: Values[np.float64], out: Array) -> Notes:
        """Write the encoded column into out: (n, 1)."""
        numbers = self.conversion.of(values.read)
        return self._notes(values, numbers, np.flatnonzero(self.feature.fill(numbers, out)))

    def judge(self, values: Values[np.float64]) -> Notes:
        """What would become of the values, with nothing encoded."""
        numbers = self.conversion.of(values.read)
        outside = (numbers < self.feature.low) | (numbers > self.feature.high)
        return self._notes(values, numbers, np.flatnonzero(outside))

    def _notes(self, values: Values[np.float64], numbers: Array, clipped: Rows) -> Notes:
        implausible, odd = NO_ROWS, NO_ROWS
        likely: tuple[str, ...] = ()
        if len(clipped):
            outside = numbers[clipped]
            if self._plausible is not None:
                lowest, highest = self._plausible
                implausible = clipped[(outside < lowest) | (outside > highest)]
            local = None if self.conversion == (1.0, 0.0) else values.read[clipped]
            looks = units.suspicions(outside, self.feature.low, self.feature.high, self.feature.unit, local)
            seen = [index for index, unit in enumerate(looks) if unit is not None]
            odd, likely = clipped[seen], tuple(str(looks[index]) for index in seen)
        return Notes(values.missing, values.unread, clipped, values.recoded, implausible, odd, likely)


class WordColumn:
    """A category, a flag or a label: which of its words each value of a column is."""

    def __init__(self, name: str, code: Callable[[Any], int], mapped: ColumnMap, codes: Codes) -> None:
        self.name, self.column = name, mapped.column
        self._code, self._codes = code, codes
        self._decisions = Decisions(self._decide)

    def _decide(self, value: Any) -> tuple[float, int]:
        word, listed = self._codes.read(value)
        code = self._code(word)
        return code, code if code < 0 else RECODED if listed else READ

    def read(self, column: pa.Array) -> Values[np.intp]:
        """The codes of a column of any type."""
        if not pa.types.is_dictionary(column.type) or len(column.dictionary) > len(column):
            column = flat(column)
            try:
                column = column.dictionary_encode()
            except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
                codes = np.where(_nulls(column), MISSING, UNREAD)
                return _sorted_out(codes, None, codes)
        decided, states = self._decisions.of([*flat(column.dictionary).to_pylist(), None])
        places = _places(column)
        codes = np.take(decided.astype(np.intp), places)
        if not states[:-1].any() and not column.null_count:
            return Values(codes)
        return _sorted_out(codes, None, np.take(states.astype(np.int8), places))

    def read_values(self, values: Sequence[Any]) -> Values[np.intp]:
        """The codes of plain values."""
        codes, states = self._decisions.of(values)
        return _sorted_out(codes.astype(np.intp), None, states)


class FeatureWords(WordColumn):
    """A category or a flag."""

    def __init__(self, feature: Category | Flag, mapped: ColumnMap, codes: Codes) -> None:
        super().__init__(feature.name, feature.code, mapped, codes)
        self.feature = feature

    def encode(self, values: Values[np.intp], out: Array) -> Notes:
        """Write the encoded columns into out: (n, levels or 1)."""
        self.feature.fill(values.read, out)
        return self.judge(values)

    def judge(self, values: Values[np.intp]) -> Notes:
        """What would become of the values, with nothing encoded."""
        return Notes(missing=values.missing, unread=values.unread, recoded=values.recoded)


def feature_column(feature: StudyFeature, mapping: DataMap, decimal: str = ".") -> NumberColumn | FeatureWords:
    """How a feature is read from its column; `InvalidSetting` where its unit cannot be brought to the study's."""
    mapped = mapping.of_feature(feature.name)
    known = feature.feature()
    if isinstance(known, Number):
        plausible = feature.plausible if isinstance(feature, NumberFeature) else None
        return NumberColumn(known, mapped, mapping.codes(mapped), decimal, plausible)
    return FeatureWords(known, mapped, mapping.codes(mapped))


def label_column(study: Study, mapping: DataMap) -> WordColumn:
    """How the label is read from its column: 1 positive, 0 negative."""
    label, mapped = study.label, mapping.of_label(study.label.name)
    return WordColumn(label.name, label_codes(label.positive, label.negative), mapped, mapping.codes(mapped))


class Reader:
    """Reads a hospital's columns for a study. `columns` are those it needs, each once: features first, then the label.

    `decimal` is "," where the texts of numbers have a decimal comma.
    """

    def __init__(self, study: Study, mapping: DataMap, decimal: str = ".") -> None:
        self.features = tuple(feature_column(feature, mapping, decimal) for feature in study.features)
        self.label = label_column(study, mapping)
        self.columns = tuple(dict.fromkeys([*(part.column for part in self.features), self.label.column]))
        self._widths = [len(part.feature.columns()) for part in self.features]

    def read(self, batch: pa.RecordBatch | pa.Table, *, labels: bool = True, room: Array | None = None) -> Reading:
        """Encode a batch; without `labels` the label's column may be absent, and y is 0.

        Where there is `room`, from `room_for`, the rows lie in it, until it is used again.
        """
        check_columns(batch.schema.names, [part.column for part in self.features], "The table")
        if labels:
            check_columns(batch.schema.names, [self.label.column], "The table")
        return self._reading(batch.num_rows, lambda part: part.read(column_of(batch, part.column)), labels, room)

    def room_for(self, rows: int) -> Array:
        """Memory for the encoded rows of batches, one after the other."""
        return np.empty((rows, sum(self._widths)), order="F")

    def read_records(self, records: Sequence[Mapping[str, Any]]) -> Reading:
        """Encode records of plain values, without labels. An absent name is an error, None is missing."""
        for number, record in enumerate(records, start=1):
            check_columns(record, [part.column for part in self.features], f"Record {number}")
        return self._reading(
            len(records), lambda part: part.read_values([record[part.column] for record in records]), labels=False
        )

    def _reading(self, rows: int, values: Callable[[Any], Any], labels: bool, room: Array | None = None) -> Reading:
        X = self.room_for(rows) if room is None else room[:rows]  # by column: three times as fast as by row
        notes, start = {}, 0
        for part, width in zip(self.features, self._widths, strict=True):
            notes[part.name] = part.encode(values(part), X[:, start : start + width])
            start += width
        if not labels:
            return Reading(np.ascontiguousarray(X), np.zeros(rows), notes, Notes())
        found = values(self.label)
        y = np.where(found.read == 1, 1.0, np.where(found.read == 0, -1.0, 0.0))
        return Reading(X, y, notes, Notes(found.missing, found.unread, recoded=found.recoded))


def check_columns(there: Iterable[str], wanted: Iterable[str], what: str) -> None:
    """Refuse a table that lacks columns. They are named, with what is spelled alike: a misspelt one is not missing."""
    names = dict.fromkeys(there)
    needed = dict.fromkeys(wanted)
    missing = [name for name in needed if name not in names]
    if missing:
        alike = nearest(missing[0], [name for name in names if name not in needed])
        hint = (
            f"Did you mean {alike!r}?"
            if alike and looks_like_name(alike)
            else "Give it, or map to a column that is there."
        )
        raise InvalidData(f"{what} has no column {', '.join(map(repr, missing))}.", hint)


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name that is spelled most alike, whatever its case, blanks and marks; None if none is."""
    plain = {_plain(other): other for other in names}
    if _plain(name) in plain:
        return plain[_plain(name)]
    return next((plain[close] for close in get_close_matches(_plain(name), list(plain), n=1, cutoff=0.75)), None)


def _plain(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalnum())


# -- Arrow ------------------------------------------------------------------------------------------------------------
def column_of(batch: pa.RecordBatch | pa.Table, name: str) -> pa.Array:
    """A column in one piece."""
    column = batch.column(name)
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def flat(column: pa.Array) -> pa.Array:
    """Without a dictionary, texts of one type, and moments as the texts that they are written as."""
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    kind = column.type
    if pa.types.is_dictionary(kind):
        return flat(column.dictionary_decode())
    if pa.types.is_temporal(kind):
        try:
            return column.cast(pa.string())
        except pa.ArrowException:  # of a time zone that nobody knows, say
            return pc.if_else(column.is_valid(), "a moment", None)
    texts = pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return column.cast(pa.string()) if texts else column


def _floats(column: pa.Array) -> Array:
    """Numbers as floats, NaN where null; texts must be numbers."""
    if column.type != pa.float64():
        column = column.cast(pa.float64(), safe=False)
    numbers: Array = column.to_numpy(zero_copy_only=False)
    return numbers


def _nulls(column: pa.Array) -> NDArray[np.bool_]:
    nulls: NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _places(column: Any) -> NDArray[np.int32]:
    """The place of each value in the dictionary; that after the last where it is null."""
    places = column.indices
    if places.null_count:
        places = places.cast(pa.int32()).fill_null(len(column.dictionary))
    found: NDArray[np.int32] = places.to_numpy()
    return found


def _sorted_out(read: NDArray[V], rows: Rows | None, states: NDArray[np.signedinteger[Any]]) -> Values[V]:
    """The values, with the rows of each state; the states are those of the given rows, or of all."""
    if not states.any():
        return Values(read)
    found = [np.flatnonzero(states == state) for state in (MISSING, UNREAD, RECODED)]
    return Values(read, *(found if rows is None else [rows[places] for places in found]))


def _pointed(value: Any, decimal: str) -> Any:
    """A text of a number with its comma as a point; None, which is no number, where a point is in it already."""
    if decimal != "," or not isinstance(value, str):
        return value
    return _NO_NUMBER if "." in value else value.replace(",", ".", 1)


_NO_NUMBER = "no number"
