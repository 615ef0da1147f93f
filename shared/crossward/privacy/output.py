"""The last step of a release: noise that hides how the computer rounded, and a public grid.

The guarantee of objective perturbation is for the exact minimiser w*. A solver returns some w with ||w - w*|| <= r,
where r is fixed in advance by the tolerance: on two neighbouring data sets the two errors differ by at most 2r. Noise
with density proportional to exp(-eps_out ||z|| / (2r)) pays for that difference, whatever the solver did inside its
tolerance. Rounding to a fixed grid afterwards is free and leaves no low-order bits to read.
Proof: docs/proofs/release-step.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from crossward.errors import InvalidSetting, NotConverged
from crossward.privacy.budget import check_epsilon, is_number
from crossward.privacy.noise import Array, Randomness

MOST_STEPS = 2**52
"""Below this many steps of the grid, floating-point numbers are at least as fine as the grid."""

FINEST, COARSEST = -900, 900
"""The exponents that a grid may have: with them every weight on it is an exact floating-point number."""


def power_of_two_below(value: float) -> float:
    """The largest power of two that is at most `value`."""
    return math.ldexp(1.0, math.frexp(value)[1] - 1)


def grid_for(scale: float) -> float:
    """The grid for noise of this scale: 2^8 steps to the scale loses no accuracy, and is still 2^40 times coarser than
    the spacing of floating-point numbers of that size."""
    if not 2.0 ** (FINEST + 8) <= scale < 2.0**COARSEST:
        raise InvalidSetting(f"Noise of the scale {scale:.3g} has no grid.", "Choose less extreme settings.")
    return power_of_two_below(scale) * 2.0**-8


def on_own_grid(w: Array) -> Array:
    """w to 40 bits of its largest number: for what is computed from releases alone, and so hides nothing."""
    largest = float(np.max(np.abs(w), initial=0.0))
    if not 2.0 ** (FINEST + 40) <= largest < 2.0**COARSEST:
        largest = 1.0  # all but zero, or refused by the next line
    return on_grid(w, power_of_two_below(largest) * 2.0**-40)


def common_grid(w: Array) -> float:
    """The coarsest grid on which all of w lies; 1 for zeros."""
    lowest = [math.ldexp(1.0, math.frexp(weight)[1] - 53) for weight in w.tolist() if weight]
    grid = min(lowest, default=1.0)
    steps = [abs(int(weight / grid)) for weight in w.tolist()] if lowest else []
    return grid * min((step & -step for step in steps if step), default=1)


def on_grid(w: Array, grid: float) -> Array:
    """w rounded to multiples of the grid. Refuses what is not finite, or so large that its spacing passes the grid:
    no solver can have placed such a w within its tolerance."""
    with np.errstate(over="ignore"):
        steps = w / grid
    if not np.all(np.abs(steps) < MOST_STEPS):
        raise NotConverged(
            "The model to be released is not finite, or too large for its grid.", "Raise lambda or the record count."
        )
    return np.asarray(np.rint(steps) * grid + 0.0)


@dataclass(frozen=True, slots=True)
class OutputStep:
    """Noise of the given scale on the output, then rounding to the grid."""

    scale: float
    grid: float

    @classmethod
    def hiding(cls, distance: float, epsilon: float) -> OutputStep:
        """Pay `epsilon` for outputs that may lie `distance` apart."""
        if not (is_number(distance) and distance > 0):
            raise InvalidSetting(f"The distance to hide must be above 0, not {distance!r}.", "Give the sensitivity.")
        scale = distance / check_epsilon(epsilon)
        return cls(scale, grid_for(scale))

    def publish(self, w: Array, randomness: Randomness) -> Array:
        """w plus noise, on the grid."""
        return on_grid(w + randomness.in_all_directions(len(w), self.scale), self.grid)
