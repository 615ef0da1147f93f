"""PST-S: stacking over sets of records (000 Alg. 2).

    level-0   the level-0 records cut into K disjoint parts, a PLR at eps on each
    level-1   PLR at eps on the K scores of the other records (or a vote)

Every record is in one part, so it pays eps once. Proof: docs/proofs/stacking.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crossward.errors import InvalidSetting, TooFewRecords
from crossward.learning.fitting import check_and_charge
from crossward.learning.plr import PLR
from crossward.learning.stacking.combiners import LevelOne, MajorityVote, StackedModel, WeightedVote
from crossward.learning.stacking.split import LEVEL1_SHARE, level1_count
from crossward.privacy.filters import Accountant
from crossward.privacy.noise import SYSTEM, Array, Randomness
from crossward.privacy.release import Release, parallel


@dataclass(frozen=True, slots=True)
class PSTS:
    """K level-0 models on disjoint records, and a combiner. Every setting is public."""

    level0: PLR
    parts: int
    combiner: LevelOne | MajorityVote | WeightedVote
    level1_share: float = LEVEL1_SHARE

    def __post_init__(self) -> None:
        if isinstance(self.parts, bool) or not isinstance(self.parts, int) or self.parts < 1:
            raise InvalidSetting(f"parts must be a whole number of at least 1, not {self.parts!r}.")

    @property
    def importance(self) -> Array:
        """Every part counts the same."""
        return np.full(self.parts, 1 / self.parts)

    def release(self, n: int, features: int) -> Release:
        """What `fit` on n records will release."""
        held = level1_count(n, self.level1_share) if isinstance(self.combiner, LevelOne) else 0
        size, larger = divmod(n - held, self.parts)
        if size < 1:
            raise TooFewRecords(f"{n - held} level-0 records cannot be cut into {self.parts} parts.", "Use fewer.")
        # As np.array_split cuts: the first parts have one more.
        levels = [self.level0.release(size + (part < larger), features) for part in range(self.parts)]
        if isinstance(self.combiner, LevelOne):
            levels.append(self.combiner.release(held, self.importance))
        return parallel("PST-S", *levels)

    def fit(
        self,
        X: NDArray[np.floating],
        y: NDArray[np.floating],
        *,
        randomness: Randomness = SYSTEM,
        accountant: Accountant | None = None,
    ) -> StackedModel:
        """Train both levels."""
        X, labels, release = check_and_charge(self, X, y, randomness, accountant)
        order = randomness.permutation(len(X))
        held = level1_count(len(X), self.level1_share) if isinstance(self.combiner, LevelOne) else 0
        parts, high = np.array_split(order[held:], self.parts), order[:held]
        models = tuple(self.level0.train(X[part], labels[part], randomness) for part in parts)
        if not isinstance(self.combiner, LevelOne):
            return StackedModel(models, self.combiner, release)
        top = self.combiner.train(models, self.importance, X[high], labels[high], randomness)
        return StackedModel(models, top, release)
