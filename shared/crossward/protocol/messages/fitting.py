"""Does a model fit its study? Asked by the coordinator before it stores one, and by a target before it learns from one.

The reader works out, from the study and the record counts that the message names, what the party had to release: which
balls, how many weights, at what epsilon, on what grid. Nothing is taken from the message that the study already says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from crossward.errors import CrosswardError, InvalidMessage
from crossward.learning.records import Ball
from crossward.learning.stacking import LevelOne, MajorityVote, WeightedVote
from crossward.privacy.output import MOST_STEPS
from crossward.privacy.release import Release
from crossward.protocol.messages.descriptions import CLOSE, grids_of, read_release, records_of, same_release
from crossward.study.build import combiner_of
from crossward.study.file import Study
from crossward.study.learners.cells import HOLDOUT, Role, cells_for
from crossward.study.learners.plan import balls_for, cost
from crossward.study.methods import PstF, PstH, PstS

if TYPE_CHECKING:
    from crossward.protocol.messages.model import ModelMessage


def ball_role(role: str) -> Role:
    """Whose balls a model lives in: an aggregate is made of the sources'."""
    return "target" if role == "target" else "source"


def level_one_of(study: Study) -> LevelOne | MajorityVote | WeightedVote | None:
    """What combines a target's level-0 models, None where there is one model only."""
    epsilon = study.epsilon.target
    if isinstance(study.method, PstS | PstF | PstH) and epsilon is not None:
        return combiner_of(study.method, epsilon)
    return None


def misfits(message: ModelMessage, study: Study, allow_seeded: bool) -> Iterator[str]:
    """Every way in which the message is not what the study asks for; the later ones rely on the earlier."""
    try:
        yield from _misfits(message, study, allow_seeded)
    except ArithmeticError:
        yield "a number in it is out of range."


def _misfits(message: ModelMessage, study: Study, allow_seeded: bool) -> Iterator[str]:
    yield from _wrong_place(message, study)
    yield from _wrong_shapes(message, study)
    try:
        release = read_release(message.release)
    except InvalidMessage as error:
        yield str(error)
        return
    if release.seeded and not allow_seeded:
        yield "its noise came from a seeded generator, which others could repeat."
    if message.role == "aggregate":
        yield from _wrong_aggregate(message, release, study)
    else:
        yield from _wrong_release(message, release, study)


def _wrong_place(message: ModelMessage, study: Study) -> Iterator[str]:
    if message.study_hash != study.digest:
        yield "it names the hash of another study."
    if message.method != study.method.name:
        yield f"it was made by {message.method} and the study asks for {study.method.name}."
    if message.role == "source" and message.party not in study.sources:
        yield "the party is not a source of the study."
    if message.role == "target" and message.party not in study.targets:
        yield "the party is not a target of the study."
    if message.role == "target" and not study.method.target_pays:
        yield f"a target releases nothing under {study.method.name}."
    if message.role == "aggregate" and study.method.name != "feature":
        yield f"nothing is aggregated under {study.method.name}."
    yield from _wrong_inputs(message, study)


def _wrong_inputs(message: ModelMessage, study: Study) -> Iterator[str]:
    count = len(message.inputs)
    if len(set(message.inputs)) != count:
        yield "it names an input twice."
    learns = message.role != "source" and study.method.has_sources
    low, high = (study.quorum.sources, len(study.sources)) if learns else (0, 0)
    if not low <= count <= high:
        yield f"it learned from {count} releases, and {low} to {high} are in question."


def _wrong_shapes(message: ModelMessage, study: Study) -> Iterator[str]:
    balls = balls_for(study, ball_role(message.role))
    if len(message.groups) != len(balls):
        yield f"it has {len(message.groups)} models and the study asks for {len(balls)}."
    features = len(study.schema.columns)
    for k, (group, ball) in enumerate(zip(message.groups, balls, strict=False)):
        if not same_ball(group.ball, ball):
            yield f"the columns, q, radius, scale or intercept of model {k} are not the study's."
        elif len(group.weights) != ball.dimension(features):
            yield f"model {k} has {len(group.weights)} weights and the study asks for {ball.dimension(features)}."
    wanted = getattr(study.method, "combiner", None) if message.role == "target" else None
    if message.combiner != wanted:
        yield f"its combiner is {message.combiner} and the study asks for {wanted}."
    learner = level_one_of(study)
    if message.level1 is not None and isinstance(learner, LevelOne):
        extra = len(message.inputs) * len(balls) if getattr(study.method, "mix", None) == "scores" else 0
        scores = len(balls) + extra + learner.intercept
        if len(message.level1.weights) != scores:
            yield f"level-1 has {len(message.level1.weights)} weights and the study asks for {scores}."


def same_ball(sent: Ball, own: Ball) -> bool:
    """The same columns, and numbers that agree to nine digits."""
    numbers = [(getattr(sent, name), getattr(own, name)) for name in ("q", "radius", "intercept", "offset")]
    if sent.columns != own.columns or (sent.scale is None) != (own.scale is None):
        return False
    if sent.scale is not None and own.scale is not None:
        if len(sent.scale) != len(own.scale):
            return False
        numbers += zip(sent.scale, own.scale, strict=True)
    return all(math.isclose(a, b, rel_tol=CLOSE) for a, b in numbers)


def _wrong_release(message: ModelMessage, release: Release, study: Study) -> Iterator[str]:
    """The release must be the one that `cost` announces for the record counts it names."""
    role: Role = "source" if message.role == "source" else "target"
    levels = [level for level in cells_for(study, role) if level != HOLDOUT]
    simple = release.parts or (release,)
    counts = [records_of(part) for part in simple]
    if len(levels) != len(simple) or not all(counts):
        yield "its release description does not name the records of each level."
        return
    named = {level: count for level, count in zip(levels, counts, strict=True) if count}
    if sum(named.values()) != message.n:
        yield f"its release counts {sum(named.values())} records and the message {message.n}."
    try:
        announced = cost(study, role, named, len(message.inputs))
    except CrosswardError as error:
        yield f"no such release is possible: {error}"
        return
    if announced is None or not same_release(release.describe(), announced.describe()):
        yield "its release description is not the one that the study leads to."
        return
    yield from _off_grid(message, simple)


def _wrong_aggregate(message: ModelMessage, release: Release, study: Study) -> Iterator[str]:
    """Post-processing of the sources' releases: as many parts as inputs, none dearer than a source may be."""
    if release.mechanism != "feature-method" or release.composition != "parallel":
        yield "its release is not an aggregate of sources' releases."
    if len(release.parts) != len(message.inputs):
        yield "its release does not name each of its inputs."
    if any(part.epsilon != study.epsilon.source for part in release.parts):
        yield "a source's release in it has another epsilon than the study's."
    if message.n != 0:
        yield "an aggregate is trained on no private records."


def _off_grid(message: ModelMessage, simple: tuple[Release, ...]) -> Iterator[str]:
    """Noised weights are multiples of a public grid; anything finer would carry bits that nobody paid for."""
    grids = [grid for part in simple for grid in grids_of(part)]
    vectors = [group.weights for group in message.groups]
    vectors += [message.level1.weights] if message.level1 is not None else []
    if len(grids) != len(vectors):
        yield "its release does not declare a grid for each model."
        return
    for k, (grid, weights) in enumerate(zip(grids, vectors, strict=True)):
        steps = [weight / grid for weight in weights]
        if not all(abs(step) < MOST_STEPS and step == round(step) for step in steps):
            yield f"the weights of model {k} do not lie on the grid its release declares."
