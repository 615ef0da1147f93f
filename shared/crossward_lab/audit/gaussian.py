"""Audits of AMP, (eps, delta): its two noises apart, each at the share of epsilon and delta it was given."""

from __future__ import annotations

from crossward.learning.amp import AMP, Noise
from crossward.learning.losses import LOGISTIC, Huber, Loss
from crossward.learning.records import Ball
from crossward.privacy.noise import Array
from crossward_lab.audit.effort import Audit, Effort
from crossward_lab.audit.measures.distance import gaussian_epsilon, widest
from crossward_lab.audit.measures.quadrature import GaussianLaw, epsilon_at
from crossward_lab.audit.measures.report import MechanismVerdict

EPSILON, DELTA = 2.0, 1e-2
OUTPUT_DELTA = 2e-6


def _noise(learner: AMP, n: int) -> Noise:
    noise = learner.noise(n)
    assert noise is not None
    return noise


def objective(name: str, effort: Effort) -> MechanismVerdict:
    """The minimiser with Gaussian noise in the objective: the smallest epsilon at delta_1, searched over neighbours."""
    worst, detail = 0.0, ""
    losses: tuple[Loss, ...] = (LOGISTIC, Huber(0.5))
    for loss in losses:
        for n, dimension, points in ((1, 1, 2001), (2, 1, 2001), (2, 2, 181)):
            found = _worst_epsilon(loss, n, dimension, points, effort)
            if found > worst:
                worst, detail = found, f"n={n}, d={dimension}, {loss.name}"
    learner = AMP(Ball(1.0), EPSILON, DELTA)
    claimed = EPSILON * (1 - learner.output_share)
    return MechanismVerdict.of(name, claimed, worst, "exact", detail, delta=DELTA * (1 - learner.output_share))


def _worst_epsilon(loss: Loss, n: int, dimension: int, points: int, effort: Effort) -> float:
    learner = AMP(Ball(1.0), EPSILON, DELTA, loss=loss)
    noise = _noise(learner, n)
    law = GaussianLaw(loss, noise.sigma_objective, noise.ridge, dimension)
    delta = DELTA * (1 - learner.output_share)

    def epsilon(flat: Array) -> float:
        Z = learner.ball.place(flat.reshape(n + 1, dimension))
        return epsilon_at(law, Z[:-1], Z[1:], delta, points)

    seeds = effort.generator.normal(size=(4, n + 1, dimension))
    seeds[:, -1] = -seeds[:, 0]
    rounds = (400 if effort.full else 30) // dimension**3
    return widest(epsilon, 3 * seeds.reshape(4, -1), effort.generator, rounds=rounds)[0]


def output(errors: int = 2) -> Audit:
    """The noise on the output against two solvers' errors. The mutant's noise allows for one of them only."""

    def audit(name: str, effort: Effort) -> MechanismVerdict:
        del effort  # nothing is drawn or searched: the distance is known and the delta exact
        n, share = 3, 0.5
        learner = AMP(Ball(1.0), EPSILON, OUTPUT_DELTA, output_share=share)
        noise = _noise(learner, n)
        distance = 2 * learner.tolerance / noise.ridge
        found = gaussian_epsilon(distance, noise.sigma_output * errors / 2, share * OUTPUT_DELTA)
        detail = f"solvers {distance:.3g} apart, sigma {noise.sigma_output * errors / 2:.3g}"
        return MechanismVerdict.of(name, share * EPSILON, found, "distance", detail, delta=share * OUTPUT_DELTA)

    return audit
