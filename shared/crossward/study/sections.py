"""The smaller sections of a study: groups, encoding, epsilon, quorum, cells, and what `auto` chose."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, PlainSerializer

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
from crossward.methods.base import CellCounts
from crossward.values import (
    MOST_COLUMNS,
    AtLeastOne,
    Count,
    Name,
    NotNegative,
    Positive,
    Real,
    Section,
    Text,
    Whole,
    refusal,
)

LONGEST = timedelta(days=3660)

_UNITS = ("weeks", "days", "hours", "minutes", "seconds")
_SHORT = re.compile(r"(?:(\d{1,9})w)?(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?", re.ASCII)
_ISO = re.compile(r"P(?:(\d{1,9})W)?(?:(\d{1,9})D)?(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})S)?)?", re.ASCII)


def read_duration(value: Any) -> timedelta:
    """A duration above zero and of at most ten years. Months and years have no fixed length and are refused."""
    if isinstance(value, timedelta):
        length = value
    else:
        match = _ISO.fullmatch(value) or _SHORT.fullmatch(value) if isinstance(value, str) else None
        parts = {} if match is None else dict(zip(_UNITS, (int(part or 0) for part in match.groups()), strict=True))
        length = timedelta(**parts)
    if not timedelta(0) < length <= LONGEST:
        raise refusal(f"{value!r} is not a duration of up to ten years.", 'Write "2h", "1d12h" or ISO 8601, "PT2H".')
    return timedelta(seconds=int(length.total_seconds())) or timedelta(seconds=1)


def write_duration(length: timedelta) -> str:
    """ISO 8601 with days, hours, minutes and seconds, leaving out what is zero."""
    seconds = int(length.total_seconds())
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    date = f"{days}D" if days else ""
    time = "".join(f"{value}{unit}" for value, unit in ((hour, "H"), (minute, "M"), (second, "S")) if value)
    return f"P{date}T{time}" if time else f"P{date}"


Duration = Annotated[timedelta, BeforeValidator(read_duration), PlainSerializer(write_duration, return_type=str)]


class Groups(Section):
    """K groups of the encoded columns: `uniform` in an order drawn by a published seed, or cut by `importance`."""

    kind: Literal["uniform", "importance"]
    k: AtLeastOne
    seed: Whole = 0


class Start(Section):
    """Public weights to start from, in the ball's own units: the intercept's, and those of encoded columns."""

    intercept: Real = 0.0
    columns: Annotated[dict[Name, Real], Field(default_factory=dict, max_length=MOST_COLUMNS)]


class Encoding(Section):
    """How a record enters its ball.

    `radius`: a share of the largest norm the columns allow. `importance_power`: columns are scaled by importance to
    this power (0: not at all). `intercept`: the constant column, as a share of the radius (0: none). `columns`: which
    encoded columns are kept, and a public factor for each (left out: all, as they are). `start`: the weights that a
    model which is pulled to no source is held to instead of 0, by column; one that is not named starts at 0.
    `offset`: the margin of a record about which the weights say nothing, such as the declared log odds.

    It stands for the balls that models live in:

        whole    one ball over the kept columns:    r = radius ||s||,  q = 1
        groups   K balls over K sets of them:       r_k = radius ||s_k||,  q_k = 1/K or by importance

    with s_j = factor_j (importance_j / largest)^p, the factors being 1 where the study names none.
    """

    radius: Positive = 0.35
    importance_power: NotNegative = 0.5
    intercept: NotNegative = 0.3
    columns: Annotated[dict[Name, Positive] | None, Field(min_length=1, max_length=MOST_COLUMNS)] = None
    start: Start | None = None
    offset: Real | None = None

    def kept_columns(self, schema: Schema) -> tuple[int, ...] | None:
        """The numbers of the columns that are kept, None for all."""
        if self.columns is None:
            return None
        _check_columns(schema, self.columns)
        return tuple(j for j, column in enumerate(schema.columns) if column in self.columns)

    def column_scale(self, schema: Schema, kept: Sequence[int] | None) -> tuple[float, ...] | None:
        """s of the kept columns, or None where columns stay as they are."""
        if self.importance_power == 0 and self.columns is None:
            return None
        powers = importance_scale(schema.importance, self.importance_power)
        if kept is None or self.columns is None:
            return powers
        return tuple(self.columns[schema.columns[j]] * powers[j] for j in kept)

    def whole_ball(self, schema: Schema) -> Ball:
        """The ball of a model on all kept columns."""
        kept = self.kept_columns(schema)
        scale = self.column_scale(schema, kept)
        radius = typical_radius(len(schema.columns if kept is None else kept), self.radius, scale)
        return Ball(radius, columns=kept, scale=scale, intercept=self.intercept, offset=self.offset or 0.0)

    def group_balls(self, schema: Schema, groups: Groups) -> tuple[Ball, ...]:
        """The balls of PLR-FS; a group whose columns have no importance at all is dropped."""
        kept = self.kept_columns(schema)
        columns = tuple(range(len(schema.columns))) if kept is None else kept
        scale, share = self.column_scale(schema, kept), NormShare(self.radius)
        if groups.kind == "uniform":
            balls = uniform_groups(len(columns), groups.k, groups.seed, share, intercept=self.intercept, scale=scale)
        else:
            importance = [schema.importance[j] for j in columns]
            balls = importance_groups(importance, groups.k, share, intercept=self.intercept, scale=scale)
        offset = self.offset or 0.0
        return tuple(replace(b, columns=tuple(columns[i] for i in b.columns or ()), offset=offset) for b in balls)

    def starting_pull(self, schema: Schema, ball: Ball) -> Pull | None:
        """What a model that is pulled to no source is held to: the study's public start, None for 0."""
        start = self.start
        if start is None:
            return None
        _check_columns(schema, start.columns)
        names = schema.columns if ball.columns is None else [schema.columns[j] for j in ball.columns]
        weights = [start.columns.get(name, 0.0) for name in names]
        return Pull(np.array([*weights, start.intercept] if ball.intercept > 0 else weights))


def _check_columns(schema: Schema, named: Iterable[str]) -> None:
    """Refuse columns that the schema does not have."""
    if unknown := [name for name in named if name not in schema.columns]:
        raise InvalidSetting(
            f"There is no column {unknown[0]!r}.", f"Columns are features, or feature=level: {schema.columns[0]!r}."
        )


class Epsilon(Section):
    """What one release costs a record, at a source and at a target; none where that side releases nothing."""

    source: Positive | None = None
    target: Positive | None = None


class Chosen(Section):
    """What `method: auto` was resolved to, and why. A note for those who approve: the method itself says what runs."""

    by: Literal["auto"]
    rules: Name
    why: Text


class Quorum(Section):
    """How many sources must have released before targets start, and how long the study waits for the others."""

    sources: Count
    deadline: Duration = timedelta(days=7)


class Cells(Section):
    """How many of a dataset's 20 cells train level-0, train level-1, and are held out for evaluation at the site."""

    level0: AtLeastOne = 12
    level1: Count = 4
    holdout: Count = 4

    @property
    def counts(self) -> CellCounts:
        """The three numbers, as methods take them."""
        return CellCounts(self.level0, self.level1, self.holdout)
