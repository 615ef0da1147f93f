"""How models are sent: one linear model, one per feature group, or a stack of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crossward.errors import InvalidMessage
from crossward.learning.combining import LevelOne, LevelOneModel, MajorityVote, StackedModel, WeightedVote
from crossward.learning.model import LinearModel, ReleasedModel, SplitModel
from crossward.learning.records import Ball
from crossward.methods.base import SourceModel, Terms, WireWeights
from crossward.privacy.release import Release

STAYS = InvalidMessage("This model does not leave its site.", "Keep it there; send a result without a release.")

Balls = Callable[[Terms], tuple[Ball, ...]]
Combiner = LevelOne | MajorityVote | WeightedVote


def whole_ball(terms: Terms) -> tuple[Ball, ...]:
    """One model over all kept columns."""
    return (terms.ball,)


def group_balls(terms: Terms) -> tuple[Ball, ...]:
    """One model per feature group."""
    return terms.groups


@dataclass(frozen=True, slots=True)
class SingleForm:
    """One linear model."""

    def shape(self, terms: Terms, inputs: int) -> tuple[tuple[Ball, ...], int | None]:
        """One ball, no level-1."""
        return whole_ball(terms), None

    def write(self, model: Any, terms: Terms) -> WireWeights:
        """Its weights."""
        if not isinstance(model, ReleasedModel):
            raise STAYS
        return WireWeights((model.model,))

    def read(self, sent: WireWeights, release: Release, terms: Terms, sources: Sequence[SourceModel]) -> ReleasedModel:
        """The model."""
        return ReleasedModel(sent.models[0], release)


@dataclass(frozen=True, slots=True)
class GroupsForm:
    """One linear model per feature group, not combined: what a source of PST-H sends."""

    def shape(self, terms: Terms, inputs: int) -> tuple[tuple[Ball, ...], int | None]:
        """A ball per group, no level-1."""
        return group_balls(terms), None

    def write(self, model: Any, terms: Terms) -> WireWeights:
        """The weights of each group."""
        if not isinstance(model, SplitModel):
            raise STAYS
        return WireWeights(model.groups)

    def read(self, sent: WireWeights, release: Release, terms: Terms, sources: Sequence[SourceModel]) -> SplitModel:
        """The models."""
        return SplitModel(sent.models, release)


@dataclass(frozen=True, slots=True)
class StackForm:
    """Level-0 models and what combines them. With `scores_sources` the sources' models score beside its own."""

    balls: Balls
    combiner: Combiner
    scores_sources: bool = False

    def shape(self, terms: Terms, inputs: int) -> tuple[tuple[Ball, ...], int | None]:
        """The balls of its own models; level-1 has a weight for each score, and one for its intercept."""
        balls = self.balls(terms)
        if not isinstance(self.combiner, LevelOne):
            return balls, None
        extra = inputs * len(balls) if self.scores_sources else 0
        return balls, len(balls) + extra + self.combiner.intercept

    def write(self, model: Any, terms: Terms) -> WireWeights:
        """Its own models' weights, not its sources', and level-1's."""
        if not isinstance(model, StackedModel):
            raise STAYS
        top = model.combiner
        level1 = top.model.weights if isinstance(top, LevelOneModel) else None
        return WireWeights(model.level0[: len(self.balls(terms))], level1)

    def read(self, sent: WireWeights, release: Release, terms: Terms, sources: Sequence[SourceModel]) -> StackedModel:
        """The stack, with the sources' models where it scores with them."""
        models = sent.models
        if self.scores_sources:
            if not sources:
                raise InvalidMessage("The model scores with its sources' models.", "Pass its inputs.")
            models += tuple(model for source in sources if isinstance(source, SplitModel) for model in source.groups)
        if not isinstance(self.combiner, LevelOne):
            return StackedModel(models, self.combiner, release)
        if sent.level1 is None:
            raise InvalidMessage("Its level-1 weights are missing.", "Refuse it.")
        ball = self.combiner.learner(np.ones(len(models))).ball
        top = LevelOneModel(LinearModel(ball, sent.level1, len(models)), self.combiner.scores)
        return StackedModel(models, top, release)


SINGLE, GROUPS = SingleForm(), GroupsForm()
