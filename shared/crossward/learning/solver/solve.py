r"""Minimise F(w) = sum_i loss(z_i.w + o_i) + linear.w + (ridge/2)|w|^2 to a given gradient norm.

Every learner with an exact minimiser, private or not, is such a problem: noise and the pull towards a source are the
linear term, lambda and Delta the ridge. F is ridge-strongly convex, so ||grad F(w)|| <= tolerance puts w within
tolerance/ridge of the minimiser: that is what the release step relies on, and why a solver that stops short raises.

The z_i are not stored: the caller's matrix is read in blocks (`blocked`). To read it few times, the problem is first
solved on every 7th row (of very many rows fewer), copied in single precision (`dense`), that one first on every 7th of
those, and so on. A sample of m rows is solved to a third of its sampling error only, and leaves a start and a Hessian
to the next, whose error of sqrt(d/m) or so is what each further pass multiplies the gradient by (`descent`). From 10^5
records on, five to seven passes over the matrix reach a gradient of 1e-4, and one or two more a solution that no order
of records changes. Rows in an order that makes samples mislead, or digits that single precision lacks, cost passes,
never correctness.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from crossward.errors import InvalidSetting, NotConverged
from crossward.learning.losses import Loss
from crossward.learning.records import Records
from crossward.learning.solver import rounding
from crossward.learning.solver.blocked import Blocked
from crossward.learning.solver.dense import Dense, Sample
from crossward.learning.solver.descent import Curvature, descend
from crossward.learning.workers import Workers, workers
from crossward.privacy.noise import Array

DENSE = 1 << 13
"""Problems of up to this many numbers are held as one array: BLAS does not start threads for them either."""

STRIDE = 7
"""Small enough for a good Hessian, large enough that it costs less than a pass; prime, so that rows written in turn
by 2, 4, 5 or 10 sources are all met."""

SAMPLE_BYTES = 1 << 28
"""A sample takes no more memory than this; of more records it is a thinner one, which may cost a pass."""

ENOUGH_ROWS, ENOUGH_PER_WEIGHT = 1000, 20
"""A sample has at least so many rows: with fewer it is often separable and far from the whole."""

CLOSE = 4e-10
"""So near to the minimiser a solution lies, where rounding lets it: then the order of records makes no difference that
anybody sees. A tolerance may ask for more, never for less."""

_SHARE_OF_ERROR = 0.3


@dataclass(frozen=True, slots=True)
class Solution:
    """A minimiser, a bound on the norm of the exact gradient there, and the passes over all records it took."""

    w: Array
    gradient_norm: float
    passes: int


def minimise(
    records: Records, loss: Loss, linear: Array, ridge: float, tolerance: float, start: Array | None = None
) -> Solution:
    """The minimiser, or NotConverged. A `start` believed to be near it takes the place of the smaller samples."""
    if not (ridge > 0 and tolerance > 0):
        raise InvalidSetting(f"The ridge ({ridge!r}) and the tolerance ({tolerance!r}) must be above 0.")
    goal = min(tolerance, max(CLOSE * ridge, 3 * _rounding(records, loss, linear, ridge, tolerance)))
    with np.errstate(over="ignore", invalid="ignore"):  # a step that overflows is refused by its norm
        if records.n * records.dimension <= DENSE:
            dense = Dense(records, loss, linear, ridge)
            w = np.zeros(records.dimension) if start is None else start
            point = descend(dense, w, goal, newton=True)
            return Solution(point.w, point.norm + dense.rounding(point.w), dense.rows_read // records.n)
        with workers(records.size) as crew:
            near = _start(records, loss, linear, ridge, crew, start)
            whole = Blocked(records, loss, linear, ridge, crew)
            point = descend(whole, near.w, goal, near.curvature)
            passes = math.ceil((whole.rows_read + near.rows_read) / records.n)
            return Solution(point.w, point.norm + whole.rounding(point.w), passes)


def _rounding(records: Records, loss: Loss, linear: Array, ridge: float, tolerance: float) -> float:
    """How far rounding may move the gradient; refused where that takes half the tolerance.

    That is before a record is read, from public numbers and the noise alone: so whether the stop can be certified does
    not depend on the records.
    """
    expected = rounding.before_reading(records, loss, linear, ridge)
    if not expected <= tolerance / 2:
        raise NotConverged(
            f"Rounding alone may move the gradient by {expected:.3g}, more than half the tolerance of {tolerance:.3g}.",
            "Raise the tolerance or lambda; the charge for this release stands.",
        )
    return expected


@dataclass(frozen=True, slots=True)
class _Start:
    """What samples tell of the whole: a point near the minimiser, the curvature there, and the rows that took."""

    w: Array
    curvature: Curvature | None
    rows_read: int


def _start(records: Records, loss: Loss, linear: Array, ridge: float, crew: Workers, start: Array | None) -> _Start:
    """Solve on samples from the smallest on. They are gone before the whole is read."""
    enough = max(ENOUGH_ROWS, ENOUGH_PER_WEIGHT * records.dimension)
    samples: list[Sample] = []
    if records.n // STRIDE >= enough:
        samples.append(Sample.of(records, _stride(records), loss, linear, ridge, crew))
        while start is None and samples[-1].rows // STRIDE >= enough:
            samples.append(samples[-1].thinned(STRIDE))
    w, curvature = np.zeros(records.dimension) if start is None else start, None
    for sample in reversed(samples):
        if start is None:
            w = _roughly(sample, w, curvature)
        curvature = Curvature(sample.hessian(w))
    return _Start(w, curvature, sum(sample.rows_read for sample in samples))


def _stride(records: Records) -> int:
    """STRIDE, or the next number that 2, 3 and 5 do not divide of those whose sample fits."""
    stride = max(STRIDE, -(-4 * records.n * records.dimension // SAMPLE_BYTES))
    while math.gcd(stride, 30) > 1:
        stride += 1
    return stride


def _roughly(sample: Sample, w: Array, curvature: Curvature | None) -> Array:
    try:
        return descend(sample, w, _SHARE_OF_ERROR * sample.sampling_error, curvature).w
    except NotConverged:
        return w  # a poor start for the next problem, which is held to its own tolerance
