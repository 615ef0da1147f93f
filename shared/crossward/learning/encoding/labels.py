"""Labels: the positive class is +1, the other -1."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from crossward.errors import EmptyData, InvalidData, InvalidSetting
from crossward.learning.encoding.tables import as_column
from crossward.learning.encoding.values import (
    FLAG_WORDS,
    MISSING,
    code_of,
    is_missing,
    lower,
    read_words,
    spellings,
)
from crossward.privacy.noise import Array

Value: TypeAlias = bool | int | float | str

LARGEST = 2**53  # beyond it floats no longer tell whole numbers apart
_ELSE = object()


def encode_labels(values: Any, positive: Value = True, negative: Value | None = None) -> Array:
    """+1 where a value is `positive`, -1 where it is `negative`.

    A positive of True or False reads the values as a flag. Otherwise, without a `negative`, whatever is not positive
    counts as negative. A missing label is always an error: there is no harmless default for what is to be learned.
    """
    words, spell = _words(positive, negative)
    column = as_column(values, "label")
    if len(column) == 0:
        raise EmptyData("There are no labels.", "Give one per record.")
    codes = read_words("label", column, words, spell)
    missing = codes == MISSING
    if np.any(missing):
        raise InvalidData(
            f"The label is missing in {np.count_nonzero(missing)} rows, first in row {np.argmax(missing)} (from 0).",
            "Leave records without a label out.",
        )
    return np.where(codes == 1, 1.0, -1.0)


def label_codes(positive: Value = True, negative: Value | None = None) -> Callable[[Any], int]:
    """What tells a value's class: 1 positive, 0 negative, MISSING or UNREAD. It raises for no value."""
    words, spell = _words(positive, negative)
    return lambda value: code_of(value, words, spell)


def _words(positive: Value, negative: Value | None) -> tuple[dict[Any, int], Callable[[Any], Any]]:
    """How each class may be written (1: positive), and what to make of any other value."""
    if isinstance(positive, bool) and (negative is None or negative is (not positive)):
        return {word: int(code == positive) for word, code in FLAG_WORDS.items()}, lower
    words = dict.fromkeys(_spellings(positive), 1)
    if negative is None:
        return words | {_ELSE: 0}, lambda _: _ELSE
    rest = dict.fromkeys(_spellings(negative), 0)
    if words.keys() & rest.keys():
        raise InvalidSetting(f"{positive!r} is both the positive and the negative label.", "Name two values.")
    return words | rest, lambda value: value


def _spellings(value: Value) -> tuple[Any, ...]:
    """A whole number and its text stand for one another, as for the levels of a category."""
    if is_missing(value):
        raise InvalidSetting(f"A label cannot be {value!r}.", "Name the value that marks the class.")
    if isinstance(value, str):
        return spellings(value)
    if isinstance(value, int) and abs(value) > LARGEST:
        raise InvalidSetting("A label is a number of too many digits.", "Write it as a text, in quotes.")
    return (value, str(int(value))) if math.isfinite(value) and value == int(value) else (value,)
