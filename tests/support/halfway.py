"""A method that Crossward does not have: one module, as a newcomer would write it. Tests add it by one line."""

from __future__ import annotations

from typing import ClassVar, Literal

from crossward.learning.plr import PLR
from crossward.learning.transfer import SimComb as pulled
from crossward.methods.base import Method, Sources, Terms, WireForm, single_models
from crossward.methods.forms import SINGLE
from crossward.methods.settings import Perturbed
from crossward.methods.works import FitAll
from crossward.protocol.constants import Role
from crossward.values import Positive


class Halfway(Method, Perturbed):
    """Sources release one model each; a target is pulled half of the way towards their mean."""

    title: ClassVar[str] = "halfway"
    explanation: ClassVar[str] = "Each source releases one model, and each target one that is pulled halfway to them."
    proofs: ClassVar[tuple[str, ...]] = ("objective-perturbation.md",)
    has_sources: ClassVar[bool] = True

    name: Literal["halfway"] = "halfway"
    lam: Positive = 0.02

    def source_work(self, terms: Terms, n: int) -> FitAll:
        return FitAll(PLR(terms.ball, self.lam, terms.epsilon_source or 0.0, **self.perturbation()))

    def target_work(self, terms: Terms, n: int, sources: Sources) -> FitAll:
        learner = PLR(terms.ball, self.lam, terms.epsilon_target or 0.0, **self.perturbation())
        if isinstance(sources, int):
            return FitAll(learner)
        return FitAll(pulled(learner, single_models(sources), eta=0.5, mix="uniform"))

    def form(self, role: Role) -> WireForm:
        return SINGLE
