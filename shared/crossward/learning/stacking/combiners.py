"""Combining level-0 models: majority vote (C-mv), importance-weighted vote (C-wmv), level-1 model (C-hl).

The votes are post-processing and need no records. The level-1 model is a PLR on the meta-features of records that
level-0 did not see, so that a record pays for one level only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from crossward.errors import InvalidSetting
from crossward.learning.losses import LOGISTIC, Loss
from crossward.learning.model import LinearModel
from crossward.learning.plr import PLR
from crossward.learning.plr_fs import TOLERANCE
from crossward.learning.records import Ball
from crossward.learning.regulariser import Pull
from crossward.learning.stacking.scores import MARGIN, Scores
from crossward.privacy.budget import Epsilon
from crossward.privacy.calibration import Jacobian
from crossward.privacy.noise import Array, Randomness
from crossward.privacy.release import Release


class Combiner(Protocol):
    """Turns K level-0 models into one score per record: above 0 for the positive class."""

    def combine(self, models: tuple[LinearModel, ...], X: NDArray[np.floating]) -> Array:
        """One margin per record."""
        ...


@dataclass(frozen=True, slots=True)
class MajorityVote:
    """C-mv: the share of models that vote for the positive class, on [-1, 1]."""

    def combine(self, models: tuple[LinearModel, ...], X: NDArray[np.floating]) -> Array:
        """The mean vote."""
        return np.asarray(np.mean([_vote(model, X) for model in models], axis=0))


@dataclass(frozen=True, slots=True)
class WeightedVote:
    """C-wmv: votes weighted by the importance q_k, on [-1, 1]."""

    def combine(self, models: tuple[LinearModel, ...], X: NDArray[np.floating]) -> Array:
        """sum_k q_k vote_k / sum_k q_k."""
        q = np.array([model.ball.q for model in models])
        return np.asarray(q @ [_vote(model, X) for model in models] / q.sum())


def _vote(model: LinearModel, X: NDArray[np.floating]) -> Array:
    """The sign of what the weights say; an offset is the same for every record and would have the last word."""
    return np.sign(model.margins(X) - model.ball.offset)


@dataclass(frozen=True, slots=True)
class LevelOneModel:
    """C-hl, trained: a linear model on meta-features."""

    model: LinearModel
    scores: Scores

    def combine(self, models: tuple[LinearModel, ...], X: NDArray[np.floating]) -> Array:
        """v.[score_1 .. score_K]."""
        return self.model.margins(self.scores.of(models, X))


@dataclass(frozen=True, slots=True)
class LevelOne:
    """C-hl, the learner: PLR on the meta-features, its public settings.

    `prior` is the strength of the importance-weighted vote that level-1 starts from: g(v) = 1/2 |v - v0|^2 with v0
    such that v0.scores = prior * sum_k q_k (score_k - middle). 0 for none, as the papers have it. `offset` is a public
    number beside the scores, in place of an intercept that would have to be learned.
    """

    epsilon: Epsilon
    lam: float = 0.1
    scores: Scores = MARGIN
    prior: float = 4.0
    intercept: bool = True
    loss: Loss = LOGISTIC
    tolerance: float = TOLERANCE
    offset: float = 0.0
    jacobian: Jacobian = "published"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.prior) and self.prior >= 0):
            raise InvalidSetting(f"prior must be a finite number of at least 0, not {self.prior!r}.")

    def learner(self, q: Array) -> PLR:
        """The PLR for level-0 models of importances q."""
        K = len(q)
        # K scores within [-1, 1] have norm at most sqrt(K); the intercept is a column of ones beside them.
        ball = Ball(math.sqrt(K), intercept=1 / math.sqrt(K) if self.intercept else 0.0, offset=self.offset)
        pull = Pull(self._vote(q, ball)) if self.prior > 0 else None
        return PLR(ball, self.lam, self.epsilon, pull, self.loss, self.tolerance, jacobian=self.jacobian)

    def release(self, n: int, q: Array) -> Release:
        """What level-1 will release from n records."""
        return self.learner(q).release(n, len(q))

    def train(
        self,
        models: tuple[LinearModel, ...],
        q: Array,
        X: NDArray[np.floating],
        labels: Array,
        randomness: Randomness,
    ) -> LevelOneModel:
        """Train on records that level-0 did not see. The caller has checked them and charged for the release."""
        return LevelOneModel(self.learner(q).train(self.scores.of(models, X), labels, randomness), self.scores)

    def _vote(self, q: Array, ball: Ball) -> Array:
        """v0 in the ball's coordinates: a meta-feature is divided by the norm that the ball allows for."""
        reach = math.sqrt(len(q) + self.intercept)
        vote = self.prior * reach * self.scores.vote(q)
        return np.append(vote, -self.scores.middle * vote.sum()) if self.intercept else vote


@dataclass(frozen=True, slots=True)
class StackedModel:
    """Level-0 models, how they are combined, and the release of it all."""

    level0: tuple[LinearModel, ...]
    combiner: Combiner
    release: Release

    def margins(self, X: NDArray[np.floating]) -> Array:
        """The combined score of each record, above 0 for the positive class."""
        return self.combiner.combine(self.level0, X)

    def scores(self, X: NDArray[np.floating]) -> Array:
        """sigma of the combined score."""
        return np.asarray(expit(self.margins(X)))
