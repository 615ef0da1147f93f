"""Encoded rows in, a trained model out. A site fetches its rows by cell and calls these; it has charged already.

The rows are those of `cells_for`, each labelled with its level; holdout rows are refused. What comes back names the
release that `cost` announced, marked if the randomness was seeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from crossward.errors import InvalidSetting, WrongShape
from crossward.learning.aggregation import BoostedEnsemble, FeatureMethod, average
from crossward.learning.aggregation.boosted_ensemble import BoostedModel
from crossward.learning.checks import check_labels, check_matrix
from crossward.learning.model import ReleasedModel, SplitModel
from crossward.learning.stacking import PSTF, PSTS, LevelOne, StackedModel
from crossward.learning.transfer import source_directly
from crossward.privacy.noise import SYSTEM, Array, Randomness
from crossward.privacy.release import Release
from crossward.study import methods
from crossward.study.file import Study
from crossward.study.learners.cells import HOLDOUT, LEVEL1, cells_for, part_name
from crossward.study.learners.plan import (
    SourceModel,
    Use,
    cost,
    parts_release,
    source_learner,
    target_learner,
)

Levels = NDArray[np.str_] | Sequence[str]
AnyModel = ReleasedModel | SplitModel | StackedModel | BoostedModel


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """A role's model. `release` describes what may leave the site; None: nothing may, or nothing was trained.

    `n` counts the records it was trained on, `learned_from` the released models it was pulled to or made of.
    """

    role: Literal["source", "target", "aggregate"]
    model: AnyModel
    release: Release | None
    n: int
    learned_from: int = 0

    def margins(self, X: NDArray[np.floating]) -> Array:
        """One score per encoded record, above 0 for the positive class."""
        return usable(self.model).margins(X)

    def scores(self, X: NDArray[np.floating]) -> Array:
        """The probability of the positive class."""
        return usable(self.model).scores(X)


def usable(model: AnyModel) -> ReleasedModel | StackedModel | BoostedModel:
    """A model that scores records: groups that nobody combined vote by importance."""
    return source_directly(model) if isinstance(model, SplitModel) else model


def train_source(
    study: Study, X: NDArray[np.floating], y: NDArray[np.floating], randomness: Randomness = SYSTEM
) -> TrainedModel:
    """A source's model from all of its rows but the holdout."""
    X = _checked(study, X)
    model = source_learner(study, len(X)).fit(X, y, randomness=randomness)
    return TrainedModel("source", model, model.release, len(X))


def train_target(
    study: Study,
    sources: Sequence[SourceModel],
    X: NDArray[np.floating],
    y: NDArray[np.floating],
    level: Levels,
    randomness: Randomness = SYSTEM,
) -> TrainedModel:
    """A target's model. Where it trains nothing (sourced, average, feature) the rows are not looked at."""
    plan = target_learner(study, sources, len(X))
    if isinstance(plan, Use):
        return TrainedModel("target", plan.model, None, 0, len(sources))
    X = _checked(study, X)
    rows = _rows(study, level, len(X))
    if isinstance(plan, BoostedEnsemble):
        partners = [source for source in sources if isinstance(source, ReleasedModel)]
        return TrainedModel("target", plan.fit(partners, X, y), None, len(X), len(sources))
    announced = cost(study, "target", {name: len(index) for name, index in rows.items()}, sources)
    model: ReleasedModel | StackedModel
    if isinstance(plan, PSTS):
        model = _fit_parts(plan, X, y, rows, randomness)
    elif isinstance(plan, PSTF):
        level1 = np.isin(np.arange(len(X)), rows[LEVEL1]) if LEVEL1 in rows else None
        model = plan.fit(X, y, level1=level1, randomness=randomness)
    else:
        model = plan.fit(X, y, randomness=randomness)
    if announced is None or announced.with_seed_mark(randomness.seeded) != model.release:
        raise InvalidSetting("The release is not the one that was announced and charged.", "Do not publish it.")
    return TrainedModel("target", model, model.release, len(X), len(sources))


def aggregate(
    study: Study, sources: Sequence[ReleasedModel], X: NDArray[np.floating] | None = None, y: Array | None = None
) -> TrainedModel:
    """One model of all sources', by `average` or, from the public set (X, y), by `feature`. Post-processing: free."""
    method = study.method
    if not study.quorum.sources <= len(sources) <= len(study.sources):
        raise InvalidSetting(f"{len(sources)} released models are not a quorum.", "Wait for more sources.")
    if isinstance(method, methods.Average | methods.Sourced):
        model = average(sources, method.mix)
    elif isinstance(method, methods.FeatureMethod) and X is not None and y is not None:
        model = FeatureMethod(method.lam_aggregate).fit(sources, _checked(study, X), y)
    else:
        raise InvalidSetting(f"{method.name} aggregates nothing here.", "The feature method needs its public set.")
    return TrainedModel("aggregate", model, model.release, 0, len(sources))


def _checked(study: Study, X: NDArray[np.floating]) -> NDArray[np.floating]:
    return check_matrix(X, len(study.schema.columns))


def _rows(study: Study, level: Levels, n: int) -> dict[str, NDArray[np.intp]]:
    """The rows of each level, in the study's order."""
    labels = np.asarray(level)
    if labels.shape != (n,):
        raise WrongShape(f"There are {n} records and {labels.shape} levels.", "Give one level per record.")
    names = [name for name in cells_for(study, "target") if name != HOLDOUT]
    if strange := sorted(set(labels.tolist()) - set(names)):
        raise InvalidSetting(
            f"Rows are labelled {', '.join(map(str, strange))}.", f"This study trains on {', '.join(names)} only."
        )
    return {name: np.flatnonzero(labels == name) for name in names}


def _fit_parts(
    plan: PSTS,
    X: NDArray[np.floating],
    y: NDArray[np.floating],
    rows: dict[str, NDArray[np.intp]],
    randomness: Randomness,
) -> StackedModel:
    """PST-S on parts that cells decided: a PLR on each, and what combines them."""
    labels = check_labels(y, len(X))
    sizes = [len(index) for index in rows.values()]
    release = parts_release(plan, sizes, X.shape[1]).with_seed_mark(randomness.seeded)
    parts = [rows[part_name(k)] for k in range(plan.parts)]
    models = tuple(plan.level0.train(X[part], labels[part], randomness) for part in parts)
    if not isinstance(plan.combiner, LevelOne):
        return StackedModel(models, plan.combiner, release)
    high = rows[LEVEL1]
    top = plan.combiner.train(models, plan.importance, X[high], labels[high], randomness)
    return StackedModel(models, top, release)
