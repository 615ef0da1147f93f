"""What a check counts as a table goes by: of each column, each feature, and the ids; in bounded memory.

Of every kind of trouble there are a count and its first rows. Ids and rows are kept as one number each, by which they
are told apart.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crossward.learning.encoding import Number
from crossward.learning.encoding.values import FLAG_WORDS, is_missing
from crossward_site.data import units
from crossward_site.data.check_views import FeatureCheck, Kind
from crossward_site.data.mapping import Codes, ColumnMap, value_text
from crossward_site.data.reading import NO_ROWS, FeatureWords, NumberColumn, Rows, Values, WordColumn, flat
from crossward_site.data.shapes import MISSING_CODES, MISSING_WORDS, Oddity, is_thousands, odd_number, shape
from crossward_site.data.tags import Growing, Tagger, id_texts, lost_digits

Keys = NDArray[np.uint64]

MOST_LINES = 10
MOST_DISTINCT = 1_000
MOST_LOOKED_AT = 256
"""So many distinct unread texts of a column are looked at in each batch; others count as the most common of them."""

LISTED = (Oddity.WORD, Oddity.CASE, Oddity.YES_NO)
"""Texts that stand in a public list, whatever their case: these alone are kept, to be told."""

TOTALS = frozenset({
    "summe", "gesamt", "gesamtsumme", "total", "totals", "sum", "mittelwert", "mittel", "durchschnitt", "mean",
    "average", "avg", "median", "count", "anzahl", "totale", "somme", "moyenne", "media", "totaal", "gemiddelde",
})  # fmt: skip
"""What stands in place of an id in a line that sums up the others, without case."""

SAMPLE = 4_096
BLOCK = 1 << 20
LIKE_NUMBERS = 0.8
FEWEST_TO_LEAK = 50
MOST_LEAKING = 20
MOST_ERRORS, MOST_ERRORS_OF_CLASS = 0.01, 0.1
"""A column says nearly what the label says if it errs in no more of all records, and of those of the rarer class."""
FEWEST_EXPECTED, HARDLY_ANY = 20, 0.05


@dataclass(slots=True)
class Tally:
    """How often something was seen, and the rows where it was first; of texts, their shapes."""

    count: int = 0
    rows: list[int] = field(default_factory=list)
    shapes: Counter[str] = field(default_factory=Counter)
    thousands: int = 0
    _texts: set[int] = field(default_factory=set)

    def add(self, rows: Rows, start: int, count: int | None = None) -> None:
        """Rows of a batch that begins at `start`; `count` where not all of them are given."""
        self.count += len(rows) if count is None else count
        if len(rows) and len(self.rows) < MOST_LINES:
            self.rows.extend(start + int(row) for row in rows[: MOST_LINES - len(self.rows)])

    def look(self, texts: Iterable[str]) -> None:
        """Take in the shapes of texts; one that was seen before counts once."""
        for text in texts:
            if len(self._texts) < MOST_DISTINCT and hash(text) not in self._texts:
                self._texts.add(hash(text))
                self.thousands += is_thousands(text)
                self.shapes[shape(text)] += 1

    @property
    def distinct(self) -> int:
        """How many distinct texts were looked at."""
        return len(self._texts)


class Distinct:
    """The distinct values of a column, until there are too many."""

    def __init__(self, codes: Codes) -> None:
        self._seen: set[Any] | None = set()
        self._codes = codes

    def add(self, column: pa.Array) -> None:
        """A batch's values."""
        values = None if self._seen is None else _unique(column)
        if values is None or self._seen is None or len(values) > MOST_DISTINCT + 2:
            self._seen = None
            return
        there = (value for value in values if not is_missing(self._codes.read(value)[0]))
        self._seen |= set(there)
        if len(self._seen) > MOST_DISTINCT:
            self._seen = None

    @property
    def count(self) -> int | None:
        """How many there are; None: too many to count."""
        return None if self._seen is None else len(self._seen)

    def texts(self) -> set[str]:
        """The values as texts, without case."""
        return {value_text(value).casefold() for value in self._seen or ()}


def _unique(column: pa.Array) -> list[Any] | None:
    """The distinct values; None where there are too many, or they cannot be compared."""
    try:
        for few in (column.slice(0, SAMPLE), column):  # most columns have too many in their first rows
            values = pc.unique(flat(few))
            if len(values) > MOST_DISTINCT + 2:
                return None
    except pa.ArrowException:
        return None
    return list(values.to_pylist())


