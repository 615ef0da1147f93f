"""Audits of objective perturbation: exact ones with the real calibration and encoding, and the law of the real noise.

A subject is what is audited at one size. `subject_of` builds it from a learner; a mutant is a subject with one thing
changed. The loss of the release step, which the learner pays for separately, is added to what the search finds.

`unscaled` is the form of Chaudhuri et al. before scaling, on records of norm up to R. With noise of density
proportional to exp(-eps' ||b|| / (2R)) and c R^2 in place of c it is our mechanism in other coordinates (w and b
measured in units of 1/R and R), and as private. It is here because forgetting one of the two R is the easiest mistake
of all to make, and invisible while R is 1.

`noise_law` goes from proof to code: is the noise inside a released model drawn from the law that the proofs assume?
The real `fit` runs again and again on fixed records, and the noise for which each released w is the minimiser is
recovered from w. The tolerance is set so low that the noise of the release step is far below what the tests can see.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from crossward.learning.losses import LOGISTIC
from crossward.learning.plr import PLRFS
from crossward.learning.records import Ball
from crossward.privacy.budget import NonPrivate
from crossward.privacy.calibration import Calibration
from crossward.privacy.noise import Array, Randomness
from crossward_lab.audit.closed_forms import exponential_loss
from crossward_lab.audit.densities import Encode, Law, Scenario, Worst, worst_loss
from crossward_lab.audit.report import Audit, Effort, MechanismVerdict
from crossward_lab.audit.sampling import ALPHA, rate_lower_bound, smallest_p


@dataclass(frozen=True, slots=True)
class Subject:
    """A mechanism at one size, the epsilon it claims, and the loss of its release step."""

    scenario: Scenario
    claimed: float
    output_loss: float = 0.0


def calibration_of(learner: PLRFS, n: int) -> Calibration:
    """The calibration the learner would run with."""
    calibration = learner.calibration(n)
    assert calibration is not None
    return calibration


def subject_of(learner: PLRFS, n: int, features: int) -> Subject:
    """The learner as it is."""
    calibration = calibration_of(learner, n)
    assert not isinstance(learner.epsilon, NonPrivate)
    laws = []
    for k, group in enumerate(learner.groups):
        centre = group.centre(features)
        ridge = np.full(len(centre), calibration.strength(k))
        laws.append(Law(learner.loss, 1 / calibration.noise_scale(), ridge, n * group.lam * centre))
    columns = tuple(tuple(range(features)) if g.ball.columns is None else g.ball.columns for g in learner.groups)
    reach = max(group.ball.radius for group in learner.groups)
    scenario = Scenario(tuple(laws), encoding_of(learner), n, columns, reach)
    return Subject(scenario, learner.epsilon, output_loss(learner, n))


def encoding_of(learner: PLRFS) -> Encode:
    """The learner's own balls, a record at a time."""

    def encode(X: Array, y: Array) -> list[Array]:
        rows = X.reshape(-1, X.shape[2])
        placed = [(group.ball.place(rows).reshape(*y.shape, -1), group.ball.offset) for group in learner.groups]
        return [y[:, :, None] * (np.pad(Z, ((0, 0), (0, 0), (0, 1)), constant_values=o) if o else Z) for Z, o in placed]

    return encode


def output_loss(learner: PLRFS, n: int) -> float:
    """What the release step loses when both solvers err as far as their tolerance lets them, in every group."""
    calibration = calibration_of(learner, n)
    steps = learner.output_steps(calibration)
    distances = [2 * learner.tolerance / calibration.strength(k) for k in range(len(steps))]
    return sum(exponential_loss(distance, step.scale) for distance, step in zip(distances, steps, strict=True))


def audit_subjects(name: str, subjects: Iterable[Subject], effort: Effort) -> MechanismVerdict:
    """The subject whose loss comes closest to its claim, or goes farthest beyond."""
    found: list[tuple[Subject, Worst]] = []
    for subject in subjects:
        worst = worst_loss(subject.scenario, effort.generator, starts=effort.starts, rounds=effort.rounds)
        found.append((subject, worst))
    subject, worst = max(found, key=lambda pair: (pair[1].loss + pair[0].output_loss) / pair[0].claimed)
    return MechanismVerdict.of(name, subject.claimed, worst.loss + subject.output_loss, "exact", worst.detail)


Size = tuple[int, int]
"""n and the number of raw columns."""


