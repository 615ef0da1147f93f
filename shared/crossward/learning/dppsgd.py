r"""DPPSGD: permutation-based stochastic gradient descent, noise on the output (003; Wu et al. 2017, strongly convex).

    F(w) = C/m sum_i loss(y_i w.x_i) + (lambda/2)|w|^2,   ||x_i|| <= q,   beta = C c q^2 + lambda

The records are permuted once and cut into T equal batches of b (the remainder is dropped before the first pass). Batch
t = 1, 2, ..., over all passes, takes a step of eta_t = min(1/beta, 1/(lambda t)) and projects *down* to ||w|| <= R.
One replaced record moves the result by at most **2Cq/(lambda m)**, m = bT, whatever the batch size: a batch of b
divides the record's gradient by b but there are b times fewer steps to forget it. So w + noise of density
proportional to exp(-eps ||z|| / (2Cq/(lambda m))) is eps-private. Proof: docs/proofs/dppsgd.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crossward.errors import InvalidSetting
from crossward.learning.checks import check_and_charge
from crossward.learning.losses import LOGISTIC, Loss
from crossward.learning.model import LinearModel, ReleasedModel
from crossward.learning.records import Ball, Labels, Records
from crossward.learning.stored import Rows, StoredRows
from crossward.learning.workers import BLOCK_BYTES
from crossward.privacy.budget import Epsilon, NonPrivate, check_epsilon
from crossward.privacy.calibration import check_lambda, check_records
from crossward.privacy.filters import Accountant
from crossward.privacy.mechanisms import NoisyDescent
from crossward.privacy.noise import SYSTEM, Array, Randomness
from crossward.privacy.output import OutputStep


@dataclass(frozen=True, slots=True)
class DPPSGD:
    """Private SGD. Every setting is public.

    `weight` is C. `projection` is R; by default C/lambda, which the minimiser never exceeds.
    """

    ball: Ball
    lam: float
    epsilon: Epsilon
    weight: float = 1.0
    passes: int = 10
    batch: int = 50
    projection: float | None = None
    loss: Loss = LOGISTIC

    def __post_init__(self) -> None:
        check_lambda(self.lam)
        if not isinstance(self.epsilon, NonPrivate):
            check_epsilon(self.epsilon)
        for name, value in (("weight", self.weight), ("projection", self.radius)):
            if not (math.isfinite(value) and value > 0):
                raise InvalidSetting(f"{name} must be a finite number above 0, not {value!r}.")
        for name, count in (("passes", self.passes), ("batch", self.batch)):
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise InvalidSetting(f"{name} must be a whole number of at least 1, not {count!r}.")

    @property
    def radius(self) -> float:
        """R, the ball that the weights are projected to."""
        return self.weight * self.ball.q / self.lam if self.projection is None else self.projection

    def batches(self, n: int) -> tuple[int, int]:
        """The batch size and the number of equal batches in a pass over n records."""
        size = min(self.batch, n)
        return size, n // size

    def sensitivity(self, n: int) -> float:
        """2 C q / (lambda m), and room for floating-point error in every step (for up to 8192 features)."""
        size, count = self.batches(n)
        longest = self.weight * self.ball.q / self.lam
        rounding = 2.0**-50 * (self.passes * count * self.radius + (size + 8192) * longest)
        return 2 * longest / (size * count) + rounding

    def release(self, n: int, features: int) -> NoisyDescent:
        """What `fit` on n records will release."""
        size, count = self.batches(n)
        twin = isinstance(self.epsilon, NonPrivate)
        if not isinstance(self.epsilon, NonPrivate):
            check_records(n, self.epsilon)
        return NoisyDescent(
            epsilon=math.inf if isinstance(self.epsilon, NonPrivate) else self.epsilon,
            n=n,
            ball=self.ball.describe(),
            dimension=self.ball.dimension(features),
            loss=self.loss.name,
            lam=self.lam,
            weight=self.weight,
            passes=self.passes,
            batch=size,
            batches=count,
            projection=self.radius,
            sensitivity=None if twin else self.sensitivity(n),
            grid=None if twin else self._output_step(n).grid,
        )

    def _output_step(self, n: int) -> OutputStep:
        """The noise that hides one record's part in the weights."""
        if isinstance(self.epsilon, NonPrivate):
            raise InvalidSetting("A non-private twin adds no noise.")
        return OutputStep.hiding(self.sensitivity(n), self.epsilon)

    def fit(
        self,
        X: Rows,
        y: Labels,
        *,
        randomness: Randomness = SYSTEM,
        accountant: Accountant | None = None,
    ) -> ReleasedModel:
        """Check, charge, permute, descend, add noise. `y` is -1 or +1."""
        X, labels, release = check_and_charge(self, X, y, randomness, accountant)
        return ReleasedModel(self.train(X, labels, randomness), release)

    def train(self, X: Rows, labels: Labels, randomness: Randomness) -> LinearModel:
        """Permute, descend, add noise. The caller has checked the records and charged for the release."""
        n, features = X.shape
        order = randomness.permutation(n)
        if isinstance(X, StoredRows):  # put in order once: single rows are slow to fetch from a disk, in each pass
            w = self.descend(Records.inside(self.ball, X.take(order), labels[order]), range(n))
        else:
            w = self.descend(Records.inside(self.ball, X, labels), order)
        if not isinstance(self.epsilon, NonPrivate):
            w = self._output_step(n).publish(w, randomness)
        return LinearModel(self.ball, w, features)

    def descend(self, records: Records, order: NDArray[np.intp] | range) -> Array:
        """The weights before noise, for records visited in this order. Batches are fetched several at a time."""
        size, count = self.batches(records.n)
        beta = self.weight * self.loss.curvature * self.ball.q**2 + self.lam
        w = np.zeros(records.dimension)
        together = max(1, BLOCK_BYTES // (8 * records.dimension * size))
        Z, offsets = np.empty((0, records.dimension)), np.zeros(0)
        for t in range(self.passes * count):
            batch = t % count
            if batch % together == 0:
                some = order[batch * size : min(batch + together, count) * size]
                Z, offsets = records.rows(some), np.broadcast_to(records.offsets(some), len(some))
            here = slice(batch % together * size, (batch % together + 1) * size)
            slopes = self.loss.slope(Z[here] @ w + offsets[here])
            gradient = self.weight / size * (slopes @ Z[here]) + self.lam * w
            w = self._down(w - min(1 / beta, 1 / (self.lam * (t + 1))) * gradient)
        return w

    def _down(self, w: Array) -> Array:
        norm = float(np.linalg.norm(w))
        return w if norm <= self.radius else self.radius / norm * w
