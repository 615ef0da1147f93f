"""PST-F (U)/(W): stacking over groups of features (000 Alg. 3), at the target alone.

(U) and (W) of the papers are `groups: {kind: uniform}` and `{kind: importance}`.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from crossward.learning.plr import PLRFS, groups_of
from crossward.learning.stacking import PSTF
from crossward.methods.base import Sources, Terms, WireForm
from crossward.methods.forms import group_balls
from crossward.methods.settings import LAMBDA_ALONE, Lambda, lambda_at
from crossward.methods.stacked import Stacked
from crossward.methods.works import FitGroups
from crossward.protocol.constants import Role


class PstF(Stacked):
    """One level-0 model per group of features, and what combines them."""

    title: ClassVar[str] = "PST-F"
    explanation: ClassVar[str] = (
        "Each target trains a private model on each group of features and one that combines them, and releases all of "
        "their weights. All groups together cost one epsilon."
    )
    proofs: ClassVar[tuple[str, ...]] = ("stacking.md", "objective-perturbation.md", "release-step.md")
    grouped: ClassVar[bool] = True

    name: Literal["pst-f"] = "pst-f"
    lam_target: Lambda = LAMBDA_ALONE

    def target_work(self, terms: Terms, n: int, sources: Sources) -> FitGroups:
        """PLR-FS, and the combiner."""
        epsilon = terms.epsilon_target
        if epsilon is None:
            self.no_charge()
        level0 = PLRFS(groups_of(terms.groups, lambda_at(self.lam_target, n)), epsilon, **self.perturbation())
        return FitGroups(PSTF(level0, self.combiner_at(epsilon)))

    def form(self, role: Role) -> WireForm:
        """A stack of models, one per group."""
        return self.stack_form(group_balls)
