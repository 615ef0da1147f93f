"""Planted faults: mechanisms of the catalogue with one thing wrong, which the audit must notice.

Each is a mistake somebody has made or could make, most of them from the papers or from public code. A mutant that is
missed means that the audit cannot see that kind of fault, and the audit fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from crossward.learning.dppsgd import DPPSGD
from crossward.learning.losses import Loss
from crossward.learning.plr import PLRFS, Group
from crossward.learning.records import Ball, Records
from crossward.privacy.noise import Array
from crossward_lab.audit import choice, distances, sampled
from crossward_lab.audit.densities import Encode, Law
from crossward_lab.audit.mechanisms import HUBER, one_ball, three_balls
from crossward_lab.audit.objective import (
    Subject,
    calibration_of,
    encoding_of,
    exact,
    noise_law,
    of_norm,
    subject_of,
    unscaled,
)
from crossward_lab.audit.report import Audit


def _with_laws(subject: Subject, change: Callable[[Law], Law]) -> Subject:
    laws = tuple(change(law) for law in subject.scenario.laws)
    return replace(subject, scenario=replace(subject.scenario, laws=laws))


def _with_encoding(subject: Subject, encode: Encode) -> Subject:
    return replace(subject, scenario=replace(subject.scenario, encode=encode))


def no_delta(n: int, features: int) -> Subject:
    """Delta is left out where it is needed."""
    learner = one_ball(lam=0.01, epsilon=0.5)
    return _with_laws(subject_of(learner, n, features), lambda law: replace(law, ridge=np.full(2, n * 0.01)))


def epsilon_for_epsilon_prime(learner: PLRFS, n: int, features: int) -> Subject:
    """002 Alg. 3 step 6: the noise is calibrated to eps, and nothing pays for the change of variables."""
    rate = calibration_of(learner, n).epsilon / 2
    return _with_laws(subject_of(learner, n, features), lambda law: replace(law, rate=rate))


def half_a_logarithm(learner: PLRFS, n: int, features: int) -> Subject:
    """The Jacobian paid for with half a logarithm per group, where one is needed."""
    calibration = calibration_of(learner, n)
    rate = (calibration.epsilon + calibration.epsilon_prime) / 4
    return _with_laws(subject_of(learner, n, features), lambda law: replace(law, rate=rate))


def offset_from_data(n: int, features: int) -> Subject:
    """An offset taken from the records' own labels: replacing one moves the margins of all the others."""
    learner = one_ball(loss=HUBER, lam=2.0)
    inside = encoding_of(learner)

    def encode(X: Array, y: Array) -> list[Array]:
        odds = 2 * y.mean(axis=1)[:, None, None]
        return [np.concatenate([Z, y[:, :, None] * odds], axis=2) for Z in inside(X, y)]

    return _with_encoding(subject_of(learner, n, features), encode)


def halved_noise(n: int, features: int) -> Subject:
    """Noise with density exp(-eps' ||b||): half as long as it should be."""
    subject = subject_of(one_ball(loss=HUBER, lam=2.0), n, features)
    return _with_laws(subject, lambda law: replace(law, rate=2 * law.rate))


def unregularised_intercept(n: int, features: int) -> Subject:
    """A column of ones beside the ball, noised but not regularised."""
    subject = _with_encoding(subject_of(one_ball(intercept=0.5), n, features), of_norm(1.0, intercept=True))
    return _with_laws(subject, lambda law: replace(law, ridge=np.append(law.ridge[:-1], 0.0)))


def intercept_outside(n: int, features: int) -> Subject:
    """A column of ones beside the ball: regularised, but the record's norm is now the square root of two."""
    subject = subject_of(one_ball(intercept=0.5, loss=HUBER, lam=5.0), n, features)
    return _with_encoding(subject, of_norm(1.0, intercept=True))


def scaled_outside(n: int, features: int) -> Subject:
    """Columns scaled by their importance after the record was brought inside the ball, not before."""
    learner = one_ball()
    inside = encoding_of(learner)
    scale = np.array([3.0, 1.0])
    return _with_encoding(subject_of(learner, n, features), lambda X, y: [scale * Z for Z in inside(X, y)])


def largest_norm(n: int, features: int) -> Subject:
    """Records divided by the largest norm in the data: replacing one record moves all the others."""

    def encode(X: Array, y: Array) -> list[Array]:
        norms = np.linalg.norm(X, axis=2).max(axis=1)[:, None, None]
        return [y[:, :, None] * X / np.maximum(norms, 1e-12)]

    return _with_encoding(subject_of(one_ball(loss=HUBER, lam=2.0), n, features), encode)


def together(learners: list[PLRFS], n: int, features: int) -> Subject:
    """Models that each cost an epsilon, released together as if that cost one."""
    subjects = [subject_of(learner, n, features) for learner in learners]
    first = subjects[0]
    scenario = replace(
        first.scenario,
        laws=tuple(law for s in subjects for law in s.scenario.laws),
        columns=tuple(columns for s in subjects for columns in s.scenario.columns),
        encode=lambda X, y: [Z for s in subjects for Z in s.scenario.encode(X, y)],
    )
    return Subject(scenario, first.claimed, sum(s.output_loss for s in subjects))


def epsilon_per_group(n: int, features: int) -> Subject:
    """001 Alg. 4: a PLR at the full epsilon for each group of features."""
    balls = [Ball(1.0, columns=columns) for columns in ((0,), (1,), (2,))]
    return together([PLRFS((Group(ball, 0.5),), 2.0, HUBER) for ball in balls], n, features)


def overlapping_parts(n: int, features: int) -> Subject:
    """PST-S whose parts are not disjoint: every model sees the replaced record."""
    return together([one_ball(loss=HUBER), one_ball(loss=HUBER)], n, features)


