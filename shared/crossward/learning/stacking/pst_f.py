"""PST-F: stacking over groups of features (000 Alg. 3). (U) with `uniform_groups`, (W) with `importance_groups`.

    level-0   PLR-FS at eps on the level-0 records: K models, one per group of features
    level-1   PLR at eps on the K scores of the other records (or a vote, which needs no records)

The two sets of records are disjoint, so a record pays eps once. Proof: docs/proofs/stacking.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crossward.errors import InvalidSetting, WrongShape
from crossward.learning.checks import check_labels, check_matrix
from crossward.learning.model import LinearModel
from crossward.learning.plr_fs import PLRFS
from crossward.learning.stacking.combiners import LevelOne, MajorityVote, StackedModel, WeightedVote
from crossward.learning.stacking.split import LEVEL1_SHARE, given_split, level1_count, split
from crossward.privacy.filters import Accountant, charge
from crossward.privacy.noise import SYSTEM, Array, Randomness
from crossward.privacy.release import Release, parallel


@dataclass(frozen=True, slots=True)
class PSTF:
    """Level-0 on groups of features, and a combiner. Every setting is public.

    `extra` are released models of others whose scores become meta-features too (several sources).
    """

    level0: PLRFS
    combiner: LevelOne | MajorityVote | WeightedVote
    level1_share: float = LEVEL1_SHARE
    extra: tuple[LinearModel, ...] = ()
    name: str = "PST-F"

    @property
    def importance(self) -> Array:
        """q of each meta-feature: the groups', then the extra models'."""
        own = [group.ball.q for group in self.level0.groups]
        return np.array(own + [model.ball.q for model in self.extra])

    def release(self, n: int, features: int, level1_n: int | None = None) -> Release:
        """What `fit` on n records will release."""
        if any(model.features != features for model in self.extra):
            raise WrongShape(f"A source's model is not for {features} features.", "Encode both sides the same way.")
        if not isinstance(self.combiner, LevelOne):
            return parallel(self.name, self.level0.release(n, features))
        held = level1_count(n, self.level1_share) if level1_n is None else level1_n
        return parallel(
            self.name, self.level0.release(n - held, features), self.combiner.release(held, self.importance)
        )

    def fit(
        self,
        X: NDArray[np.floating],
        y: NDArray[np.floating],
        *,
        level1: NDArray[np.bool_] | None = None,
        randomness: Randomness = SYSTEM,
        accountant: Accountant | None = None,
    ) -> StackedModel:
        """Train both levels. `level1` marks the level-1 records where that was decided beforehand."""
        X = check_matrix(X)
        labels = check_labels(y, len(X))
        if isinstance(self.combiner, LevelOne):
            return self._fit_levels(X, labels, level1, self.combiner, randomness, accountant)
        if level1 is not None:
            raise InvalidSetting("A vote trains no level-1 model.", "Leave level1 out, or combine with a LevelOne.")
        release = self.release(*X.shape).with_seed_mark(randomness.seeded)
        charge(accountant, release)
        return StackedModel(self.level0.train(X, labels, randomness) + self.extra, self.combiner, release)

    def _fit_levels(
        self,
        X: NDArray[np.floating],
        labels: Array,
        level1: NDArray[np.bool_] | None,
        learner: LevelOne,
        randomness: Randomness,
        accountant: Accountant | None,
    ) -> StackedModel:
        n, features = X.shape
        given = None if level1 is None else given_split(n, np.asarray(level1))
        release = self.release(n, features, None if given is None else len(given.level1))
        release = release.with_seed_mark(randomness.seeded)
        charge(accountant, release)
        rows = split(n, self.level1_share, randomness) if given is None else given
        models = self.level0.train(X[rows.level0], labels[rows.level0], randomness) + self.extra
        top = learner.train(models, self.importance, X[rows.level1], labels[rows.level1], randomness)
        return StackedModel(models, top, release)
