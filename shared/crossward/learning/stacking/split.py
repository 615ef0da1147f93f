"""Which records train level-0 and which level-1: decided by a public count and chance, never by what is in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crossward.errors import InvalidSetting, TooFewRecords, WrongShape
from crossward.privacy.noise import Randomness

LEVEL1_SHARE = 0.25
"""A level-1 model has few weights to learn. The papers use 0.5."""


@dataclass(frozen=True, slots=True)
class Split:
    """The rows of each level, disjoint."""

    level0: NDArray[np.intp]
    level1: NDArray[np.intp]


def level1_count(n: int, share: float) -> int:
    """How many of n records go to level-1."""
    if not 0 < share < 1:
        raise InvalidSetting(f"level1_share must lie between 0 and 1, not {share!r}.", f"Try {LEVEL1_SHARE}.")
    count = round(n * share)
    if not 0 < count < n:
        raise TooFewRecords(f"{n} records cannot be split between level-0 and level-1.", "Bring more records.")
    return count


def split(n: int, share: float, randomness: Randomness) -> Split:
    """A uniformly random split."""
    order = randomness.permutation(n)
    cut = n - level1_count(n, share)
    return Split(np.sort(order[:cut]), np.sort(order[cut:]))


def given_split(n: int, level1: NDArray[np.bool_]) -> Split:
    """A split that was fixed beforehand, for instance by a data set's permanent cells."""
    if level1.shape != (n,) or level1.dtype != np.bool_:
        raise WrongShape(f"level1 must be {n} booleans, not {level1.dtype} of shape {level1.shape}.")
    if not 0 < np.count_nonzero(level1) < n:
        raise TooFewRecords("One of the two levels has no records.", "Give both levels records.")
    return Split(np.flatnonzero(~level1), np.flatnonzero(level1))
