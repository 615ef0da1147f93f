"""The three kinds of feature, and how one value of each becomes columns within [-1, 1].

    number     x -> 2 (min(max(x, low), high) - low) / (high - low) - 1     one column
    category   x -> (1 if x = level_1, ..., 1 if x = level_m), else 0       m columns
    flag       x -> 0 or 1                                                  one column

A missing x takes the declared default. `encode` reads raw values and refuses what it cannot read, and what is missing
without a default; `fill` takes values that were read and is total: without a default they become 0. Range, levels,
default, importance and direction are public: they come from the study, never from records, so a record's columns depend
on that record alone.

A direction says which way a feature moves the outcome, as its doctors see it: "up" makes it likelier with a larger
number, a set flag, a later level; "down" less likely; None: nobody said.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crossward.errors import InvalidBounds, InvalidData, InvalidImportance, InvalidSetting
from crossward.learning.encoding.tables import Column
from crossward.learning.encoding.values import (
    FLAG_WORDS,
    MISSING,
    at_spot,
    code_of,
    lower,
    read_numbers,
    read_words,
    spellings,
)
from crossward.privacy.noise import Array

Direction: TypeAlias = Literal["up", "down"]
_SIGNS = {"up": 1.0, "down": -1.0, None: 0.0}


@dataclass(frozen=True, slots=True)
class Counts:
    """How many values of one feature were missing, and how many were clipped to its range."""

    missing: int
    clipped: int = 0


@dataclass(frozen=True, slots=True)
class Number:
    """A measurement with a public range [low, high] in `unit`; values outside are clipped."""

    kind: ClassVar[str] = "number"

    name: str
    low: float
    high: float
    unit: str = ""
    default: float | None = None
    importance: float = 1.0
    direction: Direction | None = None

    def __post_init__(self) -> None:
        _check_words(self)
        low, high = _real(self.low), _real(self.high)
        if not (low < high and math.isfinite(high - low)):
            raise InvalidBounds(
                f"The range of {self.name!r} is [{self.low!r}, {self.high!r}].",
                "Give a finite low below a finite high, from knowledge of the measurement and not from records.",
            )
        if not isinstance(self.unit, str):
            raise InvalidSetting(f"The unit of {self.name!r} is {self.unit!r}.", "Give a text, or leave it out.")
        _settle(self, low=low, high=high, importance=_importance(self))
        if self.default is not None:
            default = _real(self.default)
            if not low <= default <= high:
                raise _bad_default(self, f"a number from {low:g} to {high:g}")
            _settle(self, default=default)

    def columns(self) -> tuple[str, ...]:
        """The names of its encoded columns."""
        return (self.name,)

    def directions(self) -> tuple[float, ...]:
        """The sign of each column's effect, 0 where none is declared."""
        return (_SIGNS[self.direction],)

    def encode(self, column: Column, out: Array) -> Counts:
        """Write the encoded column into out: (n, 1)."""
        values = read_numbers(self.name, column)
        missing = _count_missing(self, np.isnan(values))
        return Counts(missing, int(np.count_nonzero(self.fill(values, out))))

    def fill(self, values: Array, out: Array) -> NDArray[np.bool_]:
        """Write numbers, NaN where there is none, into out: (n, 1); where they were clipped."""
        inside = np.clip(values, self.low, self.high)
        clipped: NDArray[np.bool_] = inside != values
        missing = np.isnan(inside) if np.any(clipped) else None  # NaN differs from itself: without any, none is missing
        inside -= self.low
        inside /= self.high - self.low
        column = out[:, 0]
        np.multiply(inside, 2.0, out=column)
        column -= 1.0
        if missing is not None and np.any(missing):
            clipped &= ~missing
            column[missing] = 0.0 if self.default is None else self._place(self.default)
        return clipped

    def _place(self, value: float) -> float:
        return 2.0 * ((value - self.low) / (self.high - self.low)) - 1.0