def radii_beyond_one(n: int, features: int) -> Subject:
    """PLR-FS calibrated for radii that sum to one, on groups that each fill the unit ball."""
    learner = three_balls(pulled=9.0)
    whole = [replace(group.ball, q=1.0) for group in learner.groups]

    def encode(X: Array, y: Array) -> list[Array]:
        rows = X.reshape(-1, X.shape[2])
        return [y[:, :, None] * ball.place(rows).reshape(*y.shape, -1) for ball in whole]

    return _with_encoding(subject_of(learner, n, features), encode)


@dataclass(frozen=True, slots=True)
class PulledToMean:
    """A loss and a pull towards the records' own mean: lambda z.w per record, which nothing pays for."""

    loss: Loss
    lam: float

    def slope(self, m: Array) -> Array:
        """The slope, lambda steeper."""
        return self.loss.slope(m) - self.lam

    def bend(self, m: Array) -> Array:
        """The pull is linear and adds no bend."""
        return self.loss.bend(m)


def pulled_to_mean(n: int, features: int) -> Subject:
    """Regularised towards a statistic of the private records instead of a public point."""
    subject = subject_of(one_ball(loss=HUBER, lam=2.0), n, features)
    return _with_laws(subject, lambda law: replace(law, loss=PulledToMean(HUBER, 2.0)))


@dataclass(frozen=True, slots=True)
class DividedByBatch(DPPSGD):
    """003: the sensitivity falls with the batch size."""

    def sensitivity(self, n: int) -> float:
        """Too small by the batch size."""
        return DPPSGD.sensitivity(self, n) / self.batches(n)[0]


@dataclass(frozen=True, slots=True)
class ScaledUp(DPPSGD):
    """003: before the noise, the weights are scaled to norm R even where they are shorter."""

    def descend(self, records: Records, order: NDArray[np.intp] | range) -> Array:
        """The weights, on the sphere."""
        w = DPPSGD.descend(self, records, order)
        return w * (self.radius / max(float(np.linalg.norm(w)), 1e-12))


@dataclass(frozen=True, slots=True)
class UnequalLastBatch(DPPSGD):
    """The remainder of a pass is a batch too: one of few records, each of which weighs more."""

    def descend(self, records: Records, order: NDArray[np.intp] | range) -> Array:
        """As DPPSGD, without dropping the remainder."""
        size = min(self.batch, records.n)
        count = math.ceil(records.n / size)
        beta = self.weight * self.loss.curvature * self.ball.q**2 + self.lam
        w = np.zeros(records.dimension)
        dense = records.dense()
        for t in range(self.passes * count):
            start = t % count * size
            Z = dense[order[start : start + size]]
            gradient = self.weight / len(Z) * (self.loss.slope(Z @ w) @ Z) + self.lam * w
            w = self._down(w - min(1 / beta, 1 / (self.lam * (t + 1))) * gradient)
        return w


MUTANTS: dict[str, Audit] = {
    "q for q^2": exact(lambda n, f: unscaled(n, f, power=1), (3, 2)),
    "no Delta": exact(no_delta, (3, 2)),
    "unregularised intercept": exact(unregularised_intercept, (2, 2)),
    "intercept outside the ball": exact(intercept_outside, (2, 2)),
    "columns scaled outside the ball": exact(scaled_outside, (2, 2)),
    "divide by the largest norm in the data": exact(largest_norm, (3, 2)),
    "pull towards the mean of the data": exact(pulled_to_mean, (2, 2)),
    "eps for eps', K = 1": exact(lambda n, f: epsilon_for_epsilon_prime(one_ball(loss=HUBER), n, f), (2, 2)),
    "eps for eps', K = 3": exact(
        lambda n, f: epsilon_for_epsilon_prime(three_balls((0.15,) * 3, loss=HUBER), n, f), (3, 4)
    ),
    "half a logarithm for the Jacobian, K = 1": exact(
        lambda n, f: half_a_logarithm(one_ball(lam=0.3, loss=HUBER, jacobian="tight"), n, f), (2, 2)
    ),
    "half a logarithm for the Jacobian, K = 3": exact(
        lambda n, f: half_a_logarithm(three_balls((0.1,) * 3, loss=HUBER, jacobian="tight"), n, f), (3, 4)
    ),
    "offset taken from the labels in the data": exact(offset_from_data, (3, 2)),
    "a full epsilon for each group": exact(epsilon_per_group, (2, 3)),
    "radii that sum to more than one": exact(radii_beyond_one, (2, 4)),
    "PST-S with parts that overlap": exact(overlapping_parts, (2, 2)),
    "halved objective noise": exact(halved_noise, (2, 2)),
    "halved objective noise, by its law": noise_law(one_ball(intercept=0.5), distort=0.5),
    "noise drawn again until the model fits": sampled.plr(draws=10, runs=900),
    "grid taken from the answer": sampled.release_step(mutant=True),
    "output noise not split between groups": distances.release_steps(three_balls(), groups_paid_for=1),
    "output noise for one solver": distances.release_steps(three_balls(), errors=1),
    "DPPSGD sensitivity divided by the batch size": distances.dppsgd(DividedByBatch),
    "DPPSGD final projection scales up": distances.dppsgd(ScaledUp),
    "DPPSGD keeps an unequal last batch": distances.dppsgd(UnequalLastBatch),
    "AMP output noise for one solver": distances.amp_output(errors=1),
    "AUC noise for one pair": sampled.auc(mutant=True),
    "exponential mechanism without its half": choice.exponential(mutant=True),
    "choice with chunks that overlap": choice.chunks(mutant=True),
    "random stopping charged at eps": choice.stopping_law(cost=1.0),
}
