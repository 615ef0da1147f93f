"""F from an array of z_i: all of a few records, or a sample of many."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossward.learning.losses import Loss
from crossward.learning.records import Records
from crossward.learning.solver import rounding
from crossward.learning.solver.objective import gram
from crossward.learning.workers import ALONE, Workers, is_threaded
from crossward.privacy.noise import Array


class _Held:
    """F from an array Z of records with `offsets`, ||z_i|| <= reach. `weight` makes some of them stand for all."""

    def __init__(
        self,
        Z: NDArray[Any],
        offsets: Array | float,
        loss: Loss,
        linear: Array,
        ridge: float,
        reach: float,
        weight: float = 1.0,
        crew: Workers = ALONE,
    ) -> None:
        self._Z, self._offsets, self._reach, self._weight = Z, np.asarray(offsets, Z.dtype), reach, weight
        self._loss, self._linear, self._ridge, self._crew = loss, linear, ridge, crew
        self.rows_read = 0

    def gradient(self, w: Array) -> Array:
        """grad F(w)."""
        slope = self._loss.slope
        return self._sum(w, lambda Z, margins: slope(margins) @ Z) + self._linear + self._ridge * w

    def hessian(self, w: Array) -> Array:
        """The second derivative of F at w."""
        bend = self._loss.bend
        hessian = self._sum(w, lambda Z, margins: gram(Z, np.sqrt(bend(margins))))
        hessian.flat[:: len(w) + 1] += self._ridge
        return hessian

    def along(self, w: Array, step: Array) -> Callable[[float], float]:
        """The derivative of F(w + t step) in t."""
        margins, change = self._change(w) + self._offsets, self._change(step)
        rest, bend = float((self._linear + self._ridge * w) @ step), self._ridge * float(step @ step)
        return lambda t: self._weight * float(self._loss.slope(margins + t * change) @ change) + rest + t * bend

    def _sum(self, w: Array, term: Callable[[NDArray[Any], Array], Array]) -> Array:
        """weight * sum_i term(z_i, margin_i at w), the crew sharing the rows."""
        u, count = w.astype(self._Z.dtype, copy=False), self._crew.count
        self.rows_read += len(self._Z)
        if count == 1 or not is_threaded(self._Z.nbytes):
            return self._weight * term(self._Z, self._Z @ u + self._offsets)
        rows, parts = -(-len(self._Z) // count), [np.zeros(())] * count

        def work(index: int) -> None:
            here = slice(index * rows, (index + 1) * rows)
            Z, offsets = self._Z[here], self._offsets[here] if self._offsets.ndim else self._offsets
            parts[index] = term(Z, Z @ u + offsets)

        self._crew.run(work, count)
        total: Array = self._weight * np.sum(parts, axis=0)
        return total

    def _change(self, step: Array) -> Array:
        """By how much a step changes the margins."""
        self.rows_read += len(self._Z)
        change: Array = self._Z @ step.astype(self._Z.dtype, copy=False)
        return change


class Dense(_Held):
    """F from all records."""

    def __init__(self, records: Records, loss: Loss, linear: Array, ridge: float) -> None:
        super().__init__(records.dense(), records.offsets(), loss, linear, ridge, records.reach)
        self._offset = records.offset

    def rounding(self, w: Array) -> float:
        """A bound on the rounding error of `gradient(w)`."""
        n, curvature = len(self._Z), self._loss.curvature
        return rounding.of_gradient(n, n, self._reach, curvature, self._linear, self._ridge, w, self._offset)


class Sample(_Held):
    """F as some of the records tell it, in single precision. Only effort depends on it, so it certifies nothing."""

    @classmethod
    def of(cls, records: Records, stride: int, loss: Loss, linear: Array, ridge: float, crew: Workers) -> Sample:
        """F from every stride-th record."""
        Z = records.single(crew, stride)
        weight = records.n / len(Z)
        return cls(Z, records.offsets(slice(None, None, stride)), loss, linear, ridge, records.reach, weight, crew)

    def thinned(self, stride: int) -> Sample:
        """The same problem on every stride-th of these, without a copy."""
        Z, offsets = self._Z[::stride], self._offsets[::stride] if self._offsets.ndim else self._offsets
        weight = self._weight * self.rows / len(Z)
        return Sample(Z, offsets, self._loss, self._linear, self._ridge, self._reach, weight, self._crew)

    @property
    def rows(self) -> int:
        """How many rows one pass reads."""
        return len(self._Z)

    @property
    def sampling_error(self) -> float:
        """About how far sampling these rows moves the gradient of the whole: n/sqrt(m) times a typical |slope| ||z||.

        Slopes are about 1/3 on average; only the effort spent on a sample depends on this guess.
        """
        return self._weight * math.sqrt(self.rows) * self._reach / 3

    def rounding(self, w: Array) -> float:
        """None that matters."""
        return 0.0
