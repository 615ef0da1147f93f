"""A released model on the wire: its balls and weights, how they combine, and the release that made them.

Floats are written so that they read back exactly, and a private weight lies on the grid its release declares, so the
reader has the very model that was released. Balls are public and follow from the study: the reader checks those sent
(to nine digits, since machines differ in the last) and then uses its own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from crossward.errors import InvalidInput, InvalidMessage
from crossward.learning.model import LinearModel, ReleasedModel, SplitModel
from crossward.learning.records import Ball
from crossward.learning.stacking import LevelOne, MajorityVote, StackedModel, WeightedVote
from crossward.learning.stacking.combiners import LevelOneModel
from crossward.protocol.messages.base import Content, Digest, Json, Part
from crossward.protocol.messages.descriptions import read_release
from crossward.protocol.messages.fitting import ball_role, level_one_of, misfits
from crossward.study.file import Study
from crossward.study.learners import TrainedModel, balls_for
from crossward.study.methods import METHODS, CombinerName
from crossward.values import (
    ADDED,
    MOST_COLUMNS,
    MOST_PARTIES,
    Count,
    NotNegative,
    Positive,
    Real,
    Slug,
    Unit,
    resaid,
    said,
)

Weights = Annotated[tuple[Real, ...], Field(min_length=1, max_length=MOST_COLUMNS + 1)]


class GroupWeights(Part):
    """One linear model: which columns (None: all), how they enter their ball, and the weights, the intercept's last."""

    columns: Annotated[tuple[Count, ...], Field(min_length=1, max_length=MOST_COLUMNS)] | None
    q: Annotated[Unit, Field(gt=0)]
    radius: Positive
    scale: Annotated[tuple[NotNegative, ...], Field(min_length=1, max_length=MOST_COLUMNS)] | None
    intercept: NotNegative
    offset: Annotated[Real | None, ADDED] = None
    weights: Weights

    @model_validator(mode="after")
    def _one_length(self) -> GroupWeights:
        width = len(self.weights) - (self.intercept > 0)
        for name, values in (("columns", self.columns), ("scale", self.scale)):
            if values is not None and len(values) != width:
                raise said(f"{len(values)} {name} and {width} weights beside the intercept.", "Send one for each.")
        try:
            _ = self.ball
        except InvalidInput as error:
            raise resaid(error) from None
        return self

    @classmethod
    def of(cls, model: LinearModel) -> GroupWeights:
        """A library model, written down."""
        ball = model.ball
        return cls(
            columns=ball.columns,
            q=ball.q,
            radius=ball.radius,
            scale=ball.scale,
            intercept=ball.intercept,
            offset=ball.offset or None,
            weights=tuple(model.weights.tolist()),
        )

    @property
    def ball(self) -> Ball:
        """The ball as it was sent."""
        return Ball(self.radius, self.q, self.columns, self.scale, self.intercept, self.offset or 0.0)


class LevelOneWeights(Part):
    """The level-1 model of C-hl; its ball follows from the study and the number of scores."""

    weights: Weights


class ModelMessage(Content):
    """A model that leaves its site. `inputs` are the digests of the releases it learned from, in their order."""

    study_hash: Digest
    party: Slug
    role: Literal["source", "target", "aggregate"]
    method: Literal[tuple(METHODS)]  # type: ignore[valid-type]
    n: Count
    groups: Annotated[tuple[GroupWeights, ...], Field(min_length=1, max_length=MOST_COLUMNS)]
    combiner: CombinerName | None = None
    level1: LevelOneWeights | None = None
    release: Json
    inputs: Annotated[tuple[Digest, ...], Field(max_length=MOST_PARTIES)] = ()

    @model_validator(mode="after")
    def _consistent(self) -> ModelMessage:
        if (self.level1 is not None) != (self.combiner == "C-hl"):
            raise said("Level-1 weights go with the combiner C-hl, and only with it.", "Send both or neither.")
        return self

    @classmethod
    def of(cls, study: Study, trained: TrainedModel, party: str, inputs: Sequence[ModelMessage] = ()) -> ModelMessage:
        """What a trained model sends. Refuses what must stay at the site."""
        if trained.release is None or not trained.release.private:
            raise InvalidMessage(
                "This model does not leave its site.", "Keep it there; send a result without a release."
            )
        if len(inputs) != trained.learned_from:
            raise InvalidMessage(
                f"It learned from {trained.learned_from} releases, not {len(inputs)}.", "Name them all."
            )
        models, level1 = _written(trained, len(balls_for(study, ball_role(trained.role))))
        return cls(
            study_hash=study.digest,
            party=party,
            role=trained.role,
            method=study.method.name,
            n=trained.n,
            groups=tuple(map(GroupWeights.of, models)),
            combiner=getattr(study.method, "combiner", None) if trained.role == "target" else None,
            level1=level1,
            release=json.loads(trained.release.canonical()),
            inputs=tuple(message.digest for message in inputs),
        )

    def check_against(self, study: Study, *, allow_seeded: bool = False) -> None:
        """Refuse a model that is not what the study asks of this party and role. Services never allow a seed."""
        for cause in misfits(self, study, allow_seeded):
            raise InvalidMessage(f"The {self.role}'s model of {self.party!r} does not fit: {cause}", "Refuse it.")

    def to_model(self, study: Study, inputs: Sequence[ModelMessage] = ()) -> ReleasedModel | SplitModel | StackedModel:
        """The library's model. `inputs` are needed where sources' scores are meta-features (`mix: scores`)."""
        self.check_against(study, allow_seeded=True)
        features, release = len(study.schema.columns), read_release(self.release)
        models = tuple(
            LinearModel(ball, np.array(group.weights), features)
            for ball, group in zip(balls_for(study, ball_role(self.role)), self.groups, strict=True)
        )
        if self.combiner is not None:
            models += self._extra(study, inputs)
            return StackedModel(models, self._combiner(study, len(models)), release)
        if self.role == "source" and study.method.grouped:
            return SplitModel(models, release)
        return ReleasedModel(models[0], release)

    def _extra(self, study: Study, inputs: Sequence[ModelMessage]) -> tuple[LinearModel, ...]:
        if getattr(study.method, "mix", None) != "scores":
            return ()
        if tuple(message.digest for message in inputs) != self.inputs:
            raise InvalidMessage(
                "The model scores with its sources' models, and others were given.", "Pass its inputs."
            )
        sources = [message.to_model(study) for message in inputs]
        return tuple(model for source in sources if isinstance(source, SplitModel) for model in source.groups)

    def _combiner(self, study: Study, K: int) -> MajorityVote | WeightedVote | LevelOneModel:
        learner = level_one_of(study)
        if isinstance(learner, LevelOne) and self.level1 is not None:
            ball = learner.learner(np.ones(K)).ball
            return LevelOneModel(LinearModel(ball, np.array(self.level1.weights), K), learner.scores)
        return MajorityVote() if self.combiner == "C-mv" else WeightedVote()


def _written(trained: TrainedModel, own: int) -> tuple[Sequence[LinearModel], LevelOneWeights | None]:
    """The models of its own that a trained model sends (not its sources'), and its level-1 weights."""
    if isinstance(trained.model, StackedModel):
        top = trained.model.combiner
        weights = tuple(top.model.weights.tolist()) if isinstance(top, LevelOneModel) else None
        return trained.model.level0[:own], None if weights is None else LevelOneWeights(weights=weights)
    if isinstance(trained.model, SplitModel):
        return trained.model.groups, None
    if isinstance(trained.model, ReleasedModel):
        return (trained.model.model,), None
    raise InvalidMessage("This model does not leave its site.", "Keep it there; send a result without a release.")
