"""From a study's public settings to the balls its models live in, and to the weights they start from.

    whole    one ball over the kept columns:    r = radius ||s||,  q = 1
    groups   K balls over K sets of them:       r_k = radius ||s_k||,  q_k = 1/K or by importance

with s_j = factor_j (importance_j / largest)^p, the factors being 1 where the study names none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from crossward.errors import InvalidSetting
from crossward.learning.encoding import (
    NormShare,
    Schema,
    importance_groups,
    importance_scale,
    typical_radius,
    uniform_groups,
)
from crossward.learning.records import Ball
from crossward.learning.regulariser import Pull
from crossward.study.sections import Encoding, Groups


def kept_columns(schema: Schema, encoding: Encoding) -> tuple[int, ...] | None:
    """The places of the columns that are kept, None for all."""
    if encoding.columns is None:
        return None
    check_columns(schema, encoding.columns)
    return tuple(j for j, column in enumerate(schema.columns) if column in encoding.columns)


def column_scale(schema: Schema, encoding: Encoding, kept: Sequence[int] | None) -> tuple[float, ...] | None:
    """s of the kept columns, or None where columns stay as they are."""
    if encoding.importance_power == 0 and encoding.columns is None:
        return None
    powers = importance_scale(schema.importance, encoding.importance_power)
    if kept is None or encoding.columns is None:
        return powers
    return tuple(encoding.columns[schema.columns[j]] * powers[j] for j in kept)


def whole_ball(schema: Schema, encoding: Encoding) -> Ball:
    """The ball of a model on all kept columns."""
    kept = kept_columns(schema, encoding)
    scale = column_scale(schema, encoding, kept)
    radius = typical_radius(len(schema.columns if kept is None else kept), encoding.radius, scale)
    return Ball(radius, columns=kept, scale=scale, intercept=encoding.intercept, offset=encoding.offset or 0.0)


def group_balls(schema: Schema, encoding: Encoding, groups: Groups) -> tuple[Ball, ...]:
    """The balls of PLR-FS; a group whose columns have no importance at all is dropped."""
    kept = kept_columns(schema, encoding)
    places = tuple(range(len(schema.columns))) if kept is None else kept
    scale, share = column_scale(schema, encoding, kept), NormShare(encoding.radius)
    if groups.kind == "uniform":
        balls = uniform_groups(len(places), groups.k, groups.seed, share, intercept=encoding.intercept, scale=scale)
    else:
        importance = [schema.importance[j] for j in places]
        balls = importance_groups(importance, groups.k, share, intercept=encoding.intercept, scale=scale)
    offset = encoding.offset or 0.0
    return tuple(replace(b, columns=tuple(places[i] for i in b.columns or ()), offset=offset) for b in balls)


def starting_pull(schema: Schema, encoding: Encoding, ball: Ball) -> Pull | None:
    """What a model that is pulled to no source is held to: the study's public start, None for 0."""
    start = encoding.start
    if start is None:
        return None
    check_columns(schema, start.columns)
    names = schema.columns if ball.columns is None else [schema.columns[j] for j in ball.columns]
    weights = [start.columns.get(name, 0.0) for name in names]
    return Pull(np.array([*weights, start.intercept] if ball.intercept > 0 else weights))


def check_columns(schema: Schema, named: Sequence[str] | dict[str, float]) -> None:
    """Refuse columns that the schema does not have."""
    if unknown := [name for name in named if name not in schema.columns]:
        raise InvalidSetting(
            f"There is no column {unknown[0]!r}.", f"Columns are features, or feature=level: {schema.columns[0]!r}."
        )
