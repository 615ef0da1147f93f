"""PLR: privacy-preserving logistic regression by objective perturbation (000 Alg. 1; Chaudhuri et al. 2011).

    min_w 1/n sum_i loss(y_i w.x_i) + b.w/n + (Delta/2)|w|^2 + lambda g(w),   ||x_i|| <= 1

This is PLR-FS with a single group, and is computed as such.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crossward.learning.losses import LOGISTIC, Loss
from crossward.learning.model import LinearModel, ReleasedModel
from crossward.learning.plr_fs import OUTPUT_SHARE, PLRFS, TOLERANCE, Group
from crossward.learning.records import Ball
from crossward.learning.regulariser import Pull
from crossward.privacy.budget import Epsilon
from crossward.privacy.calibration import Jacobian
from crossward.privacy.filters import Accountant
from crossward.privacy.noise import SYSTEM, Array, Randomness
from crossward.privacy.release import Release


@dataclass(frozen=True, slots=True)
class PLR:
    """One private linear model. Every setting is public."""

    ball: Ball
    lam: float
    epsilon: Epsilon
    pull: Pull | None = None
    loss: Loss = LOGISTIC
    tolerance: float = TOLERANCE
    output_share: float = OUTPUT_SHARE
    jacobian: Jacobian = "published"

    def __post_init__(self) -> None:
        self.as_one_group()

    def as_one_group(self) -> PLRFS:
        """The same learner as PLR-FS with K = 1."""
        group = Group(self.ball, self.lam, self.pull)
        return PLRFS((group,), self.epsilon, self.loss, self.tolerance, self.output_share, self.jacobian)

    def release(self, n: int, features: int) -> Release:
        """What `fit` on n records will release."""
        return self.as_one_group().release(n, features)

    def fit(
        self,
        X: NDArray[np.floating],
        y: NDArray[np.floating],
        *,
        randomness: Randomness = SYSTEM,
        accountant: Accountant | None = None,
    ) -> ReleasedModel:
        """Check, charge, draw, solve, release. `y` is -1 or +1."""
        split = self.as_one_group().fit(X, y, randomness=randomness, accountant=accountant)
        return ReleasedModel(split.groups[0], split.release)

    def train(self, X: NDArray[np.floating], labels: Array, randomness: Randomness) -> LinearModel:
        """Draw, solve, release. The caller has checked the records and charged for the release."""
        return self.as_one_group().train(X, labels, randomness)[0]
