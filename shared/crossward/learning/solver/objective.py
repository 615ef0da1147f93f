r"""F(w) = weight * sum_i loss(z_i.w + o_i) + linear.w + (ridge/2)|w|^2: its gradient, Hessian, and slope along a ray.

Three ways to compute the same sums. `Dense` holds all z_i in one small array: fewest calls, for problems so small that
calls are what costs. `Blocked` reads the caller's matrix in blocks that stay in cache, so one pass over memory serves
both products of a gradient, and stores d numbers per block. `Sample` holds some z_i in single precision: half the
memory and half the time, for a start and a Hessian that need no more digits than sampling leaves them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crossward.privacy.noise import Array

_PRODUCT_ROWS = 1024
"""Rows scaled at a time for a product of matrices: fast from here on, and little room."""


class Objective(Protocol):
    """What a descent needs of F."""

    @property
    def rows_read(self) -> int:
        """How many rows were read so far, a row that was read twice counted twice."""
        ...

    def gradient(self, w: Array) -> Array:
        """grad F(w)."""
        ...

    def hessian(self, w: Array) -> Array:
        """The second derivative of F at w, (d, d)."""
        ...

    def along(self, w: Array, step: Array) -> Callable[[float], float]:
        """The derivative of F(w + t step) in t, as a function of t that reads no rows unless they are very many."""
        ...

    def rounding(self, w: Array) -> float:
        """A bound on the rounding error of `gradient(w)`, in norm."""
        ...


def gram(X: NDArray[Any], roots: NDArray[Any]) -> Array:
    """sum_i roots_i^2 x_i x_i'."""
    total = np.zeros((X.shape[1], X.shape[1]))
    room = np.empty((min(len(X), _PRODUCT_ROWS), X.shape[1]), X.dtype)
    for first in range(0, len(X), _PRODUCT_ROWS):
        few = roots[first : first + _PRODUCT_ROWS, None]
        scaled = np.multiply(X[first : first + _PRODUCT_ROWS], few, out=room[: len(few)])
        total += scaled.T @ scaled
    return total
