"""Combining level-0 models: majority vote (C-mv), importance-weighted vote (C-wmv), level-1 model (C-hl).

The votes are post-processing and need no records. The level-1 model is a PLR on meta-features of records that level-0
did not see, so that a record pays for one level only. What it sees of a level-0 model:

- `sigmoid` (000 step 14): sigma(w_k.x), in (0, 1). With rare positives these crowd together far from 1/2 and level-1
  noise can flip their weights; they need an intercept.
- `margin`: gain * w_k.x / (||w_k|| q_k), clipped to [-1, 1], w_k without its intercept: the cosine between record and
  weights, stretched. It fills its range, so the level-1 noise is small beside it. (With the intercept, rare positives
  would push every record to -1; level-1 has an intercept of its own.)
- `shared`: the same, but all divided by the longest of the ||w_k|| q_k. A group that learned little has short weights
  and says little: the plain sum of these scores is the sum of the models' log odds, where a sum of `margin` scores
  would give a group of pure noise as much to say as any other.

Each is post-processing of released weights, so it costs nothing, and each lies in [-1, 1], so K of them have norm at
most sqrt(K) and fit the level-1 ball without ever being cut.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, overload

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from crossward.errors import InvalidSetting
from crossward.learning.losses import LOGISTIC, Loss
from crossward.learning.model import BASE, Contributions, LinearModel, Part, SplitModel
from crossward.learning.plr import PLR, TOLERANCE
from crossward.learning.records import Ball, Labels
from crossward.learning.regulariser import Pull
from crossward.learning.stored import Rows, StoredRows
from crossward.privacy.budget import Epsilon
from crossward.privacy.calibration import Jacobian
from crossward.privacy.mechanisms import ObjectivePerturbation
from crossward.privacy.noise import Array, Randomness
from crossward.privacy.release import Release


@dataclass(frozen=True, slots=True)
class Scores:
    """How level-0 models turn into meta-features. `gain` stretches margin scores; it is a public constant."""

    kind: Literal["sigmoid", "margin", "shared"] = "margin"
    gain: float = 2.0

    def __post_init__(self) -> None:
        if self.kind not in ("sigmoid", "margin", "shared"):
            raise InvalidSetting(f"Scores are 'sigmoid', 'margin' or 'shared', not {self.kind!r}.")
        if not (math.isfinite(self.gain) and self.gain > 0):
            raise InvalidSetting(f"gain must be a finite number above 0, not {self.gain!r}.")

    @overload
    def of(self, models: Sequence[LinearModel], X: NDArray[np.floating]) -> Array: ...
    @overload
    def of(self, models: Sequence[LinearModel], X: Rows) -> Rows: ...
    def of(self, models: Sequence[LinearModel], X: Rows) -> Rows:
        """The meta-features of each record: (n, K); stored where the records are."""
        if isinstance(X, StoredRows):
            scores = X.like(len(models))
            for block in X.blocks():
                scores.append(self.of(models, block))
            return scores
        if self.kind == "sigmoid":
            return np.column_stack([expit(model.margins(X)) for model in models])
        sloped = [model.without_intercept() for model in models]
        lengths = [float(np.linalg.norm(model.weights)) * model.ball.q for model in sloped]
        if self.kind == "shared":
            lengths = [max(lengths)] * len(models)
        return np.column_stack([self._margin(*pair, X) for pair in zip(sloped, lengths, strict=True)])

    def vote(self, q: Array) -> Array:
        """How much each score says where nothing has been learned about them: shares that sum to 1."""
        return np.full(len(q), 1 / len(q)) if self.kind == "shared" else q / q.sum()

    def _margin(self, model: LinearModel, length: float, X: Rows) -> Array:
        margins = model.margins(X)
        return np.clip(self.gain / length * margins, -1.0, 1.0) if length > 0 else margins

    @property
    def middle(self) -> float:
        """The score of a model that cannot tell the classes apart."""
        return 0.5 if self.kind == "sigmoid" else 0.0


SIGMOID = Scores("sigmoid")
MARGIN = Scores("margin")
SHARED = Scores("shared", gain=1.0)
"""Without stretching nothing is cut. A level-1 that starts from the sum has no need to see scores fill their range."""


class Combiner(Protocol):
    """Turns K level-0 models into one score per record: above 0 for the positive class."""

    def combine(self, models: tuple[LinearModel, ...], X: Rows) -> Array:
        """One margin per record."""
        ...

    def contributions(self, models: tuple[LinearModel, ...], X: Rows) -> Contributions:
        """What each model adds to the margins."""
        ...


TIE = 1e-12
"""Shares are rounded, so votes that cancel may leave this much."""


class _Vote:
    """Models vote for a class; the margin is the weighted mean vote, on [-1, 1]."""

    __slots__ = ()

    def shares(self, models: tuple[LinearModel, ...]) -> Array:
        """How much each vote counts; they sum to 1."""
        raise NotImplementedError

    def combine(self, models: tuple[LinearModel, ...], X: Rows) -> Array:
        """sum_k share_k vote_k."""
        margins = self._weighted(models, X).sum(axis=1)
        return np.where(np.abs(margins) < TIE, 0.0, margins)

    def contributions(self, models: tuple[LinearModel, ...], X: Rows) -> Contributions:
        """share_k vote_k of each model."""
        return Contributions(_parts(models), self._weighted(models, X))

    def _weighted(self, models: tuple[LinearModel, ...], X: Rows) -> Array:
        votes = np.empty((len(X), len(models)))
        for k, (model, share) in enumerate(zip(models, self.shares(models), strict=True)):
            votes[:, k] = share * _vote(model, X)
        return votes


@dataclass(frozen=True, slots=True)
class MajorityVote(_Vote):
    """C-mv: every model has one vote."""

    def shares(self, models: tuple[LinearModel, ...]) -> Array:
        """1/K each."""
        return np.full(len(models), 1 / len(models))


@dataclass(frozen=True, slots=True)
class WeightedVote(_Vote):
    """C-wmv: votes weighted by the importance q_k."""

    def shares(self, models: tuple[LinearModel, ...]) -> Array:
        """q_k / sum_k q_k."""
        q = np.array([model.ball.q for model in models])
        return np.asarray(q / q.sum())


def _vote(model: LinearModel, X: Rows) -> Array:
    """The sign of what the weights say; an offset is the same for every record and would have the last word."""
    return np.sign(model.margins(X) - model.ball.offset)


def _parts(models: Sequence[LinearModel]) -> tuple[Part, ...]:
    return tuple(Part(f"group {k}", model.columns) for k, model in enumerate(models, 1))


@dataclass(frozen=True, slots=True)
class LevelOneModel:
    """C-hl, trained: a linear model on meta-features."""

    model: LinearModel
    scores: Scores

    def combine(self, models: tuple[LinearModel, ...], X: Rows) -> Array:
        """v.[score_1 .. score_K]."""
        return self.model.margins(self.scores.of(models, X))

    def contributions(self, models: tuple[LinearModel, ...], X: Rows) -> Contributions:
        """v_k score_k of each model, and level-1's own intercept and offset."""
        explained = self.model.contributions(self.scores.of(models, X))
        base = tuple(part for part in explained.parts if part.name == BASE)
        return Contributions((*_parts(models), *base), explained.values)


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

    def release(self, n: int, q: Array) -> ObjectivePerturbation:
        """What level-1 will release from n records."""
        return self.learner(q).release(n, len(q))

    def train(
        self,
        models: tuple[LinearModel, ...],
        q: Array,
        X: Rows,
        labels: Labels,
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

    def margins(self, X: Rows) -> Array:
        """The combined score of each record, above 0 for the positive class."""
        return self.combiner.combine(self.level0, X)

    def scores(self, X: Rows) -> Array:
        """sigma of the combined score."""
        return np.asarray(expit(self.margins(X)))

    def contributions(self, X: Rows) -> Contributions:
        """What each level-0 model adds to the combined score."""
        return self.combiner.contributions(self.level0, X)


def source_directly(source: SplitModel) -> StackedModel:
    """SourceD with feature groups: predict at the target with the source's models, which vote by importance."""
    return StackedModel(source.groups, WeightedVote(), source.release)
