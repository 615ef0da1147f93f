"""The learner of each role, and what it will release: known before a record is touched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from crossward.errors import InvalidSetting, TooFewRecords
from crossward.learning.aggregation import BoostedEnsemble, average
from crossward.learning.amp import AMP
from crossward.learning.dppsgd import DPPSGD
from crossward.learning.model import LinearModel, ReleasedModel, SplitModel
from crossward.learning.plr import PLR
from crossward.learning.plr_fs import PLRFS, groups_of
from crossward.learning.records import Ball
from crossward.learning.stacking import PSTF, PSTH, PSTS, LevelOne
from crossward.learning.transfer import SimComb
from crossward.privacy.release import Release, parallel
from crossward.study import methods
from crossward.study.balls import group_balls, starting_pull, whole_ball
from crossward.study.build import combiner_of, one_model, perturbation
from crossward.study.file import Study
from crossward.study.learners.cells import HOLDOUT, LEVEL0, LEVEL1, Role, cells_for
from crossward.values import lambda_at

SourceModel = ReleasedModel | SplitModel
"""What a source, or the aggregator, released."""

Counts = Mapping[str, int]
"""How many records each level has; public, since neighbours replace a record and never add one."""


@dataclass(frozen=True, slots=True)
class Use:
    """A target that trains nothing: it uses this model, made of what others released."""

    model: ReleasedModel


TrainedTarget = PLR | DPPSGD | AMP | PSTF | PSTS
TargetPlan = TrainedTarget | BoostedEnsemble | Use


def balls_for(study: Study, role: Role) -> tuple[Ball, ...]:
    """The balls of the level-0 models a role releases."""
    if isinstance(study.method, methods.PstF | methods.PstH):
        if study.groups is None:
            raise InvalidSetting(f"{study.method.name} needs groups.")
        return group_balls(study.schema, study.encoding, study.groups)
    ball = whole_ball(study.schema, study.encoding)
    parts = study.method.parts if isinstance(study.method, methods.PstS) and role == "target" else 1
    return (ball,) * parts


def source_learner(study: Study, records: int) -> PLRFS | PLR | DPPSGD | AMP:
    """What a source of the study trains, on the records of all cells but the holdout."""
    method, epsilon = study.method, study.epsilon.source
    if epsilon is None:
        raise InvalidSetting(f"{method.name} has no sources.", "Only targets train in this study.")
    balls = balls_for(study, "source")
    start = starting_pull(study.schema, study.encoding, balls[0])
    if isinstance(method, methods.PstH):
        return PLRFS(groups_of(balls, lambda_at(method.lam_source, records)), epsilon, **perturbation(method))
    if isinstance(method, methods.SimComb):
        return PLR(balls[0], lambda_at(method.lam_source, records), epsilon, start, **perturbation(method))
    if isinstance(method, methods.BorrowedMethod):
        return one_model(method.learner, balls[0], epsilon, records, start)
    raise InvalidSetting(f"{method.name} has no sources.", "Only targets train in this study.")


def target_learner(study: Study, sources: Sequence[SourceModel], records: int) -> TargetPlan:
    """What a target that trains on so many records does with what the sources released.

    Under `feature` that is the aggregator's one model.
    """
    _check_sources(study, sources)
    method = study.method
    if isinstance(method, methods.Boosted):
        return BoostedEnsemble(method.iterations, method.depth, method.rate)
    if isinstance(method, methods.FeatureMethod):
        return Use(_single(sources)[0])
    if isinstance(method, methods.Sourced | methods.Average):
        return Use(average(_single(sources), method.mix))
    if isinstance(method, methods.PstH):
        plan = _unpulled(study, records)
        if not isinstance(plan, PSTF):
            raise InvalidSetting("PST-H is PST-F with pulls.")
        return PSTH(plan.level0, plan.combiner, _split(sources), eta=method.eta, mix=method.mix)
    if isinstance(method, methods.SimComb):
        plan = _unpulled(study, records)
        if not isinstance(plan, PLR):
            raise InvalidSetting("SimComb is PLR with a pull.")
        return SimComb(plan, _single(sources), eta=method.eta, mix=method.mix)
    return _unpulled(study, records)


def _unpulled(study: Study, records: int) -> TrainedTarget:
    """The target's learner before any pull: all that its release depends on."""
    method, epsilon, balls = study.method, study.epsilon.target, balls_for(study, "target")
    if epsilon is None:
        raise InvalidSetting(f"A target releases nothing under {method.name}.", "There is nothing to charge.")
    if isinstance(method, methods.PstS):
        level0 = PLR(balls[0], lambda_at(method.lam_target, records), epsilon, **perturbation(method))
        return PSTS(level0, method.parts, combiner_of(method, epsilon))
    if isinstance(method, methods.PstF | methods.PstH):
        split = PLRFS(groups_of(balls, lambda_at(method.lam_target, records)), epsilon, **perturbation(method))
        return PSTF(split, combiner_of(method, epsilon), name="PST-H" if method.has_sources else "PST-F")
    if isinstance(method, methods.SimComb):
        return PLR(balls[0], lambda_at(method.lam_target, records), epsilon, **perturbation(method))
    if isinstance(method, methods.Direct | methods.Dppsgd | methods.Amp):
        start = starting_pull(study.schema, study.encoding, balls[0])
        return one_model(method, balls[0], epsilon, records, start)
    raise InvalidSetting(f"A target releases nothing under {method.name}.", "There is nothing to charge.")


