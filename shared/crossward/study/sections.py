"""The smaller sections of a study: groups, encoding, epsilon, quorum, cells, and what `auto` chose."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from crossward.study.durations import Duration
from crossward.values import ADDED, MOST_COLUMNS, Count, Name, NotNegative, Positive, Real, Section, Text, Whole
from crossward.values import AtLeastOne as One

CELLS = 20
"""Every dataset is cut into this many permanent cells."""


class Groups(Section):
    """K groups of the encoded columns: `uniform` in an order drawn by a published seed, or cut by `importance`."""

    kind: Literal["uniform", "importance"]
    k: One
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
    """

    radius: Positive = 0.35
    importance_power: NotNegative = 0.5
    intercept: NotNegative = 0.3
    columns: Annotated[dict[Name, Positive] | None, Field(min_length=1, max_length=MOST_COLUMNS), ADDED] = None
    start: Annotated[Start | None, ADDED] = None
    offset: Annotated[Real | None, ADDED] = None


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

    level0: One = 12
    level1: Count = 4
    holdout: Count = 4
