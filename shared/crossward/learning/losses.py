"""Losses of a margin m = y w.x: what each costs, its slope and its bend.

A loss here is convex with |slope| <= 1 and 0 <= bend <= curvature: the two numbers that privacy needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from crossward.errors import InvalidSetting
from crossward.privacy.noise import Array


class Loss(Protocol):
    """A convex loss of the margin with slope in [-1, 0] and second derivative in [0, curvature]."""

    @property
    def name(self) -> str:
        """How releases name it."""
        ...

    @property
    def curvature(self) -> float:
        """The largest second derivative."""
        ...

    def value(self, m: Array) -> Array:
        """loss(m)."""
        ...

    def slope(self, m: Array, out: Array | None = None) -> Array:
        """loss'(m), into `out` where it is given (it may be m itself)."""
        ...

    def bend(self, m: Array) -> Array:
        """loss''(m), the value from the right where it jumps."""
        ...


@dataclass(frozen=True, slots=True)
class Logistic:
    """log(1 + exp(-m)): slope -1/(1 + exp(m)), bend at most 1/4."""

    name: ClassVar[str] = "logistic"
    curvature: ClassVar[float] = 0.25

    def value(self, m: Array) -> Array:
        """log(1 + exp(-m)) without overflow."""
        return np.maximum(-m, 0.0) + np.log1p(np.exp(-np.abs(m)))

    def slope(self, m: Array, out: Array | None = None) -> Array:
        """-1/(1 + exp(m))."""
        out = np.minimum(m, 709.0, out=out)
        np.exp(out, out=out)
        out += 1.0
        return np.divide(-1.0, out, out=out)

    def bend(self, m: Array) -> Array:
        """s (1 - s) with s = -slope."""
        s = self.slope(m)
        return -s * (1.0 + s)


@dataclass(frozen=True, slots=True)
class Huber:
    """The smoothed hinge of Chaudhuri et al. (2011) with half-width h.

    0 above 1 + h, (1 + h - m)^2 / (4h) within h of 1, and 1 - m below 1 - h. Bend 1/(2h).
    """

    h: float = 0.5

    def __post_init__(self) -> None:
        if not (np.isfinite(self.h) and self.h > 0):
            raise InvalidSetting(f"Huber's constant must be a finite number above 0, not {self.h!r}.", "Try 0.5.")

    @property
    def name(self) -> str:
        """How releases name it."""
        return f"huber({self.h:g})"

    @property
    def curvature(self) -> float:
        """1/(2h)."""
        return 1.0 / (2.0 * self.h)

    def value(self, m: Array) -> Array:
        """The three pieces, from one clipped variable: t^2/(4h) + (the linear rest)."""
        t = np.clip(1.0 + self.h - m, 0.0, 2.0 * self.h)
        return t * t / (4.0 * self.h) + np.maximum(1.0 - self.h - m, 0.0)

    def slope(self, m: Array, out: Array | None = None) -> Array:
        """-t/(2h)."""
        out = np.subtract(1.0 + self.h, m, out=out)
        np.clip(out, 0.0, 2.0 * self.h, out=out)
        return np.divide(out, -2.0 * self.h, out=out)

    def bend(self, m: Array) -> Array:
        """1/(2h) within h of 1, else 0."""
        return np.where(np.abs(1.0 - m) <= self.h, self.curvature, 0.0)


LOGISTIC = Logistic()