class MissingTells(NamedTuple):
    """Hardly anyone but those of one class has a cell that is filled, or one that is empty."""

    filled: bool
    of_positive: bool


class Leak:
    """Whether a column says what the label says: by its values, by a threshold, or by which cells are empty."""

    def __init__(self, codes: Codes, reader: NumberColumn) -> None:
        self._codes = codes
        self._words = pa.array([*codes.words, "", " "], pa.string())
        self._classes: dict[Any, NDArray[np.int64]] | None = {}
        self._filled, self._all = np.zeros(2, np.int64), np.zeros(2, np.int64)
        self._threshold = Threshold(reader)

    def add(self, column: pa.Array, label: NDArray[np.intp]) -> None:
        """A batch's values, and the label's codes."""
        plain = flat(column)
        there, classes = self._there(plain), [label == code for code in (0, 1)]
        self._all += [np.count_nonzero(of_class) for of_class in classes]
        self._filled += [np.count_nonzero(there & of_class) for of_class in classes]
        self._threshold.add(plain, label)
        if self._classes is not None:
            self._classes = self._more_classes(self._classes, plain, label)

    def _there(self, plain: pa.Array) -> NDArray[np.bool_]:
        there = plain.is_valid()
        if pa.types.is_string(plain.type):
            there = pc.and_kleene(there, pc.invert(pc.is_in(plain, value_set=self._words)))
        found: NDArray[np.bool_] = there.fill_null(False).to_numpy(zero_copy_only=False)
        return found

    def _more_classes(
        self, classes: dict[Any, NDArray[np.int64]], plain: pa.Array, label: NDArray[np.intp]
    ) -> dict[Any, NDArray[np.int64]] | None:
        """How many of each class have each value; None where there are too many values."""
        try:
            for few in (plain.slice(0, SAMPLE), plain):
                coded = few.dictionary_encode()
                if len(coded.dictionary) > MOST_LEAKING:
                    return None
        except pa.ArrowException:
            return None
        places = coded.indices.cast(pa.int64()).fill_null(-1).to_numpy()
        rows = (places >= 0) & (label >= 0)
        counts = np.bincount(2 * places[rows] + label[rows], minlength=2 * len(coded.dictionary)).reshape(-1, 2)
        for value, count in zip(coded.dictionary.to_pylist(), counts, strict=True):
            if not is_missing(self._codes.read(value)[0]):
                classes[value] = classes.get(value, 0) + count
        return classes if len(classes) <= MOST_LEAKING else None

    @property
    def said(self) -> str | None:
        """What to say of a column that says what the label says, in enough records of both classes."""
        counts = np.array(list((self._classes or {}).values()), np.int64).reshape(-1, 2)
        total, fewer = int(counts.sum()), int(counts.sum(axis=0).min())
        errors = int(counts.min(axis=1).sum())
        if total >= FEWEST_TO_LEAK and fewer and errors <= min(MOST_ERRORS * total, MOST_ERRORS_OF_CLASS * fewer):
            if not errors:
                return "The column says the same as the label in every record."
            return f"The column says nearly the same as the label: in {1 - errors / total:.1%} of the records."
        return "A threshold of this column tells the label in every record." if self._threshold.found else None

    @property
    def missing_tells(self) -> MissingTells | None:
        """Whether one class has hardly any of the filled cells, or of the empty ones, though many were due."""
        shares = self._all / max(1, self._all.sum())
        for filled, counts in ((True, self._filled), (False, self._all - self._filled)):
            expected = counts.sum() * shares
            for other in (0, 1):
                if expected[other] >= FEWEST_EXPECTED and counts[other] <= HARDLY_ANY * expected[other]:
                    return MissingTells(filled, of_positive=other == 0)
        return None


