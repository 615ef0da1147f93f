"""Stacking: several level-0 models and what combines them.

    PST-S (000 Alg. 2)           level-0: the records cut into K disjoint parts, a PLR at eps on each
    PST-F (U)/(W) (000 Alg. 3)   level-0: PLR-FS at eps, K models, one per group of features
    PST-H (U)/(W) = PPTL-FS (R)/(W) (000 Alg. 4, 002 Alg. 4)
                                 PST-F with level-0 model k pulled towards the sources' w_k:
                                 g_k(w) = eta/2 |w|^2 + (1 - eta)/2 |w - w_src,k|^2
    level-1                      PLR at eps on the K scores of the other records (or a vote, which needs no records)

(U) takes `uniform_groups`, (W) `importance_groups`. Every record is in one part or one level, so it pays eps once; a
source and a target hold different people, and each pays its own epsilon. With several sources w_src is their public
mixture, or (`mix="scores"`) each source's scores become meta-features of their own. Proof: docs/proofs/stacking.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from crossward.errors import InvalidSetting, TooFewRecords, WrongShape
from crossward.learning.checks import check_and_charge, check_labels, check_matrix
from crossward.learning.combining import LevelOne, MajorityVote, StackedModel, WeightedVote
from crossward.learning.model import LinearModel, SplitModel
from crossward.learning.plr import PLR, PLRFS
from crossward.learning.records import Labels
from crossward.learning.regulariser import Pull
from crossward.learning.stored import Index, Rows, StoredRows, as_slice, count_rows, some_rows
from crossward.learning.transfer import check_private, mixture
from crossward.privacy.filters import Accountant, charge
from crossward.privacy.noise import SYSTEM, Array, Randomness
from crossward.privacy.release import Composition, parallel

Mix = Literal["records", "uniform", "scores"]

LEVEL1_SHARE = 0.25
"""A level-1 model has few weights to learn. The papers use 0.5."""


@dataclass(frozen=True, slots=True)
class Split:
    """The rows of each level, disjoint; slices where they stand side by side."""

    level0: Index
    level1: Index


def level1_count(n: int, share: float) -> int:
    """How many of n records go to level-1."""
    if not 0 < share < 1:
        raise InvalidSetting(f"level1_share must lie between 0 and 1, not {share!r}.", f"Try {LEVEL1_SHARE}.")
    count = round(n * share)
    if not 0 < count < n:
        raise TooFewRecords(f"{n} records cannot be split between level-0 and level-1.", "Bring more records.")
    return count


def split(n: int, share: float, randomness: Randomness) -> Split:
    """A uniformly random split."""
    order = randomness.permutation(n)
    cut = n - level1_count(n, share)
    return Split(np.sort(order[:cut]), np.sort(order[cut:]))


def given_split(n: int, level1: NDArray[np.bool_] | slice) -> Split:
    """A split that was fixed beforehand, for instance by a data set's permanent cells: a mask, or a slice of rows."""
    if isinstance(level1, slice):
        return _cut_out(n, level1)
    if level1.shape != (n,) or level1.dtype != np.bool_:
        raise WrongShape(f"level1 must be {n} booleans, not {level1.dtype} of shape {level1.shape}.")
    if not 0 < np.count_nonzero(level1) < n:
        raise TooFewRecords("One of the two levels has no records.", "Give both levels records.")
    return Split(as_slice(np.flatnonzero(~level1)), as_slice(np.flatnonzero(level1)))


