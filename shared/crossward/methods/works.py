"""The kinds of work that methods ask of a party: each knows what it will release, and how it is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol

import numpy as np

from crossward.errors import InvalidSetting
from crossward.learning.aggregation import BoostedEnsemble, BoostedModel
from crossward.learning.checks import check_labels
from crossward.learning.combining import LevelOne, StackedModel
from crossward.learning.model import Model, ReleasedModel, SplitModel
from crossward.learning.records import Labels
from crossward.learning.stacking import PSTF, PSTS
from crossward.learning.stored import Rows, count_rows, some_rows
from crossward.methods.base import LEVEL0, LEVEL1, Counts, RowsByLevel
from crossward.privacy.noise import Randomness
from crossward.privacy.release import Release, parallel


class Learner(Protocol):
    """A learner of the library that trains on all rows at once: PLR, PLR-FS, DPPSGD, AMP."""

    def release(self, n: int, features: int) -> Release:
        """What `fit` on n rows will release."""
        ...

    def fit(self, X: Rows, y: Labels, *, randomness: Randomness) -> ReleasedModel | SplitModel:
        """Check, draw, solve, release."""
        ...


@dataclass(frozen=True, slots=True)
class FitAll:
    """One learner on all rows."""

    learner: Learner
    ready: None = None

    def release(self, counts: Counts, features: int) -> Release:
        """The learner's."""
        return self.learner.release(counts[LEVEL0], features)

    def train(self, X: Rows, y: Labels, rows: RowsByLevel, randomness: Randomness) -> ReleasedModel | SplitModel:
        """Fit to all rows."""
        return self.learner.fit(X, y, randomness=randomness)


@dataclass(frozen=True, slots=True)
class FitGroups:
    """PST-F and PST-H: level-0 on groups of features, level-1 on rows of its own."""

    learner: PSTF
    ready: None = None

    def release(self, counts: Counts, features: int) -> Release:
        """Both levels', on disjoint rows."""
        held = counts.get(LEVEL1, 0)
        return self.learner.release(counts[LEVEL0] + held, features, held)

    def train(self, X: Rows, y: Labels, rows: RowsByLevel, randomness: Randomness) -> StackedModel:
        """Fit both levels, each to its rows."""
        high = rows.get(LEVEL1)
        level1 = high if high is None or isinstance(high, slice) else np.isin(np.arange(len(X)), high)
        return self.learner.fit(X, y, level1=level1, randomness=randomness)


@dataclass(frozen=True, slots=True)
class FitParts:
    """PST-S: a model on each part, which cells decide, and what combines them."""

    learner: PSTS
    ready: None = None

    def release(self, counts: Counts, features: int) -> Release:
        """One release per part, on disjoint rows, and level-1's."""
        learner, parts = self.learner, [count for level, count in counts.items() if level != LEVEL1]
        levels = [learner.level0.release(count, features) for count in parts]
        if isinstance(learner.combiner, LevelOne):
            levels.append(learner.combiner.release(counts[LEVEL1], learner.importance))
        return parallel("PST-S", *levels)

    def train(self, X: Rows, y: Labels, rows: RowsByLevel, randomness: Randomness) -> StackedModel:
        """A PLR on each part, then level-1."""
        learner, labels = self.learner, check_labels(y, len(X))
        release = self.release({level: count_rows(index) for level, index in rows.items()}, X.shape[1])
        release = release.with_seed_mark(randomness.seeded)
        parts = [index for level, index in rows.items() if level != LEVEL1]
        models = tuple(learner.level0.train(some_rows(X, part), labels[part], randomness) for part in parts)
        if not isinstance(learner.combiner, LevelOne):
            return StackedModel(models, learner.combiner, release)
        high = rows[LEVEL1]
        top = learner.combiner.train(models, learner.importance, some_rows(X, high), labels[high], randomness)
        return StackedModel(models, top, release)


@dataclass(frozen=True, slots=True)
class Boost:
    """Gradient boosting over the partners' scores: not private, so nothing of it leaves."""

    ensemble: BoostedEnsemble
    partners: Sequence[Model]
    ready: None = None

    def release(self, counts: Counts, features: int) -> None:
        """Nothing leaves."""

    def train(self, X: Rows, y: Labels, rows: RowsByLevel, randomness: Randomness) -> BoostedModel:
        """Fit to the target's own rows."""
        return self.ensemble.fit(self.partners, X, y)


@dataclass(frozen=True, slots=True)
class UseAsIs:
    """A model made of what others released: nothing is trained, no row is looked at."""

    ready: Model

    def release(self, counts: Counts, features: int) -> None:
        """Nothing leaves."""

    def train(self, X: Rows, y: Labels, rows: RowsByLevel, randomness: Randomness) -> NoReturn:
        """There is nothing to train."""
        raise InvalidSetting("This model is used as it is.", "Take it when it is ready.")
