"""Distance audits, each through the code that will run: DPPSGD, the release step, the solver; and the Gaussian noise of
AMP, (eps, delta): its two noises apart, each at the share of epsilon and delta it was given.
"""

from __future__ import annotations

import math

import numpy as np

from crossward.learning.amp import AMP, Noise
from crossward.learning.dppsgd import DPPSGD
from crossward.learning.losses import LOGISTIC, Huber, Loss
from crossward.learning.plr import PLRFS
from crossward.learning.records import Ball, Records
from crossward.learning.solver import minimise
from crossward.privacy.budget import NonPrivate
from crossward.privacy.noise import Array
from crossward.privacy.output import OutputStep
from crossward_lab.audit.closed_forms import exponential_loss, gaussian_epsilon, widest
from crossward_lab.audit.densities import GaussianLaw, epsilon_at
from crossward_lab.audit.objective import calibration_of
from crossward_lab.audit.report import Audit, Effort, MechanismVerdict

EPSILON = 1.0


def dppsgd(kind: type[DPPSGD] = DPPSGD) -> Audit:
    """The largest distance between two neighbours' weights in the same order, over what the noise hides.

    Over losses, batch sizes that do and do not divide n, numbers of passes, and the place of the replaced record.
    """

    def audit(name: str, effort: Effort) -> MechanismVerdict:
        worst, detail = 0.0, ""
        for loss, n, batch, passes, lam in _dppsgd_settings(effort.full):
            learner = kind(Ball(1.0), lam, EPSILON, passes=passes, batch=batch, loss=loss)
            scale = OutputStep.hiding(learner.sensitivity(n), EPSILON).scale
            for at in {0, n // 2, n - 1}:
                found = exponential_loss(_dppsgd_distance(learner, n, at, effort), scale)
                if found > worst:
                    worst = found
                    detail = f"n={n}, batch={batch}, passes={passes}, lambda={lam:g}, {loss.name}, record {at + 1}"
        return MechanismVerdict.of(name, EPSILON, worst, "distance", detail)

    return audit


def _dppsgd_settings(full: bool) -> list[tuple[Loss, int, int, int, float]]:
    quick: list[tuple[Loss, int, int, int, float]] = [
        (Huber(0.5), 4, 1, 1, 1.0),
        (Huber(0.5), 6, 2, 2, 0.2),
        (Huber(0.5), 5, 4, 1, 1.0),
        (LOGISTIC, 4, 2, 3, 0.1),
    ]
    if not full:
        return quick
    losses: tuple[Loss, ...] = (LOGISTIC, Huber(0.05))
    sizes = [(n, batch) for n in (3, 5, 8) for batch in (1, 2, 4) if batch <= n]
    return quick + [(h, n, b, p, lam) for h in losses for n, b in sizes for p in (1, 3) for lam in (0.05, 1.0)]


def _dppsgd_distance(learner: DPPSGD, n: int, at: int, effort: Effort) -> float:
    """The largest ||w - w'|| found over two-dimensional data sets that differ in the record visited at place `at`."""
    order = np.arange(n)

    def apart(flat: Array) -> float:
        points = flat.reshape(n + 1, 2)
        here = points[:n]
        there = here.copy()
        there[at] = points[n]
        w, other = (learner.descend(Records.inside(learner.ball, Z), order) for Z in (here, there))
        return float(np.linalg.norm(w - other))

    generator = effort.generator
    seeds = 2 * generator.normal(size=(20 if effort.full else 12, n + 1, 2))
    seeds[::2, n] = -seeds[::2, at]
    return widest(apart, seeds.reshape(len(seeds), -1), generator, rounds=120 if effort.full else 60)[0]


def release_steps(learner: PLRFS, groups_paid_for: int | None = None, errors: int = 2) -> Audit:
    """The release step of K groups, when both solvers stop as far out as their tolerance allows.

    The records are saturated, so that only the ridge holds the weights: there a gradient of `tolerance` is exactly
    tolerance / ridge away. A mutant pays for fewer groups or for fewer `errors`.
    """

    def audit(name: str, effort: Effort) -> MechanismVerdict:
        n = 3
        calibration = calibration_of(learner, n)
        assert not isinstance(learner.epsilon, NonPrivate)
        groups = len(learner.groups)
        shrunk = (groups_paid_for or groups) / groups * errors / 2
        loss = 0.0
        for k, step in enumerate(learner.output_steps(calibration)):
            apart = _solvers_apart(learner, calibration.strength(k), effort.generator)
            loss += exponential_loss(apart, step.scale * shrunk)
        claimed = learner.epsilon * learner.output_share
        return MechanismVerdict.of(name, claimed, loss, "distance", f"n={n}, K={groups}, both at their tolerance")

    return audit


def _solvers_apart(learner: PLRFS, ridge: float, generator: np.random.Generator) -> float:
    """The distance between two answers on the same records, each with a gradient no longer than the tolerance."""
    far = Records.of(np.array([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]))
    linear = np.array([-1e3 * ridge, 0.0])
    w = minimise(far, learner.loss, linear, ridge, 1e-6 * learner.tolerance).w
    direction = generator.normal(size=2)
    direction *= learner.tolerance / ridge / np.linalg.norm(direction)
    for answer in (w + direction, w - direction):
        Z = far.dense()
        gradient = Z.T @ learner.loss.slope(Z @ answer) + linear + ridge * answer
        assert np.linalg.norm(gradient) <= learner.tolerance * (1 + 1e-5)
    return 2 * float(np.linalg.norm(direction))


def solver(name: str, effort: Effort) -> MechanismVerdict:
    """Does the solver keep within tolerance / ridge of the minimiser, as the release step assumes?

    Against a solution to a tolerance 10^5 times smaller, on problems from well to badly conditioned. The loss is what
    two such errors, in opposite directions, would lose of an eps_out of one.
    """
    generator, worst = effort.generator, 0.0
    losses: tuple[Loss, ...] = (LOGISTIC, Huber(0.5), Huber(0.01))
    for i in range(effort.runs(150)):
        n, d = int(generator.integers(1, 30)), int(generator.integers(1, 6))
        ridge, tolerance = 10 ** generator.uniform(-1, 2), 10 ** generator.uniform(-3, -1)
        records = Records.inside(Ball(1.0), 2 * generator.normal(size=(n, d)))
        linear = generator.normal(size=d) * 10 ** generator.uniform(-1, 1)
        loss = losses[i % len(losses)]
        rough = minimise(records, loss, linear, ridge, tolerance).w
        fine = minimise(records, loss, linear, ridge, 1e-5 * tolerance).w
        worst = max(worst, float(np.linalg.norm(rough - fine)) * ridge / (tolerance * (1 + 1e-5)))
    assert math.isfinite(worst)
    return MechanismVerdict.of(name, EPSILON, worst, "distance", f"{effort.runs(150)} problems")


AMP_EPSILON, AMP_DELTA = 2.0, 1e-2
AMP_OUTPUT_DELTA = 2e-6


def _amp_noise(learner: AMP, n: int) -> Noise:
    noise = learner.noise(n)
    assert noise is not None
    return noise


def amp_objective(name: str, effort: Effort) -> MechanismVerdict:
    """The minimiser with Gaussian noise in the objective: the smallest epsilon at delta_1, searched over neighbours."""
    worst, detail = 0.0, ""
    losses: tuple[Loss, ...] = (LOGISTIC, Huber(0.5))
    for loss in losses:
        for n, dimension, points in ((1, 1, 2001), (2, 1, 2001), (2, 2, 181)):
            found = _amp_worst_epsilon(loss, n, dimension, points, effort)
            if found > worst:
                worst, detail = found, f"n={n}, d={dimension}, {loss.name}"
    learner = AMP(Ball(1.0), AMP_EPSILON, AMP_DELTA)
    claimed = AMP_EPSILON * (1 - learner.output_share)
    return MechanismVerdict.of(name, claimed, worst, "exact", detail, delta=AMP_DELTA * (1 - learner.output_share))


def _amp_worst_epsilon(loss: Loss, n: int, dimension: int, points: int, effort: Effort) -> float:
    learner = AMP(Ball(1.0), AMP_EPSILON, AMP_DELTA, loss=loss)
    noise = _amp_noise(learner, n)
    law = GaussianLaw(loss, noise.sigma_objective, noise.ridge, dimension)
    delta = AMP_DELTA * (1 - learner.output_share)

    def epsilon(flat: Array) -> float:
        Z = learner.ball.place(flat.reshape(n + 1, dimension))
        return epsilon_at(law, Z[:-1], Z[1:], delta, points)

    seeds = effort.generator.normal(size=(4, n + 1, dimension))
    seeds[:, -1] = -seeds[:, 0]
    rounds = (400 if effort.full else 30) // dimension**3
    return widest(epsilon, 3 * seeds.reshape(4, -1), effort.generator, rounds=rounds)[0]


def amp_output(errors: int = 2) -> Audit:
    """The noise on the output against two solvers' errors. The mutant's noise allows for one of them only."""

    def audit(name: str, effort: Effort) -> MechanismVerdict:
        del effort  # nothing is drawn or searched: the distance is known and the delta exact
        n, share = 3, 0.5
        learner = AMP(Ball(1.0), AMP_EPSILON, AMP_OUTPUT_DELTA, output_share=share)
        noise = _amp_noise(learner, n)
        distance = 2 * learner.tolerance / noise.ridge
        found = gaussian_epsilon(distance, noise.sigma_output * errors / 2, share * AMP_OUTPUT_DELTA)
        detail = f"solvers {distance:.3g} apart, sigma {noise.sigma_output * errors / 2:.3g}"
        return MechanismVerdict.of(name, share * AMP_EPSILON, found, "distance", detail, delta=share * AMP_OUTPUT_DELTA)

    return audit
