"""Models of N partners become one.

    average            f = 1/N sum_i f_i, or weighted by public record counts (004 eq. 3)
    feature method     partners' classifiers become features of a *public* set at the aggregator (004 Alg. 1):
                       omega = argmin 1/m sum_j loss(y_j omega.Mx_j) + lambda/2 |omega|^2, row i of M the weights f_i,
                       and f = M^T omega
    boosted ensemble   gradient boosting on a target's own records over all partners' scores (003)

The first two are post-processing of what was released: free, the set of the second being public. The ensemble is fitted
to the target's records without noise, so it must never leave the target, and its release says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from crossward.errors import InvalidSetting, WrongShape
from crossward.learning.checks import check_labels, check_matrix
from crossward.learning.losses import LOGISTIC, Loss
from crossward.learning.model import BASE, Contributions, LinearModel, Model, Part, ReleasedModel
from crossward.learning.plr import TOLERANCE
from crossward.learning.records import Labels, Records
from crossward.learning.solver import minimise
from crossward.learning.stored import Rows
from crossward.learning.transfer import mixture
from crossward.learning.trees import Trees
from crossward.privacy.calibration import check_lambda
from crossward.privacy.mechanisms import NothingPrivate
from crossward.privacy.noise import Array
from crossward.privacy.release import Release, parallel

FEATURE_METHOD = "feature-method"
"""What a model that was weighed on a public set calls its release."""

MOST_LEAVES = 31
"""The leaves that a tree of a boosted ensemble has at most, however deep it may be."""


def average(partners: Sequence[ReleasedModel], mix: Literal["records", "uniform"] = "uniform") -> ReleasedModel:
    """One linear model from the released models of all partners, who hold different people's records."""
    weights = mixture([(partner.weights, partner.release) for partner in partners], mix)
    first = partners[0].model
    if any(partner.model.ball != first.ball for partner in partners):
        raise WrongShape("The partners' models live in different balls.", "Use the same features, radius and scale.")
    release = parallel("average", *(partner.release for partner in partners))
    return ReleasedModel(LinearModel(first.ball, weights, first.features), release)


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
        release = parallel(FEATURE_METHOD, *(partner.release for partner in partners))
        return ReleasedModel(LinearModel(first.ball, M.T @ omega, first.features), release)


@dataclass(frozen=True, slots=True)
class BoostedModel:
    """The ensemble, for use at the target only."""

    partners: tuple[Model, ...]
    ensemble: Trees
    release: Release = field(default_factory=NothingPrivate)

    def margins(self, X: Rows) -> Array:
        """The ensemble's log-odds."""
        return self.ensemble.margins(_scores(self.partners, X))

    def scores(self, X: Rows) -> Array:
        """The probability of the positive class."""
        return np.asarray(expit(self.margins(X)))

    def contributions(self, X: Rows) -> Contributions:
        """How much each partner's score moves the log-odds as it takes the place of 1/2, which says nothing.

        The partners are gone through forwards and backwards and the two moves averaged, so that of two who say the
        same none gets all. What the ensemble makes of scores of 1/2 alone is the part that is the same for all.
        """
        scores = _scores(self.partners, X)
        forwards, backwards = range(len(self.partners)), range(len(self.partners) - 1, -1, -1)
        moves = (self._moves(scores, forwards) + self._moves(scores, backwards)) / 2
        base = self.ensemble.margins(np.full_like(scores, 0.5))
        parts = [Part(f"partner {k}") for k in range(1, len(self.partners) + 1)]
        return Contributions((*parts, Part(BASE)), np.column_stack([moves, base]))

    def _moves(self, scores: Array, order: Sequence[int]) -> Array:
        """What each score changes as the scores are put in, in this order."""
        now, moves = np.full_like(scores, 0.5), np.empty_like(scores)
        before = self.ensemble.margins(now)
        for partner in order:
            now[:, partner] = scores[:, partner]
            after = self.ensemble.margins(now)
            moves[:, partner] = after - before
            before = after
        return moves


@dataclass(frozen=True, slots=True)
class BoostedEnsemble:
    """Gradient boosting over partners' scores."""

    iterations: int = 100
    depth: int = 3
    rate: float = 0.1

    def fit(self, partners: Sequence[Model], X: Rows, y: Labels) -> BoostedModel:
        """Fit to the target's own records; not private for them. Their scores, (n, partners), are in memory."""
        if not partners:
            raise InvalidSetting("There are no partners' models to boost.")
        X = check_matrix(X)
        labels = check_labels(y, len(X))
        # Loaded here: it takes longer than everything else a site loads, and few studies boost.
        from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415

        boosting = HistGradientBoostingClassifier(
            max_iter=self.iterations,
            max_depth=self.depth,
            max_leaf_nodes=MOST_LEAVES,
            learning_rate=self.rate,
            early_stopping=False,
        )
        boosting.fit(check_matrix(_scores(partners, X)), labels)
        return BoostedModel(tuple(partners), Trees.of(boosting))


def _scores(partners: Sequence[Model], X: Rows) -> Array:
    """(n, partners), to nine digits: equal records have equal scores, however BLAS adds, and no tree cuts between."""
    scores = np.empty((len(X), len(partners)))
    for k, partner in enumerate(partners):
        np.round(partner.scores(X), 9, out=scores[:, k])
    return scores
