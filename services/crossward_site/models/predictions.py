"""What a model says about records: a probability, a class, and what each part of the model added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from crossward.learning.model import LinearModel, ReleasedModel
from crossward.learning.records import Records
from crossward.learning.stacking import StackedModel
from crossward.learning.stacking.combiners import LevelOneModel, WeightedVote
from crossward.privacy.noise import Array
from crossward.study import Study
from crossward_site.models.service import Served
from crossward_site.models.views import Contribution, Prediction

Value = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a model that adds to the margin: a group of features, one feature, or the intercept."""

    group: str
    features: tuple[str, ...]


INTERCEPT = Part("intercept", ())


def predict(served: Served, records: Sequence[Mapping[str, Value]]) -> list[Prediction]:
    """Probability, class and what each group added, for raw values in the study's units."""
    X = served.study.schema.encode(list(records))
    margins, (parts, amounts) = served.model.margins(X), contributions(served, X)
    chances = np.asarray(served.model.scores(X))
    return [
        Prediction(
            probability=float(chance),
            positive=bool(margin > 0),
            contributions=[
                Contribution(group=part.group, features=list(part.features), contribution=float(amount))
                for part, amount in zip(parts, row, strict=True)
            ],
        )
        for chance, margin, row in zip(chances, margins, amounts, strict=True)
    ]


def contributions(served: Served, X: Array) -> tuple[list[Part], Array]:
    """What adds up to the margin: by group where groups are combined, by feature where there is one linear model.

    A vote's parts add up to the vote; a boosted ensemble has no parts.
    """
    model, owners = served.model, served.study.schema.column_features
    if isinstance(model, StackedModel):
        parts = [_group(served.study, k, linear) for k, linear in enumerate(model.level0)]
        return _stacked(parts, model, X)
    if isinstance(model, ReleasedModel):
        linear = model.model
        Z = Records.inside(linear.ball, X).dense() * linear.weights
        ball = linear.ball
        columns = owners if ball.columns is None else tuple(owners[column] for column in ball.columns)
        features = list(dict.fromkeys(columns))
        by = [Z[:, [k for k, name in enumerate(columns) if name == feature]].sum(axis=1) for feature in features]
        parts = [Part(feature, (feature,)) for feature in features]
        if ball.intercept > 0 or ball.offset != 0:
            parts.append(INTERCEPT)
            by.append(Z[:, len(columns) :].sum(axis=1) + ball.offset)
        return parts, np.column_stack(by)
    return [], np.empty((len(X), 0))


def _group(study: Study, k: int, model: LinearModel) -> Part:
    owners = study.schema.column_features
    columns = range(len(owners)) if model.ball.columns is None else model.ball.columns
    return Part(f"group {k + 1}", tuple(dict.fromkeys(owners[column] for column in columns)))


def _stacked(parts: list[Part], model: StackedModel, X: Array) -> tuple[list[Part], Array]:
    top = model.combiner
    if isinstance(top, LevelOneModel):
        Z = Records.inside(top.model.ball, top.scores.of(model.level0, X)).dense() * top.model.weights
        return (parts if Z.shape[1] == len(parts) else [*parts, INTERCEPT]), Z
    votes = np.column_stack([np.sign(linear.margins(X)) for linear in model.level0])
    weights = np.array([linear.ball.q if isinstance(top, WeightedVote) else 1.0 for linear in model.level0])
    return parts, votes * weights / weights.sum()
