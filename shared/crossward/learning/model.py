"""What learners return: immutable models that know their ball, their weights and the release they came from."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from crossward.errors import WrongShape
from crossward.learning.checks import check_matrix
from crossward.learning.records import Ball, Records
from crossward.privacy.noise import Array
from crossward.privacy.release import Release


@dataclass(frozen=True, slots=True)
class LinearModel:
    """A linear score w.x on the records of a ball."""

    ball: Ball
    weights: Array
    features: int

    def __post_init__(self) -> None:
        if self.weights.shape != (self.ball.dimension(self.features),):
            raise WrongShape(
                f"The ball has {self.ball.dimension(self.features)} weights and {self.weights.shape} were given."
            )
        self.weights.setflags(write=False)

    def without_intercept(self) -> LinearModel:
        """The same model with an intercept and an offset of zero."""
        ball = replace(self.ball, offset=0.0) if self.ball.offset else self.ball
        weights = np.append(self.weights[:-1], 0.0) if ball.intercept else self.weights
        return LinearModel(ball, weights, self.features)

    def margins(self, X: NDArray[np.floating]) -> Array:
        """w.x and the offset for each record, x inside the ball."""
        return Records.inside(self.ball, check_matrix(X, self.features)).margins(self.weights) + self.ball.offset

    def scores(self, X: NDArray[np.floating]) -> Array:
        """The probability of the positive class, sigma(w.x)."""
        return np.asarray(expit(self.margins(X)))


@dataclass(frozen=True, slots=True)
class ReleasedModel:
    """One linear model and the release that made it."""

    model: LinearModel
    release: Release

    @property
    def weights(self) -> Array:
        """The released weights, the intercept's last."""
        return self.model.weights

    def margins(self, X: NDArray[np.floating]) -> Array:
        """w.x for each record."""
        return self.model.margins(X)

    def scores(self, X: NDArray[np.floating]) -> Array:
        """The probability of the positive class."""
        return self.model.scores(X)


@dataclass(frozen=True, slots=True)
class SplitModel:
    """K linear models on K groups of features, released together. Groups with q = 0 have no model."""

    groups: tuple[LinearModel, ...]
    release: Release

    @property
    def q(self) -> Array:
        """The importance of each group."""
        return np.array([model.ball.q for model in self.groups])
