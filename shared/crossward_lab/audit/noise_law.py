"""From proof to code: is the noise inside a released model drawn from the law that the proofs assume?

The real `fit` runs again and again on fixed records, and the noise for which each released w is the minimiser is
recovered from w. The tolerance is set so low that the noise of the release step is far below what the tests can see.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from crossward.learning.plr_fs import PLRFS
from crossward.privacy.noise import Array, Randomness
from crossward_lab.audit.effort import Audit, Effort
from crossward_lab.audit.measures.law import rate_lower_bound, smallest_p
from crossward_lab.audit.measures.report import MechanismVerdict
from crossward_lab.audit.measures.sampling import ALPHA
from crossward_lab.audit.objective import calibration_of, subject_of

RECORDS = 4


def noise_law(learner: PLRFS, distort: float = 1.0) -> Audit:
    """The audit for a learner. `distort` shortens the noise the learner asks for: 1 for none, 0.5 for a mutant."""
    learner = replace(learner, tolerance=1e-9)

    def audit(name: str, effort: Effort) -> MechanismVerdict:
        features = 1 + max(max(group.ball.columns or (1,)) for group in learner.groups)
        X = effort.generator.normal(size=(RECORDS, features))
        y = np.array([1.0, -1.0] * (RECORDS // 2))
        randomness = effort.randomness if distort == 1 else Shortened(effort.randomness, distort)
        noise = _recovered(learner, X, y, randomness, effort.runs(1_000))

        calibration = calibration_of(learner, RECORDS)
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
