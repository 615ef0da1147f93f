"""A record's margin, score and explanation are the same, to the last bit, whichever records come with it."""

from __future__ import annotations

import numpy as np
import pytest

from crossward.learning.aggregation import BoostedEnsemble
from crossward.learning.combining import (
    MARGIN,
    SHARED,
    SIGMOID,
    LevelOneModel,
    MajorityVote,
    StackedModel,
    WeightedVote,
)
from crossward.learning.encoding import Category, Number, Schema
from crossward.learning.model import LinearModel, Model, ReleasedModel
from crossward.learning.records import Ball
from toys import ToyRelease

RELEASE = ToyRelease(epsilon=1.0)
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 257)
D = 37
DRAW = np.random.default_rng(3)


def linear(ball: Ball, features: int = D) -> LinearModel:
    return LinearModel(ball, DRAW.normal(size=ball.dimension(features)), features)


BALLS = {
    "all columns": Ball(3.0),
    "an intercept and an offset": Ball(3.0, intercept=0.5, offset=0.25),
    "neighbouring columns": Ball(3.0, columns=tuple(range(3, 24))),
    "scattered columns": Ball(3.0, columns=(1, 2, 5, 11, 12, 20, 21, 22, 30, 36), intercept=1.0),
}


def stacked(combiner) -> StackedModel:
    thirds = [tuple(range(12)), tuple(range(12, 25)), tuple(range(25, D))]
    return StackedModel(tuple(linear(Ball(2.0, q=0.5, columns=columns)) for columns in thirds), combiner, RELEASE)


def boosted() -> Model:
    partners = [ReleasedModel(linear(Ball(3.0)), RELEASE) for _ in range(9)]
    X = DRAW.normal(size=(300, D))
    return BoostedEnsemble(iterations=20).fit(partners, X, np.where(X[:, 0] > 0, 1.0, -1.0))


MODELS = {
    **{name: lambda ball=ball: linear(ball) for name, ball in BALLS.items()},
    "C-mv": lambda: stacked(MajorityVote()),
    "C-wmv": lambda: stacked(WeightedVote()),
    "C-hl of margins": lambda: stacked(LevelOneModel(linear(Ball(2.0, intercept=0.5), 3), MARGIN)),
    "C-hl of sigmoids": lambda: stacked(LevelOneModel(linear(Ball(2.0, offset=0.1), 3), SIGMOID)),
    "C-hl of shared scores": lambda: stacked(LevelOneModel(linear(Ball(2.0), 3), SHARED)),
    "a boosted ensemble": boosted,
}


@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize("kind", MODELS)
def test_alone_as_in_a_batch(kind, layout) -> None:
    model = MODELS[kind]()
    X = np.asarray(DRAW.normal(size=(max(SIZES), D)), order=layout)
    alone = [X[row : row + 1] for row in range(len(X))]
    margins = np.concatenate([model.margins(one) for one in alone])
    scores = np.concatenate([model.scores(one) for one in alone])
    parts = np.concatenate([model.contributions(one).values for one in alone])
    for size in SIZES:
        for start in (0, len(X) - size):
            some = slice(start, start + size)
            assert np.array_equal(model.margins(X[some]), margins[some])
            assert np.array_equal(model.scores(X[some]), scores[some])
            assert np.array_equal(model.contributions(X[some]).values, parts[some])


def test_parts_joined_by_their_owner() -> None:
    levels = tuple(f"level {k}" for k in range(20))
    schema = Schema((Category("many", levels), Number("one", 0, 1)))
    columns = len(schema.columns)
    explained = linear(Ball(3.0, intercept=0.5), columns).contributions(DRAW.normal(size=(9, columns)))
    values = explained.by_owner(schema.column_features).values
    for row in range(9):
        one = type(explained)(explained.parts, explained.values[row : row + 1], by_column=True)
        assert np.array_equal(one.by_owner(schema.column_features).values, values[row : row + 1])
