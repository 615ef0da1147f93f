"""PST-H (U)/(W) = PPTL-FS (R)/(W): PST-F pulled towards the sources (000 Alg. 4, 002 Alg. 4).

    source    PLR-FS at epsilon.source: one model per group of features; the K weight vectors are released
    target    PST-F at epsilon.target, level-0 model k pulled towards the sources' w_k; then level-1 on other cells

`mix: scores` adds the sources' own scores as meta-features beside the target's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np

from crossward.learning.model import LinearModel
from crossward.learning.plr import PLRFS, groups_of
from crossward.learning.stacking import PSTF, PSTH
from crossward.methods.base import Sources, Terms, WireForm, split_models
from crossward.methods.forms import GROUPS, group_balls
from crossward.methods.settings import LAMBDA_ALONE, LAMBDA_PULLED, Lambda, lambda_at
from crossward.methods.stacked import Stacked
from crossward.methods.works import FitAll, FitGroups
from crossward.protocol.constants import Role
from crossward.values import Unit


class PstH(Stacked):
    """Stacking with hypothesis transfer. `eta` 0 pulls all the way."""

    title: ClassVar[str] = "PST-H"
    explanation: ClassVar[str] = (
        "Each source trains a private model on each group of features and releases the weights, all groups for one "
        "epsilon. Each target trains its own, pulled towards the sources', and one that combines them, and releases "
        "those."
    )
    proofs: ClassVar[tuple[str, ...]] = ("stacking.md", "objective-perturbation.md", "release-step.md")
    has_sources: ClassVar[bool] = True
    grouped: ClassVar[bool] = True

    name: Literal["pst-h"] = "pst-h"
    lam_source: Lambda = LAMBDA_ALONE
    lam_target: Lambda = LAMBDA_PULLED
    eta: Unit = 0.0
    mix: Literal["records", "uniform", "scores"] = "records"

    def source_work(self, terms: Terms, n: int) -> FitAll:
        """PLR-FS."""
        if terms.epsilon_source is None:
            return super().source_work(terms, n)  # type: ignore[return-value]  # it refuses
        groups = groups_of(terms.groups, lambda_at(self.lam_source, n))
        return FitAll(PLRFS(groups, terms.epsilon_source, **self.perturbation()))

    def target_work(self, terms: Terms, n: int, sources: Sources) -> FitGroups:
        """PST-F with each group pulled to the sources'; without pulls before there are any."""
        epsilon = terms.epsilon_target
        if epsilon is None:
            self.no_charge()
        level0 = PLRFS(groups_of(terms.groups, lambda_at(self.lam_target, n)), epsilon, **self.perturbation())
        combiner = self.combiner_at(epsilon)
        if isinstance(sources, int):
            learner = PSTF(level0, combiner, name=self.title)
            return FitGroups(replace(learner, extra=self._stand_ins(terms, sources)))
        return FitGroups(PSTH(level0, combiner, split_models(sources), eta=self.eta, mix=self.mix))

    def _stand_ins(self, terms: Terms, sources: int) -> tuple[LinearModel, ...]:
        """Under `mix: scores` models of zeros in the place of the sources': only their number matters yet."""
        balls = terms.groups * sources if self.mix == "scores" else ()
        return tuple(LinearModel(ball, np.zeros(ball.dimension(terms.features)), terms.features) for ball in balls)

    def form(self, role: Role) -> WireForm:
        """A source sends a model per group; a target a stack of them."""
        if role is Role.SOURCE:
            return GROUPS
        return self.stack_form(group_balls, scores_sources=self.mix == "scores")