def exact(make: Callable[[int, int], Subject], *sizes: Size) -> Audit:
    """The audit of a mechanism at these sizes; a full effort adds larger ones."""

    def audit(name: str, effort: Effort) -> MechanismVerdict:
        larger = [(n + 2, features) for n, features in sizes] if effort.full else []
        return audit_subjects(name, (make(*size) for size in (*sizes, *larger)), effort)

    return audit


UNSCALED_NORM = 100.0


def unscaled(n: int, features: int, *, power: int, epsilon: float = 1.0, strength: float = 1.0) -> Subject:
    """Records of norm up to R = 100, n lambda = `strength`; `power` 2 is right and 1 is the mistake."""
    bend = LOGISTIC.curvature * UNSCALED_NORM**power
    left, ridge = epsilon - 2 * math.log1p(bend / strength), strength
    if left <= 0:
        left, ridge = epsilon / 2, bend / math.expm1(epsilon / 4)
    law = Law(LOGISTIC, left / (2 * UNSCALED_NORM), np.full(features, ridge), np.zeros(features))
    columns = (tuple(range(features)),)
    return Subject(Scenario((law,), of_norm(UNSCALED_NORM), n, columns, UNSCALED_NORM), epsilon)


def of_norm(norm: float, intercept: bool = False) -> Encode:
    """Records cut to a norm, with a column of ones beside them if asked: outside the ball."""
    ball = Ball(norm)

    def encode(X: Array, y: Array) -> list[Array]:
        Z = norm * ball.place(X.reshape(-1, X.shape[2])).reshape(*y.shape, -1)
        if intercept:
            Z = np.concatenate([Z, np.ones((*y.shape, 1))], axis=2)
        return [y[:, :, None] * Z]

    return encode


NOISE_RECORDS = 4


def noise_law(learner: PLRFS, distort: float = 1.0) -> Audit:
    """The audit for a learner. `distort` shortens the noise the learner asks for: 1 for none, 0.5 for a mutant."""
    learner = replace(learner, tolerance=1e-9)

    def audit(name: str, effort: Effort) -> MechanismVerdict:
        features = 1 + max(max(group.ball.columns or (1,)) for group in learner.groups)
        X = effort.generator.normal(size=(NOISE_RECORDS, features))
        y = np.array([1.0, -1.0] * (NOISE_RECORDS // 2))
        randomness = effort.randomness if distort == 1 else Shortened(effort.randomness, distort)
        noise = _recovered(learner, X, y, randomness, effort.runs(1_000))

        calibration = calibration_of(learner, NOISE_RECORDS)
        rate = 1 / calibration.noise_scale()
        p = min(smallest_p(drawn, rate) for drawn in noise) * len(noise)
        found = max(rate_lower_bound(drawn, ALPHA) for drawn in noise)
        # A rate above the calibrated one is paid for by nobody; another shape has no rate to speak of.
        wrong_shape = p < ALPHA and found <= rate
        loss = np.inf if wrong_shape else calibration.epsilon + max(0.0, 2 * (found - rate))
        detail = f"{len(noise[0])} runs, smallest p of Kolmogorov-Smirnov {min(p, 1.0):.2g}"
        return MechanismVerdict.of(name, calibration.epsilon, float(loss), "law", detail)

    return audit


def _recovered(learner: PLRFS, X: Array, y: Array, randomness: Randomness, runs: int) -> list[Array]:
    """b_D(w) of every run, per group: (runs, d_k)."""
    scenario = subject_of(learner, *X.shape).scenario
    Z = scenario.encode(X[None], y[None])
    released = [learner.fit(X, y, randomness=randomness).groups for _ in range(runs)]
    noise = []
    for k, law in enumerate(scenario.laws):
        w = np.array([models[k].weights for models in released])
        noise.append(law.noise(np.broadcast_to(Z[k], (runs, *Z[k].shape[1:])), w))
    return noise


class Shortened(Randomness):
    """A planted fault: noise in all directions comes out shorter than it was asked to be."""

    def __init__(self, source: Randomness, factor: float) -> None:
        self.source, self.factor, self.seeded = source, factor, source.seeded

    def words(self, count: int) -> np.typing.NDArray[np.uint64]:
        """The source's words."""
        return self.source.words(count)

    def in_all_directions(self, dimension: int, scale: float) -> Array:
        """Too short by the factor."""
        return self.factor * super().in_all_directions(dimension, scale)