class Threshold:
    """Whether all numbers of one class lie below all of the other; given up as soon as they do not."""

    def __init__(self, reader: NumberColumn) -> None:
        self._reader = reader
        self._low, self._high = np.full(2, np.inf), np.full(2, -np.inf)
        self._counts: NDArray[np.int64] | None = np.zeros(2, np.int64)

    def add(self, plain: pa.Array, label: NDArray[np.intp]) -> None:
        """A batch's values, and the label's codes."""
        for few in (plain.slice(0, SAMPLE), plain):  # nearly every column is given up in its first rows
            if self._counts is None:
                return
            numbers = self._reader.read(few).read
            classes = [numbers[(label[: len(numbers)] == code) & ~np.isnan(numbers)] for code in (0, 1)]
            for code, values in enumerate(classes):
                self._low[code] = min(self._low[code], values.min(initial=np.inf))
                self._high[code] = max(self._high[code], values.max(initial=-np.inf))
            if not (len(classes[0]) + len(classes[1])) or not self._apart():
                self._counts = None
        if self._counts is not None:
            self._counts += [len(values) for values in classes]

    def _apart(self) -> bool:
        return bool(self._high[0] < self._low[1] or self._high[1] < self._low[0])

    @property
    def found(self) -> bool:
        """Whether they did, in enough records of both classes."""
        return self._counts is not None and bool(np.all(self._counts >= FEWEST_TO_LEAK // 5))


class Column:
    """What is known of one column, whatever it is used for."""

    def __init__(self, name: str, codes: Codes, decimal: str) -> None:
        self.name = name
        self.missing = 0
        self.distinct = Distinct(codes)
        self.type: pa.DataType | None = None
        self.odd: dict[Oddity, Tally] = defaultdict(Tally)
        self.words: dict[Oddity, set[str]] = defaultdict(set)
        self._kinds: dict[str, Oddity] = {}
        self.numbers: bool | None = None
        self.dates = False
        self.use: list[str] = []
        self.no_level = Codes((), {})
        """Texts that the mapping recodes to no level: the mapping is to mend, not the cells."""
        self._codes = codes
        anything = Number("anything", -8e307, 8e307)
        self._reader = NumberColumn(anything, ColumnMap(column="anything"), codes, decimal, None)
        self.leak = Leak(codes, self._reader)

    def look(self, column: pa.Array, start: int) -> Keys:
        """Count what is missing in a column that no feature is read from; and odd cells, where it is of numbers."""
        if self.numbers is None:
            self.numbers = self._like_numbers(column)
        if self.numbers:
            values = self._reader.read(column)
            self.missing += len(values.missing)
            self.tell_odd(column, values.unread, start, odd_number)
            return number_keys(values)
        plain = flat(column)
        if pa.types.is_string(plain.type):
            words = pa.array([*self._codes.words, ""], pa.string())
            blank = pc.or_kleene(pc.is_in(pc.utf8_trim_whitespace(plain), value_set=words), plain.is_null())
            self.missing += pc.sum(blank).as_py() or 0
        else:
            self.missing += plain.null_count
        return text_keys(plain)

    def _like_numbers(self, column: pa.Array) -> bool:
        values = self._reader.read(column.slice(0, SAMPLE))
        there = len(values.read) - len(values.missing)
        if there and len(values.unread) == there:
            texts = [text for text in flat(column.slice(0, 200)).to_pylist() if isinstance(text, str) and text.strip()]
            self.dates = bool(texts) and all(odd_number(text) in (Oddity.DATE, Oddity.WORD) for text in texts)
        return there > 0 and there - len(values.unread) >= LIKE_NUMBERS * there

    def tell_odd(self, column: pa.Array, rows: Rows, start: int, kind_of: Callable[[str], Oddity]) -> None:
        """Look at the cells that cannot be read: what each is, and its shape."""
        if len(rows) == 0:
            return
        try:
            coded = flat(column.take(pa.array(rows))).dictionary_encode()
            looked_at = coded.dictionary.slice(0, MOST_LOOKED_AT).to_pylist()
        except (pa.ArrowException, ValueError):
            self.odd[Oddity.OTHER].add(rows, start)
            return
        texts = [value if isinstance(value, str) else value_text(value) for value in looked_at]
        kinds = [self._kind(text, kind_of) for text in texts]
        places = coded.indices.to_numpy()
        counts = np.bincount(places, minlength=len(coded.dictionary))
        by_kind: dict[Oddity, list[int]] = defaultdict(list)
        for place, kind in enumerate(kinds):
            if not self.no_level.read(texts[place])[1]:
                by_kind[kind].append(place)
        if not by_kind:
            return
        beyond = int(counts[len(kinds) :].sum())
        common = max(by_kind, key=lambda kind: int(counts[by_kind[kind]].sum()))
        for kind, members in by_kind.items():
            where = rows[np.flatnonzero(np.isin(places, members))[:MOST_LINES]]
            tally = self.odd[kind]
            tally.add(where, start, int(counts[members].sum()) + (beyond if kind is common else 0))
            tally.look(texts[place] for place in members)
            if kind in LISTED:
                self.words[kind] |= {texts[place].strip() for place in members}

    def _kind(self, text: str, kind_of: Callable[[str], Oddity]) -> Oddity:
        known = self._kinds.get(text)
        if known is None:
            known = kind_of(text)
            if len(self._kinds) < MOST_DISTINCT:
                self._kinds[text] = known
        return known

    def kind(self, rows: int) -> Kind:
        """What the column holds."""
        if {"person", "record"} & set(self.use):
            return "id"
        if rows and self.missing >= rows:
            return "empty"
        kind = self.type
        if kind is not None and (pa.types.is_nested(kind) or pa.types.is_binary(kind)):
            return "other"
        if self.dates or (kind is not None and pa.types.is_temporal(kind)):
            return "date"
        flags = {word for word in FLAG_WORDS if isinstance(word, str)}
        if (texts := self.distinct.texts()) and len(texts) <= 2 and texts <= flags:
            return "yes-no"
        return "number" if self.numbers else "text"


@dataclass(slots=True)
class FeatureTally:
    """What became of a feature's values, and what might explain those outside of its range."""

    part: NumberColumn | FeatureWords
    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    codes: dict[float, Tally] = field(default_factory=lambda: defaultdict(Tally))
    near: Counter[float] = field(default_factory=Counter)
    values: int = 0
    fits: Counter[units.Way] = field(default_factory=Counter)
    middles: Counter[units.Way] = field(default_factory=Counter)
    inside_unconverted: int = 0
    likely: Counter[str] = field(default_factory=Counter)

    def add(self, values: Values[Any], start: int) -> None:
        """A batch's values."""
        notes = self.part.judge(values)
        for what in FeatureCheck.model_fields:
            if what != "column":
                rows = getattr(notes, what)
                self.counts[what] += len(rows)
                self.first[what].add(rows, start)
        self.values += len(values.read) - len(values.missing) - len(values.unread)
        self.likely.update(notes.likely)
        if isinstance(self.part, NumberColumn) and len(notes.clipped):
            self._explain(self.part, values.read[notes.clipped], notes.clipped, start)

    def _explain(self, part: NumberColumn, raw: NDArray[Any], rows: Rows, start: int) -> None:
        low, high = part.feature.low, part.feature.high
        for code in MISSING_CODES:
            self.codes[code].add(rows[raw == code], start)
            beside = (raw != code) & (np.abs(raw - code) <= abs(code) / 2)
            self.near[code] += int(np.count_nonzero(beside))
        for way, (inside, middle) in units.fits(raw, low, high, part.feature.unit).items():
            self.fits[way] += inside
            self.middles[way] += middle
        if part.conversion != (1.0, 0.0):
            self.inside_unconverted += int(np.count_nonzero((raw >= low) & (raw <= high)))


_NOBODY, _TOTALS = (pa.array(sorted(words), pa.string()) for words in (MISSING_WORDS, TOTALS))
_TAGGER = Tagger(os.urandom(32))
"""Ids are told apart as the vault tells them apart; the tags hold in this process alone."""
_NO_ID = np.uint64(_TAGGER.person(""))


class Ids:
    """A column of ids: what is wrong with how they are written, and which come twice."""

    def __init__(self) -> None:
        self.blank, self.padded, self.floating, self.scientific = Tally(), Tally(), Tally(), Tally()
        self.words, self.inexact, self.totals = Tally(), Tally(), Tally()
        self._keys = Growing()
        self._blank: list[Rows] = []

    def add(self, column: pa.Array, start: int) -> Keys:
        """A batch's ids; their keys."""
        plain = flat(column)
        blank = plain.is_null()
        if pa.types.is_string(plain.type):
            trimmed = pc.utf8_trim_whitespace(plain)
            blank = pc.or_kleene(blank, pc.equal(trimmed, ""))
            padded = pc.and_kleene(pc.not_equal(plain, trimmed), pc.invert(blank))
            self.padded.add(_true(padded), start)
            lower = pc.utf8_lower(trimmed)
            self.words.add(_true(pc.is_in(lower, value_set=_NOBODY)), start)
            self.totals.add(_true(pc.is_in(pc.utf8_rtrim(lower, ": "), value_set=_TOTALS)), start)
            self.scientific.add(_true(pc.match_substring_regex(trimmed, r"^\d(?:[.,]\d+)?[eE]\+?\d+$")), start)
            self.floating.add(_true(pc.match_substring_regex(trimmed, r"^\d+[.,]0+$")), start)
        elif pa.types.is_floating(plain.type):
            self.floating.add(_true(plain.is_valid()), start)
            self.inexact.add(np.flatnonzero(lost_digits(plain)), start)
        try:
            found = _TAGGER.persons(id_texts(plain))
            rows = np.flatnonzero(found == _NO_ID)  # NaN, and marks that nobody sees, are no id either
        except pa.ArrowException:  # of a type that is no text
            found, rows = text_keys(plain), _true(blank)
        self.blank.add(rows, start)
        self._blank.append(rows + start)
        self._keys.extend(found)
        return found

    def count(self, most: int) -> tuple[int, int, Tally]:
        """How many ids there are, how many have more than so many rows, and the rows beyond."""
        keys, blank = self._keys.joined(), np.concatenate([NO_ROWS, *self._blank])
        ordered = np.delete(keys, blank) if len(blank) else keys.copy()
        ordered.sort()
        distinct = int(np.count_nonzero(ordered[1:] != ordered[:-1])) + bool(len(ordered))
        many, beyond = repeated(keys, ordered, most)
        return distinct, many, beyond


@dataclass(slots=True)
class Seen:
    """All that was counted of a table. `labels` are the classes seen: 1 positive, 0 negative."""

    columns: dict[str, Column]
    rows: int = 0
    positives: int = 0
    labels: set[int] = field(default_factory=set)
    label: WordColumn | None = None
    unlabelled: Tally = field(default_factory=Tally)
    persons: Ids = field(default_factory=Ids)
    records: Ids = field(default_factory=Ids)
    features: dict[str, FeatureTally] = field(default_factory=dict)
    hollow: Tally = field(default_factory=Tally)
    keys: Growing = field(default_factory=Growing)


# -- keys of rows -----------------------------------------------------------------------------------------------------
def number_keys(values: Values[Any]) -> Keys:
    """A number for each value, the same for equal ones."""
    read = values.read
    whole: Keys = (read + 0.0).view(np.uint64) if read.dtype == np.float64 else read.astype(np.int64).view(np.uint64)
    return whole


def text_keys(column: pa.Array) -> Keys:
    """A number for each value, the same for equal ones; 0 for a null. It holds in this process alone."""
    try:
        coded = column.dictionary_encode()
        texts = coded.dictionary.to_pylist()
    except (pa.ArrowException, ValueError):
        return np.zeros(len(column), np.uint64)
    hashes = np.array([hash(str(text)) for text in texts] + [0], np.int64).view(np.uint64)
    keys: Keys = hashes[coded.indices.cast(pa.int64()).fill_null(len(texts)).to_numpy()]
    return keys


def mix(keys: Keys, more: Keys, place: int) -> None:
    """Take the column of this place into the keys of rows."""
    mixed = more >> np.uint64(32)
    mixed ^= more
    mixed *= _odd(place)
    keys += mixed


@cache
def _odd(place: int) -> np.uint64:
    """An odd number of its own for each place, so that no two columns can take each other's part."""
    return np.uint64(int.from_bytes(hashlib.sha256(place.to_bytes(8)).digest()[:8]) | 1)


def copies(keys: Keys) -> Tally:
    """The rows that have the key of an earlier one."""
    return repeated(keys, np.sort(keys), 1)[1]


def repeated(keys: Keys, ordered: Keys, most: int) -> tuple[int, Tally]:
    """How many keys stand in more than so many rows, and the rows beyond; `ordered` are the keys that count, sorted."""
    tally = Tally()
    again = ordered[most:][ordered[most:] == ordered[:-most]]
    tally.count = len(again)
    if not tally.count:
        return 0, tally
    many = again[np.append(True, again[1:] != again[:-1])]
    looked_at = 0
    while len(tally.rows) < min(MOST_LINES, tally.count) and looked_at < len(keys):
        looked_at = max(BLOCK, 2 * looked_at)  # whether a row is beyond follows from those before it
        tally.rows = _beyond(keys[:looked_at], many, most)
    return len(many), tally


def _beyond(keys: Keys, many: Keys, most: int) -> list[int]:
    """The first rows that stand after so many others of their key; `many` are the keys to look for, sorted."""
    parts = [keys[start : start + BLOCK] for start in range(0, len(keys), BLOCK)]
    places = (np.minimum(np.searchsorted(many, part), len(many) - 1) for part in parts)
    rows = np.concatenate(
        [BLOCK * k + np.flatnonzero(many[at] == parts[k]) for k, at in enumerate(places)], dtype=np.int64
    )
    order = np.argsort(keys[rows], kind="stable")  # equal keys stay in the order of rows
    found = keys[rows[order]]
    beyond: list[int] = np.sort(rows[order[most:][found[most:] == found[:-most]]])[:MOST_LINES].tolist()
    return beyond


def _true(mask: Any) -> Rows:
    return np.flatnonzero(mask.fill_null(False).to_numpy(zero_copy_only=False))