def _cut_out(n: int, level1: slice) -> Split:
    start, stop, step = level1.indices(n)
    if step != 1:
        raise WrongShape("level1 must be rows side by side, or a mask.", "Give a slice with step 1.")
    if not 0 < stop - start < n:
        raise TooFewRecords("One of the two levels has no records.", "Give both levels records.")
    if start == 0:
        return Split(slice(stop, n), slice(0, stop))
    if stop == n:
        return Split(slice(0, start), slice(start, n))
    return Split(np.concatenate([np.arange(start), np.arange(stop, n)]), slice(start, stop))


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

    def release(self, n: int, features: int) -> Composition:
        """What `fit` on n records will release."""
        held = level1_count(n, self.level1_share) if isinstance(self.combiner, LevelOne) else 0
        size, larger = divmod(n - held, self.parts)
        if size < 1:
            raise TooFewRecords(f"{n - held} level-0 records cannot be cut into {self.parts} parts.", "Use fewer.")
        # The first parts have one more.
        levels = [self.level0.release(size + (part < larger), features) for part in range(self.parts)]
        if isinstance(self.combiner, LevelOne):
            levels.append(self.combiner.release(held, self.importance))
        return parallel("PST-S", *levels)

    def fit(
        self,
        X: Rows,
        y: Labels,
        *,
        randomness: Randomness = SYSTEM,
        accountant: Accountant | None = None,
    ) -> StackedModel:
        """Train both levels."""
        X, labels, release = check_and_charge(self, X, y, randomness, accountant)
        order = randomness.permutation(len(X))
        stored = isinstance(X, StoredRows)
        if stored:  # put in order once; then parts are slices
            X, labels = some_rows(X, order), labels[order]
        held = level1_count(len(X), self.level1_share) if isinstance(self.combiner, LevelOne) else 0
        size, larger = divmod(len(X) - held, self.parts)
        ends = [held + part * size + min(part, larger) for part in range(self.parts + 1)]
        high, *parts = [slice(start, stop) if stored else order[start:stop] for start, stop in pairwise([0, *ends])]
        models = tuple(self.level0.train(X[part], labels[part], randomness) for part in parts)
        if not isinstance(self.combiner, LevelOne):
            return StackedModel(models, self.combiner, release)
        top = self.combiner.train(models, self.importance, X[high], labels[high], randomness)
        return StackedModel(models, top, release)


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

    def release(self, n: int, features: int, level1_n: int | None = None) -> Composition:
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
        X: Rows,
        y: Labels,
        *,
        level1: NDArray[np.bool_] | slice | None = None,
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
        X: Rows,
        labels: Labels,
        level1: NDArray[np.bool_] | slice | None,
        learner: LevelOne,
        randomness: Randomness,
        accountant: Accountant | None,
    ) -> StackedModel:
        n, features = X.shape
        given = None if level1 is None else given_split(n, level1 if isinstance(level1, slice) else np.asarray(level1))
        release = self.release(n, features, None if given is None else count_rows(given.level1))
        release = release.with_seed_mark(randomness.seeded)
        charge(accountant, release)
        rows = split(n, self.level1_share, randomness) if given is None else given
        low, high = (some_rows(X, level) for level in (rows.level0, rows.level1))
        models = self.level0.train(low, labels[rows.level0], randomness) + self.extra
        top = learner.train(models, self.importance, high, labels[rows.level1], randomness)
        return StackedModel(models, top, release)


def check_mix(mix: Mix) -> None:
    """Refuse a way to mix several sources that there is not."""
    if mix not in get_args(Mix):
        raise InvalidSetting(
            f"Sources mix by 'records', 'uniform' or 'scores', not {mix!r}.", "'records' weighs them by their size."
        )


def PSTH(
    level0: PLRFS,
    combiner: LevelOne | MajorityVote | WeightedVote,
    sources: SplitModel | Sequence[SplitModel],
    *,
    eta: float = 0.0,
    mix: Mix = "records",
    level1_share: float = LEVEL1_SHARE,
) -> PSTF:
    """PST-F on the target with each group pulled towards the sources' weights."""
    check_mix(mix)
    released = (sources,) if isinstance(sources, SplitModel) else tuple(sources)
    if not released:
        raise InvalidSetting("PST-H transfers from at least one source.", "Use PST-F where there is none.")
    for source in released:
        if [model.ball for model in source.groups] != [group.ball for group in level0.groups]:
            raise WrongShape(
                "A source's feature groups are not the target's.",
                "Use the same columns, q, radius, scale and intercept on both sides.",
            )
    check_private([source.release for source in released], level0.epsilon)
    extra = tuple(model for source in released for model in source.groups) if mix == "scores" else ()
    how: Literal["records", "uniform"] = "uniform" if mix == "uniform" else "records"
    groups = tuple(
        replace(group, pull=Pull(mixture([(s.groups[k].weights, s.release) for s in released], how), eta))
        for k, group in enumerate(level0.groups)
    )
    return PSTF(replace(level0, groups=groups), combiner, level1_share, extra, "PST-H")
