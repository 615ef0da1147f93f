"""The boosted ensemble (003): gradient boosting on a target's own records over all partners' scores.

Partners' models are released and safe to use. The ensemble is not: it is fitted to the target's records without noise,
so it must never leave the target, and its release says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossward.errors import InvalidSetting
from crossward.learning.checks import check_labels, check_matrix
from crossward.learning.model import ReleasedModel
from crossward.learning.stacking.combiners import StackedModel
from crossward.privacy.noise import Array
from crossward.privacy.release import Release

Partner = ReleasedModel | StackedModel


@dataclass(frozen=True, slots=True)
class BoostedModel:
    """The ensemble, for use at the target only."""

    partners: tuple[Partner, ...]
    ensemble: Any
    release: Release = field(default_factory=lambda: Release.non_private("boosted-ensemble", {}))

    def margins(self, X: NDArray[np.floating]) -> Array:
        """The ensemble's log-odds."""
        return np.asarray(self.ensemble.decision_function(_scores(self.partners, X)))

    def scores(self, X: NDArray[np.floating]) -> Array:
        """The probability of the positive class."""
        return np.asarray(self.ensemble.predict_proba(_scores(self.partners, X))[:, 1])


@dataclass(frozen=True, slots=True)
class BoostedEnsemble:
    """Gradient boosting over partners' scores."""

    iterations: int = 100
    depth: int = 3
    rate: float = 0.1

    def fit(self, partners: Sequence[Partner], X: NDArray[np.floating], y: NDArray[np.floating]) -> BoostedModel:
        """Fit to the target's own records; not private for them."""
        if not partners:
            raise InvalidSetting("There are no partners' models to boost.")
        X = check_matrix(X)
        labels = check_labels(y, len(X))
        # Loaded here: it takes longer than everything else a site loads, and few studies boost.
        boosting = import_module("sklearn.ensemble").HistGradientBoostingClassifier(
            max_iter=self.iterations, max_depth=self.depth, learning_rate=self.rate, early_stopping=False
        )
        boosting.fit(_scores(partners, X), labels)
        return BoostedModel(tuple(partners), boosting)


def _scores(partners: Sequence[Partner], X: NDArray[np.floating]) -> Array:
    return np.column_stack([partner.scores(X) for partner in partners])