def cost(
    study: Study, role: Role, counts: Counts, sources: Sequence[SourceModel] | int | None = None
) -> Release | None:
    """What a role will release from so many records per level; None where nothing leaves and nothing is charged.

    Given the `sources`' models this is the very description that training returns. For planning, before there are
    any, their number is enough (by default all of the study's): the description then names no pull.
    """
    if role == "target" and not study.method.target_pays:
        return None
    wanted = [level for level in cells_for(study, role) if level != HOLDOUT]
    if sorted(counts) != sorted(wanted):
        raise InvalidSetting(f"Records are counted for {sorted(counts)}.", f"Count them for {', '.join(wanted)}.")
    if empty := [level for level, count in counts.items() if count < 1]:
        raise TooFewRecords(f"There are no records for {', '.join(empty)}.", "Bring more records.")
    features, records = len(study.schema.columns), sum(counts.values())
    if role == "source":
        return source_learner(study, records).release(records, features)
    if sources is None or isinstance(sources, int):
        learner: TargetPlan = _before_sources(study, sources, records)
    else:
        learner = target_learner(study, sources, records)
    if isinstance(learner, BoostedEnsemble | Use):
        return None
    if isinstance(learner, PSTS):
        return parts_release(learner, [counts[level] for level in wanted], features)
    if isinstance(learner, PSTF):
        held = counts.get(LEVEL1, 0)
        return learner.release(counts[LEVEL0] + held, features, held)
    return learner.release(counts[LEVEL0], features)


def parts_release(learner: PSTS, sizes: Sequence[int], features: int) -> Release:
    """PST-S on given parts: one release per part, on disjoint records, and level-1's on the last size."""
    levels = [learner.level0.release(size, features) for size in sizes[: learner.parts]]
    if isinstance(learner.combiner, LevelOne):
        levels.append(learner.combiner.release(sizes[-1], learner.importance))
    return parallel("PST-S", *levels)


def _before_sources(study: Study, sources: int | None, records: int) -> TrainedTarget:
    """The target's learner without its pulls. Under `mix: scores` stand-ins: only their number matters."""
    learner = _unpulled(study, records)
    if not (isinstance(learner, PSTF) and getattr(study.method, "mix", None) == "scores"):
        return learner
    features = len(study.schema.columns)
    balls = balls_for(study, "source") * (len(study.sources) if sources is None else sources)
    extra = tuple(LinearModel(ball, np.zeros(ball.dimension(features)), features) for ball in balls)
    return replace(learner, extra=extra)


def _check_sources(study: Study, sources: Sequence[SourceModel]) -> None:
    """Enough of them: a coordinator that withholds releases cannot make a target start below the quorum."""
    if not study.method.has_sources:
        low = high = 0
    elif study.method.name == "feature":
        low = high = 1
    else:
        low, high = study.quorum.sources, len(study.sources)
    if not low <= len(sources) <= high:
        wanted = f"{low}" if low == high else f"{low} to {high}"
        raise InvalidSetting(
            f"{study.method.name} learns from {wanted} released models here, and {len(sources)} were given.",
            "Pass what the study's sources released.",
        )


def _single(sources: Sequence[SourceModel]) -> list[ReleasedModel]:
    models = [source for source in sources if isinstance(source, ReleasedModel)]
    if len(models) != len(sources):
        raise InvalidSetting("A source released models of feature groups, and one model is needed.")
    return models


def _split(sources: Sequence[SourceModel]) -> list[SplitModel]:
    models = [source for source in sources if isinstance(source, SplitModel)]
    if len(models) != len(sources):
        raise InvalidSetting("A source released one model, and models of feature groups are needed.")
    return models
