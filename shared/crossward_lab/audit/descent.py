"""Distance audits: DPPSGD, the release step and the solver, each through the code that will run."""

from __future__ import annotations

import math

import numpy as np

from crossward.learning.dppsgd import DPPSGD
from crossward.learning.losses import LOGISTIC, Huber, Loss
from crossward.learning.plr_fs import PLRFS
from crossward.learning.records import Ball, Records
from crossward.learning.solver import minimise
from crossward.privacy.budget import NonPrivate
from crossward.privacy.noise import Array
from crossward.privacy.output import OutputStep
from crossward_lab.audit.effort import Audit, Effort
from crossward_lab.audit.measures.distance import exponential_loss, widest
from crossward_lab.audit.measures.report import MechanismVerdict
from crossward_lab.audit.objective import calibration_of

EPSILON = 1.0


def dppsgd(kind: type[DPPSGD] = DPPSGD) -> Audit:
    """The largest distance between two neighbours' weights in the same order, over what the noise hides.

    Over losses, batch sizes that do and do not divide n, numbers of passes, and the place of the replaced record.
    """

    def audit(name: str, effort: Effort) -> MechanismVerdict:
        worst, detail = 0.0, ""
        for loss, n, batch, passes, lam in _settings(effort.full):
            learner = kind(Ball(1.0), lam, EPSILON, passes=passes, batch=batch, loss=loss)
            scale = OutputStep.hiding(learner.sensitivity(n), EPSILON).scale
            for at in {0, n // 2, n - 1}:
                found = exponential_loss(_distance(learner, n, at, effort), scale)
                if found > worst:
                    worst = found
                    detail = f"n={n}, batch={batch}, passes={passes}, lambda={lam:g}, {loss.name}, record {at + 1}"
        return MechanismVerdict.of(name, EPSILON, worst, "distance", detail)

    return audit


def _settings(full: bool) -> list[tuple[Loss, int, int, int, float]]:
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


def _distance(learner: DPPSGD, n: int, at: int, effort: Effort) -> float:
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
