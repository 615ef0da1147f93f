"""F by passes over the caller's matrix."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from crossward.learning.losses import Loss
from crossward.learning.records import Records
from crossward.learning.solver import rounding
from crossward.learning.solver.objective import gram
from crossward.learning.workers import Workers
from crossward.privacy.noise import Array

HELD_BYTES = 1 << 28
"""A line search holds two numbers per record in up to so much memory. With more records it reads them at each try."""


class Blocked:
    """F by passes over blocks of rows, which `crew` shares."""

    def __init__(self, records: Records, loss: Loss, linear: Array, ridge: float, crew: Workers) -> None:
        self._records, self._loss, self._crew = records, loss, crew
        self._linear, self._ridge = linear, ridge
        self.rows_read = 0

    def gradient(self, w: Array) -> Array:
        """grad F(w); each block is read from memory once and from cache once."""
        records, slope = self._records, self._loss.slope
        parts = np.empty((records.dimension, records.block_count))  # sums along the last axis are pairwise
        margins_of, width, intercept = self._margins_at(w), records.width, records.constant > 0

        def work(index: int) -> None:
            X, scale, slopes = margins_of(index)
            slope(slopes, slopes)
            slopes *= scale
            parts[:width, index] = slopes @ X
            if intercept:
                parts[-1, index] = slopes.sum()

        self.rows_read += records.n
        self._crew.run(work, parts.shape[1])
        gradient: Array = parts.sum(axis=1)
        gradient *= self._column_factors()
        gradient += self._linear
        gradient += self._ridge * w
        return gradient

    def hessian(self, w: Array) -> Array:
        """The second derivative of F at w: sum_i v_i [x_i, 1][x_i, 1]' with v_i = row_scale_i^2 bend_i, then scaled."""
        records, crew = self._records, self._crew
        parts = np.zeros((crew.count, records.dimension, records.dimension))
        margins_of, width, intercept = self._margins_at(w), records.width, records.constant > 0

        def work(worker: int) -> None:
            part = parts[worker]
            for index in range(worker, records.block_count, crew.count):
                X, scale, margins = margins_of(index)
                roots = np.sqrt(self._loss.bend(margins))
                roots *= scale
                part[:width, :width] += gram(X, roots)
                if intercept:
                    roots *= roots
                    part[-1, :width] += roots @ X
                    part[-1, -1] += roots.sum()

        self.rows_read += records.n
        crew.run(work, crew.count)
        hessian: Array = parts.sum(axis=0)
        if intercept:
            hessian[:width, -1] = hessian[-1, :width]
        factors = self._column_factors()
        hessian *= factors[:, None] * factors
        hessian.flat[:: len(w) + 1] += self._ridge
        return hessian

    def along(self, w: Array, step: Array) -> Callable[[float], float]:
        """The derivative of F(w + t step) in t, from z_i.w and z_i.step for all i."""
        records, loss = self._records, self._loss
        if 16 * records.n > HELD_BYTES:
            return self._along_by_passes(w, step)
        self.rows_read += 2 * records.n
        margins, change = records.margins(w, self._crew), records.margins(step, self._crew)
        margins += records.offsets()
        rest, bend = float((self._linear + self._ridge * w) @ step), self._ridge * float(step @ step)

        def derivative(t: float) -> float:
            parts = np.empty(records.block_count)

            def work(index: int) -> None:
                here = records.span(index)
                parts[index] = loss.slope(margins[here] + t * change[here]) @ change[here]

            self._crew.run(work, len(parts))
            return float(parts.sum()) + rest + t * bend

        return derivative

    def _along_by_passes(self, w: Array, step: Array) -> Callable[[float], float]:
        """The same, each time with a pass over the records: what is held does not grow with them."""
        records, loss = self._records, self._loss
        rest, bend = float((self._linear + self._ridge * w) @ step), self._ridge * float(step @ step)
        margins_of, (u, shift) = self._margins_at(w), records.direction(step)

        def derivative(t: float) -> float:
            parts = np.empty(records.block_count)

            def work(index: int) -> None:
                X, scale, margins = margins_of(index)
                change = (X @ u + shift) * scale
                parts[index] = loss.slope(margins + t * change) @ change

            self.rows_read += records.n
            self._crew.run(work, len(parts))
            return float(parts.sum()) + rest + t * bend

        return derivative

    def rounding(self, w: Array) -> float:
        """A bound on the rounding error of `gradient(w)`."""
        records, curvature = self._records, self._loss.curvature
        n, rows, reach, offset = records.n, records.block_rows, records.reach, records.offset
        return rounding.of_gradient(n, rows, reach, curvature, self._linear, self._ridge, w, offset)

    def _margins_at(self, w: Array) -> Callable[[int], tuple[Array, Array, Array]]:
        """The rows, row scales and margins of a block. Threads take turns in Python, so it has little to do there."""
        (u, shift), block, offset = self._records.direction(w), self._records.block, self._records.offset

        def margins_of(index: int) -> tuple[Array, Array, Array]:
            X, scale = block(index)
            margins = X @ u
            if shift:
                margins += shift
            margins *= scale
            if offset:
                margins += np.sign(scale) * offset
            return X, scale, margins

        return margins_of

    def _column_factors(self) -> Array:
        records = self._records
        factors = np.ones(records.dimension) if records.column_scale is None else np.empty(records.dimension)
        if records.column_scale is not None:
            factors[: records.width] = records.column_scale
        if records.constant > 0:
            factors[-1] = records.constant
        return factors
