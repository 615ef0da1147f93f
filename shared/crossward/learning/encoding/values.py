"""What a value means, one by one: a number, or a word from a public list.

`number_of` and `code_of` are total: they say so where a value is missing or cannot be read. What reads whole columns
stands on them. `read_numbers` and `read_words` raise instead; their errors name the value at fault, so that a steward
can find it: their texts are private to the site.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from crossward.errors import InvalidData, NotFinite, UnknownCategory
from crossward.learning.encoding.tables import Column
from crossward.privacy.noise import Array

MISSING = -1
UNREAD = -2
"""The codes of a value that is missing, and of one that cannot be read."""

FLAG_WORDS: dict[Any, int] = {False: 0, True: 1, "false": 0, "true": 1, "no": 0, "yes": 1, "0": 0, "1": 1}
"""How a flag may be written; the numbers 0 and 1 equal False and True."""


_E = TypeVar("_E", bound=InvalidData)


@dataclass(frozen=True, slots=True)
class Spot:
    """The feature and the row, from 0, of a value that does not fit: for whoever knows both by other names."""

    name: str
    row: int
    said: str


def at_spot(error: _E, name: str, row: int, said: str) -> _E:
    """The error, with the spot it is about."""
    vars(error)["spot"] = Spot(name, row, said)
    return error


def spot_of(error: Exception) -> Spot | None:
    """The spot that an error is about, if it is about one."""
    return vars(error).get("spot")


def is_missing(value: Any) -> bool:
    """None, NaN, a blank text, or a data frame's own mark for missing."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, str):
        return not value.strip()
    return isinstance(value, numbers.Number) and value != value  # noqa: PLR0124 - only NaN differs from itself


def number_of(value: Any) -> float | None:
    """The value as a float: NaN where it is missing, None where it is no number. It may be infinite."""
    if is_missing(value):
        return float("nan")
    try:
        return float(value)
    except (ValueError, TypeError, OverflowError):
        return None


def code_of(value: Any, words: Mapping[Any, int], spell: Callable[[Any], Any] = lambda value: value) -> int:
    """The number of the value in `words`, where it may be written spell(value) too; MISSING or UNREAD without one."""
    code = _found(value, words)
    if code == UNREAD:
        code = MISSING if is_missing(value) else _found(spell(value), words)
    return code


def _found(value: Any, words: Mapping[Any, int]) -> int:
    try:
        return words.get(value, UNREAD)
    except TypeError:  # a list or a mapping, say, cannot be looked up
        return UNREAD


def read_numbers(name: str, column: Column) -> Array:
    """The column as a new array of floats, NaN where a value is missing."""
    try:
        values = np.array(column, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        values = np.empty(0)
    if values.shape != (len(column),):
        values = np.array([_number(name, row, value) for row, value in enumerate(column)], dtype=np.float64)
    if np.any(np.isinf(values)):
        row = int(np.argmax(np.isinf(values)))
        error = NotFinite(f"{name!r} is {values[row]} in row {row} (from 0).", "Give a number, or leave it empty.")
        raise at_spot(error, name, row, f"is {values[row]}.")
    return values


def read_words(
    name: str, column: Column, words: Mapping[Any, int], spell: Callable[[Any], Any] = lambda value: value
) -> NDArray[np.intp]:
    """The number of each value in `words`, MISSING where it is missing; a value not found is tried as spell(value)."""
    values = column if isinstance(column, list) else column.tolist()
    try:
        codes = np.fromiter(map(words.get, values, repeat(UNREAD)), dtype=np.intp, count=len(values))
    except TypeError:  # a list or a mapping, say, cannot be looked up
        codes = np.full(len(values), UNREAD, dtype=np.intp)
    for row in np.flatnonzero(codes == UNREAD):
        codes[row] = _word(name, int(row), values[row], words, spell)
    return codes


def lower(value: Any) -> Any:
    """Texts without case and surrounding blanks; other values as they are."""
    return value.strip().lower() if isinstance(value, str) else value


def spellings(level: str) -> tuple[Any, ...]:
    """How a level may come: as its text or, where that is a whole number, as that number (2, 2.0 for "2")."""
    whole = level.isascii() and level.isdigit() and str(int(level)) == level
    return (level, int(level)) if whole else (level,)


def _number(name: str, row: int, value: Any) -> float:
    number = number_of(value)
    if number is None:
        error = InvalidData(
            f"{name!r} is {value!r} in row {row} (from 0), which is not a number.", "Correct it or leave it empty."
        )
        raise at_spot(error, name, row, f"is {value!r}, which is not a number.")
    return number


def _word(name: str, row: int, value: Any, words: Mapping[Any, int], spell: Callable[[Any], Any]) -> int:
    code = code_of(value, words, spell)
    if code == UNREAD:
        listed = ", ".join(repr(word) for word in words if isinstance(word, str))
        error = UnknownCategory(
            f"{name!r} is {value!r} in row {row} (from 0); the schema lists {listed}.",
            "Map the local values to the listed ones.",
        )
        raise at_spot(error, name, row, f"is {value!r}; the schema lists {listed}.")
    return code
