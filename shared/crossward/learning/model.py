"""What learners return: immutable models that know their weights and their release, and explain themselves.

A model's `contributions` add up to its margin, record by record: what each column, or each group of columns, has said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy.special import expit

from crossward.errors import WrongShape
from crossward.learning.checks import check_matrix
from crossward.learning.records import Ball, Records
from crossward.learning.stored import Rows, StoredRows
from crossward.privacy.noise import Array
from crossward.privacy.release import Release

BASE = "intercept"
"""The part that is the same for every record."""


@dataclass(frozen=True, slots=True)
class Part:
    """Something that a model adds up, and the encoded columns it looks at, where it looks at some itself."""

    name: str
    columns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Contributions:
    """What each part adds to each record's margin: `values` has a row per record and a column per part.

    `by_column`: every part but the last is one column of the records.

    >>> explained = model.contributions(X)  # doctest: +SKIP
    >>> np.allclose(explained.values.sum(axis=1), model.margins(X))  # doctest: +SKIP
    True
    """

    parts: tuple[Part, ...]
    values: Array
    by_column: bool = False

    def by_owner(self, owners: Sequence[str]) -> Contributions:
        """Columns joined by who owns them, as a feature owns its levels; what is not by column stays as it is."""
        if not self.by_column:
            return self
        owned: dict[tuple[str, int | None], list[int]] = {}
        for index, part in enumerate(self.parts):
            key = (owners[part.columns[0]], None) if len(part.columns) == 1 else (part.name, index)
            owned.setdefault(key, []).append(index)
        parts = [
            Part(name, tuple(column for index in same for column in self.parts[index].columns))
            for (name, _), same in owned.items()
        ]
        return Contributions(
            tuple(parts), np.column_stack([self.values.take(same, axis=1).sum(axis=1) for same in owned.values()])
        )


class Model(Protocol):
    """What a target predicts with."""

    @property
    def release(self) -> Release:
        """What made it."""
        ...

    def margins(self, X: Rows) -> Array:
        """One score per record, above 0 for the positive class."""
        ...

    def scores(self, X: Rows) -> Array:
        """The probability of the positive class."""
        ...

    def contributions(self, X: Rows) -> Contributions:
        """What adds up to the margins."""
        ...


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

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns of the records that it looks at."""
        return tuple(range(self.features)) if self.ball.columns is None else self.ball.columns

    def without_intercept(self) -> LinearModel:
        """The same model with an intercept and an offset of zero."""
        ball = replace(self.ball, offset=0.0) if self.ball.offset else self.ball
        weights = np.append(self.weights[:-1], 0.0) if ball.intercept else self.weights
        return LinearModel(ball, weights, self.features)

    def margins(self, X: Rows) -> Array:
        """w.x and the offset for each record, x inside the ball: to the last bit the same in any company."""
        return self._records(X).margins(self.weights, alone=True) + self.ball.offset

    def scores(self, X: Rows) -> Array:
        """The probability of the positive class, sigma(w.x)."""
        return np.asarray(expit(self.margins(X)))

    def contributions(self, X: Rows) -> Contributions:
        """w_j x_j of each column j, x inside the ball; then the intercept and the offset, where there are any."""
        Z = self._records(X).dense() * self.weights
        columns = self.columns
        parts = [Part(f"column {column}", (column,)) for column in columns]
        if self.ball.intercept == 0 and self.ball.offset == 0:
            return Contributions(tuple(parts), Z, by_column=True)
        base = Z[:, len(columns) :].sum(axis=1) + self.ball.offset
        return Contributions((*parts, Part(BASE)), np.column_stack([Z[:, : len(columns)], base]), by_column=True)

    def _records(self, X: Rows) -> Records:
        """The records inside the ball, row by row in memory."""
        X = check_matrix(X, self.features)
        return Records.inside(self.ball, X if isinstance(X, StoredRows) else np.ascontiguousarray(X))


@dataclass(frozen=True, slots=True)
class ReleasedModel:
    """One linear model and the release that made it."""

    model: LinearModel
    release: Release

    @property
    def weights(self) -> Array:
        """The released weights, the intercept's last."""
        return self.model.weights

    def margins(self, X: Rows) -> Array:
        """w.x for each record."""
        return self.model.margins(X)

    def scores(self, X: Rows) -> Array:
        """The probability of the positive class."""
        return self.model.scores(X)

    def contributions(self, X: Rows) -> Contributions:
        """What each column adds to the margin."""
        return self.model.contributions(X)


@dataclass(frozen=True, slots=True)
class SplitModel:
    """K linear models on K groups of features, released together. Groups with q = 0 have no model."""

    groups: tuple[LinearModel, ...]
    release: Release

    @property
    def q(self) -> Array:
        """The importance of each group."""
        return np.array([model.ball.q for model in self.groups])
