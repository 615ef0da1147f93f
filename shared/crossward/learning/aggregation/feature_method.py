"""The feature method (004 Alg. 1): partners' classifiers become features of a *public* set at the aggregator.

    omega = argmin 1/m sum_j loss(y_j omega.Mx_j) + lambda/2 |omega|^2,   row i of M the released weights f_i
    f = M^T omega

The set is public, so omega costs nothing; were it private, omega would have to be a paid PLR.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crossward.errors import InvalidSetting, WrongShape
from crossward.learning.checks import check_labels, check_matrix
from crossward.learning.losses import LOGISTIC, Loss
from crossward.learning.model import LinearModel, ReleasedModel
from crossward.learning.plr_fs import TOLERANCE
from crossward.learning.records import Records
from crossward.learning.solver import minimise
from crossward.privacy.calibration import check_lambda
from crossward.privacy.release import parallel


@dataclass(frozen=True, slots=True)
class FeatureMethod:
    """Weighs partners' models by how they do on public records."""

    lam: float = 1e-2
    loss: Loss = LOGISTIC

    def __post_init__(self) -> None:
        check_lambda(self.lam)

    def fit(self, partners: Sequence[ReleasedModel], X: NDArray[np.floating], y: NDArray[np.floating]) -> ReleasedModel:
        """f = M^T omega from public records X with labels y in {-1, +1}."""
        if not partners:
            raise InvalidSetting("There are no partners' models to weigh.")
        first = partners[0].model
        if any(partner.model.ball != first.ball for partner in partners):
            raise WrongShape(
                "The partners' models live in different balls.", "Use the same features, radius and scale."
            )
        X = check_matrix(X, first.features)
        labels = check_labels(y, len(X))
        M = np.stack([partner.weights for partner in partners])
        # Unit rows: omega is then regularised alike for a long classifier and a short one, and M x stays in range.
        M /= np.maximum(np.linalg.norm(M, axis=1, keepdims=True), np.finfo(float).tiny)
        scores = Records.inside(first.ball, X, labels).dense() @ M.T
        omega = minimise(Records.of(scores), self.loss, np.zeros(len(M)), len(X) * self.lam, TOLERANCE).w
        release = parallel("feature-method", *(partner.release for partner in partners))
        return ReleasedModel(LinearModel(first.ball, M.T @ omega, first.features), release)