@dataclass(frozen=True, slots=True)
class Category:
    """One of the listed levels. A level that writes a whole number also stands for that number: "2" for 2 and 2.0."""

    kind: ClassVar[str] = "category"

    name: str
    levels: tuple[str, ...]
    default: str | None = None
    importance: float = 1.0
    direction: Direction | None = None

    def __post_init__(self) -> None:
        _check_words(self)
        levels = tuple(self.levels) if isinstance(self.levels, list | tuple) else ()
        if len(levels) < 2 or not all(isinstance(level, str) and level.strip() for level in levels):
            raise InvalidSetting(
                f"The levels of {self.name!r} are {self.levels!r}.", 'List two or more texts, such as "1" and "no".'
            )
        if len(set(levels)) != len(levels):
            raise InvalidSetting(f"The levels of {self.name!r} repeat themselves: {levels}.", "List each level once.")
        if self.default is not None and self.default not in levels:
            raise _bad_default(self, f"one of {levels}")
        _settle(self, levels=levels, importance=_importance(self))

    def columns(self) -> tuple[str, ...]:
        """The names of its encoded columns, one per level."""
        return tuple(f"{self.name}={level}" for level in self.levels)

    def directions(self) -> tuple[float, ...]:
        """From -1 for the first level to +1 for the last, or the other way round; 0 where none is declared."""
        last = len(self.levels) - 1
        return tuple(_SIGNS[self.direction] * (2 * index / last - 1) + 0.0 for index in range(last + 1))

    def encode(self, column: Column, out: Array) -> Counts:
        """Write the encoded columns into out: (n, levels)."""
        codes = read_words(self.name, column, _level_words(self.levels))
        missing = _count_missing(self, codes == MISSING)
        self.fill(codes, out)
        return Counts(missing)

    def code(self, value: Any) -> int:
        """The number of the value's level; MISSING or UNREAD without one."""
        return code_of(value, _level_words(self.levels))

    def fill(self, codes: NDArray[np.intp], out: Array) -> None:
        """Write the codes of values into out: (n, levels)."""
        for level in range(len(self.levels)):
            out[:, level] = codes == level
        if self.default is not None:
            out[:, self.levels.index(self.default)] += codes < 0


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false, also written 1/0, "true"/"false", "yes"/"no" or "1"/"0", in any case."""

    kind: ClassVar[str] = "flag"

    name: str
    default: bool | None = None
    importance: float = 1.0
    direction: Direction | None = None

    def __post_init__(self) -> None:
        _check_words(self)
        if self.default is not None and not isinstance(self.default, bool):
            raise _bad_default(self, "True or False")
        _settle(self, importance=_importance(self))

    def columns(self) -> tuple[str, ...]:
        """The names of its encoded columns."""
        return (self.name,)

    def directions(self) -> tuple[float, ...]:
        """The sign of each column's effect, 0 where none is declared."""
        return (_SIGNS[self.direction],)

    def encode(self, column: Column, out: Array) -> Counts:
        """Write the encoded column into out: (n, 1)."""
        codes = read_words(self.name, column, FLAG_WORDS, lower)
        missing = _count_missing(self, codes == MISSING)
        self.fill(codes, out)
        return Counts(missing)

    def code(self, value: Any) -> int:
        """1 for true and 0 for false; MISSING or UNREAD without either."""
        return code_of(value, FLAG_WORDS, lower)

    def fill(self, codes: NDArray[np.intp], out: Array) -> None:
        """Write the codes of values into out: (n, 1)."""
        out[:, 0] = np.where(codes < 0, float(self.default or False), codes)


Feature: TypeAlias = Number | Category | Flag


@lru_cache(maxsize=256)
def _level_words(levels: tuple[str, ...]) -> Mapping[Any, int]:
    """How each level may be written, with its number."""
    return {word: code for code, level in enumerate(levels) for word in spellings(level)}


def _check_words(feature: Feature) -> None:
    if not isinstance(feature.name, str) or not feature.name.strip():
        raise InvalidSetting(f"A {feature.kind} is named {feature.name!r}.", "Give it a name that is not blank.")
    if feature.direction not in _SIGNS:
        raise InvalidSetting(
            f"The direction of {feature.name!r} is {feature.direction!r}.", 'Give "up" or "down", or leave it out.'
        )


def _real(value: Any) -> float:
    """The value as a float; NaN, which no range holds, for what is not a finite number."""
    number = isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
    return float(value) if number and math.isfinite(value) else math.nan


def _importance(feature: Feature) -> float:
    importance = _real(feature.importance)
    if not importance >= 0:
        raise InvalidImportance(
            f"The importance of {feature.name!r} is {feature.importance!r}.", "Give a finite number of at least 0."
        )
    return importance


def _settle(feature: Feature, **values: object) -> None:
    """Put checked values in their plain form (float, tuple) into a frozen feature."""
    for key, value in values.items():
        object.__setattr__(feature, key, value)


def _bad_default(feature: Feature, meaning: str) -> InvalidSetting:
    return InvalidSetting(f"The default of {feature.name!r} is {feature.default!r}.", f"Give {meaning}, or none.")


def _count_missing(feature: Feature, missing: NDArray[np.bool_]) -> int:
    count = int(np.count_nonzero(missing))
    if count and feature.default is None:
        row, of = int(np.argmax(missing)), f"in {count} of {len(missing)} rows"
        error = InvalidData(
            f"{feature.name!r} is missing {of}, first in row {row} (from 0), and has no default.",
            "Declare a default in the schema, or leave these records out.",
        )
        raise at_spot(error, feature.name, row, f"is missing, as {of}, and has no default.")
    return count
