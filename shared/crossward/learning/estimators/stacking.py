"""PrivateStackingClassifier: PST-S, PST-F and PST-H behind scikit-learn's interface."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crossward.errors import InvalidSetting, TooFewRecords
from crossward.learning.combining import LevelOne, MajorityVote, Scores, StackedModel, WeightedVote
from crossward.learning.encoding.groups import NormShare, importance_groups, uniform_groups
from crossward.learning.estimators.base import Bounds, PrivateClassifier, one_per_feature, released
from crossward.learning.model import SplitModel
from crossward.learning.plr import PLR, PLRFS, groups_of
from crossward.learning.records import Ball
from crossward.learning.stacking import LEVEL1_SHARE, PSTF, PSTH, PSTS, Mix, check_mix
from crossward.privacy.budget import Epsilon
from crossward.privacy.calibration import check_lambda
from crossward.privacy.filters import Accountant
from crossward.privacy.noise import Array
from crossward.privacy.release import parallel

MOST_RECORDS = 10**12
"""Nobody brings more, so a count that would do is looked for below it."""


class PrivateStackingClassifier(PrivateClassifier):
    """Private stacking: several level-0 models and a combiner, at one epsilon.

    Parameters
    ----------
    epsilon : the privacy budget of this fit, at most 10^4, or `crossward.NON_PRIVATE` for the non-private twin.
    radius, bounds : as in `PrivateLogisticRegression`; one of them is required. The radius is that of a whole record;
        a group of d_k of d features gets radius * sqrt(d_k / d).
    method : "PST-F" (groups of features) or "PST-S" (sets of records).
    source : what a source released, or several of them: turns PST-F into PST-H. A source is a fitted
        `PrivateStackingClassifier` with the same features, bounds and groups, or its `level0_`, which does not say
        what its bounds were.
    eta, mix : how far to trust the source, and how several are mixed ("records", "uniform", "scores").
    n_groups : K.
    importance : public importance per feature: groups and their q follow it, (W). None: uniform groups, (U).
    group_seed : the published seed of uniform groups; source and target use the same.
    lam, level1_lam : regularisation of the two levels.
    combiner : "C-hl" (level-1 model), "C-wmv" (weighted vote) or "C-mv" (majority vote). The votes need no level-1
        records, so level-0 sees them all: what a source wants that only publishes its level-0 weights.
    level1_share : the share of records that train level-1 (the papers: 0.5).
    scores, gain, prior : "margin" or "sigmoid" meta-features, the stretch of the former, and the strength of the
        importance-weighted vote that level-1 starts from. As printed in the papers: "sigmoid" with prior=0.
    classes, accountant, random_state : as in `PrivateLogisticRegression`.

    Attributes
    ----------
    level0_ : the released level-0 models and their release, ready to be another site's `source`.
    release_ : the immutable description of the release; `privacy_spent_` is its (epsilon, delta).
    """

    level0_: SplitModel

    _numbers: ClassVar[tuple[str, ...]] = (*PrivateClassifier._numbers, "level1_share", "gain", "prior")

    def __init__(
        self,
        epsilon: Epsilon = 1.0,
        *,
        radius: float | None = None,
        bounds: Bounds | None = None,
        method: Literal["PST-F", "PST-S"] = "PST-F",
        source: PrivateStackingClassifier | SplitModel | Sequence[PrivateStackingClassifier | SplitModel] | None = None,
        eta: float = 0.0,
        mix: Mix = "records",
        n_groups: int = 5,
        importance: ArrayLike | None = None,
        group_seed: int = 0,
        lam: float = 0.1,
        level1_lam: float = 0.1,
        combiner: Literal["C-hl", "C-wmv", "C-mv"] = "C-hl",
        level1_share: float = LEVEL1_SHARE,
        scores: Literal["margin", "sigmoid"] = "margin",
        gain: float = 2.0,
        prior: float = 4.0,
        fit_intercept: bool = True,
        intercept_share: float = 0.5,
        classes: ArrayLike | None = None,
        accountant: Accountant | None = None,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.radius = radius
        self.bounds = bounds
        self.method = method
        self.source = source
        self.eta = eta
        self.mix = mix
        self.n_groups = n_groups
        self.importance = importance
        self.group_seed = group_seed
        self.lam = lam
        self.level1_lam = level1_lam
        self.combiner = combiner
        self.level1_share = level1_share
        self.scores = scores
        self.gain = gain
        self.prior = prior
        self.fit_intercept = fit_intercept
        self.intercept_share = intercept_share
        self.classes = classes
        self.accountant = accountant
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> PrivateStackingClassifier:
        """Check, charge, then train both levels."""
        with self._all_or_nothing():
            inside, labels = self._check_fit(X, y)
            learner = self.learner(inside.shape[1])
            source = self._randomness()
            self._check_count(learner, *inside.shape)
            fitted = learner.fit(inside, labels, randomness=source, accountant=self.accountant)
            self._model: StackedModel = fitted
            self.release_ = fitted.release
            self.level0_ = self._level0(learner, fitted)
        return self

    def _check_settings(self) -> None:
        super()._check_settings()
        check_mix(self.mix)
        check_lambda(self.lam, "lam")
        check_lambda(self.level1_lam, "level1_lam")

    def _check_count(self, learner: PSTF | PSTS, n: int, features: int) -> None:
        """A level refuses too few records by its own count: say how many there must be in all."""

        def enough(count: int) -> bool:
            try:
                learner.release(count, features)
            except TooFewRecords:
                return False
            return True

        if not enough(n):
            least = bisect_left(range(MOST_RECORDS), True, lo=n, key=enough)
            raise TooFewRecords(
                f"{n} records are too few for all models of {self.method} at epsilon = {self.epsilon!r}.",
                f"Bring at least {least} records in all, or raise epsilon.",
            )

    def _level0(self, learner: PSTF | PSTS, fitted: StackedModel) -> SplitModel:
        if isinstance(learner, PSTF):
            return SplitModel(fitted.level0[: len(learner.level0.groups)], fitted.release.parts[0])
        parts = fitted.release.parts[: learner.parts]
        return SplitModel(fitted.level0, parallel("PST-S level-0", *parts))

    def learner(self, features: int) -> PSTF | PSTS:
        """The settings of this estimator as a learner, for data with so many features."""
        if self.method == "PST-S":
            if self.source is not None:
                raise InvalidSetting("PST-S takes no source.", "Use method='PST-F' for transfer (PST-H).")
            ball = Ball(self._radius(features), intercept=self._intercept())
            level0 = PLR(ball, self.lam, self.epsilon)
            return PSTS(level0, self.n_groups, self._combiner(), self.level1_share)
        if self.method != "PST-F":
            raise InvalidSetting(f"method is 'PST-F' or 'PST-S', not {self.method!r}.", "PST-H is PST-F with a source.")
        split = PLRFS(groups_of(self._balls(features), self.lam), self.epsilon)
        if self.source is None:
            return PSTF(split, self._combiner(), self.level1_share)
        sources = self._sources(features)
        return PSTH(split, self._combiner(), sources, eta=self.eta, mix=self.mix, level1_share=self.level1_share)

    def _balls(self, features: int) -> tuple[Ball, ...]:
        if isinstance(self.n_groups, bool) or not isinstance(self.n_groups, int) or self.n_groups < 1:
            raise InvalidSetting(f"n_groups must be a whole number of at least 1, not {self.n_groups!r}.", "Try 5.")
        K = min(self.n_groups, features)
        share = NormShare(self._radius(features) / math.sqrt(features))
        if self.importance is None:
            return uniform_groups(features, K, self.group_seed, share, intercept=self._intercept())
        importance = one_per_feature(self.importance, "importance", features)
        return importance_groups(importance, K, share, intercept=self._intercept())

    def _combiner(self) -> LevelOne | MajorityVote | WeightedVote:
        if self.combiner == "C-mv":
            return MajorityVote()
        if self.combiner == "C-wmv":
            return WeightedVote()
        if self.combiner != "C-hl":
            raise InvalidSetting(f"combiner is 'C-hl', 'C-wmv' or 'C-mv', not {self.combiner!r}.")
        scores = Scores(self.scores, self.gain)
        return LevelOne(self.epsilon, self.level1_lam, scores, self.prior, self.fit_intercept)

    def _sources(self, features: int) -> list[SplitModel]:
        given: list[Any] = list(self.source) if isinstance(self.source, list | tuple) else [self.source]
        models = [released(s, "level0_") if isinstance(s, PrivateStackingClassifier) else s for s in given]
        if not all(isinstance(s, SplitModel) for s in models):
            raise InvalidSetting(
                f"A source is a fitted PrivateStackingClassifier or its level0_, not a {type(self.source).__name__}.",
                "Fit it at the source with method='PST-F'.",
            )
        for source in given:
            if isinstance(source, PrivateStackingClassifier):
                self._check_alike(source, features)
        return models

    def _intercept(self) -> float:
        return self.intercept_share if self.fit_intercept else 0.0

    def _margins(self, X: NDArray[np.floating]) -> Array:
        return self._model.margins(X)
