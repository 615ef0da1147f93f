"""SimComb = PPHTL: one model at each source, one at the target pulled towards them (002 Alg. 2; Wang et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from crossward.learning.defaults import Defaults, Party
from crossward.learning.plr import PLR
from crossward.learning.transfer import SimComb as pulled
from crossward.methods.base import Method, Sources, Terms, WireForm, single_models
from crossward.methods.forms import SINGLE
from crossward.methods.settings import (
    LAMBDA_ALONE,
    LAMBDA_PULLED,
    Lambda,
    Mix,
    Perturbed,
    lambda_at,
    lambda_by_rule,
    perturbed_like,
)
from crossward.methods.works import FitAll
from crossward.protocol.constants import Role
from crossward.values import Unit


class SimComb(Method, Perturbed):
    """Hypothesis transfer with one model. `eta` 0 pulls all the way; several sources are mixed by `mix`."""

    title: ClassVar[str] = "SimComb"
    explanation: ClassVar[str] = (
        "Each source trains one private model and releases its weights. Each target trains its own, pulled towards "
        "the sources', and releases it too."
    )
    proofs: ClassVar[tuple[str, ...]] = ("objective-perturbation.md", "release-step.md")
    has_sources: ClassVar[bool] = True

    name: Literal["simcomb"] = "simcomb"
    lam_source: Lambda = LAMBDA_ALONE
    lam_target: Lambda = LAMBDA_PULLED
    eta: Unit = 0.0
    mix: Mix = "records"

    @property
    def takes_start(self) -> bool:
        """A source's model can start from given weights."""
        return True

    def source_work(self, terms: Terms, n: int) -> FitAll:
        """A PLR that starts from the study's start."""
        if terms.epsilon_source is None:
            return super().source_work(terms, n)  # type: ignore[return-value]  # it refuses
        lam = lambda_at(self.lam_source, n)
        return FitAll(PLR(terms.ball, lam, terms.epsilon_source, terms.start, **self.perturbation()))

    def target_work(self, terms: Terms, n: int, sources: Sources) -> FitAll:
        """A PLR pulled to the mixture of the sources' weights; without a pull before there are any."""
        if terms.epsilon_target is None:
            self.no_charge()
        learner = PLR(terms.ball, lambda_at(self.lam_target, n), terms.epsilon_target, **self.perturbation())
        if isinstance(sources, int):
            return FitAll(learner)
        return FitAll(pulled(learner, single_models(sources), eta=self.eta, mix=self.mix))

    def form(self, role: Role) -> WireForm:
        """One linear model."""
        return SINGLE

    @classmethod
    def by_rule(cls, rules: Defaults, sources: Sequence[Party], targets: Sequence[Party]) -> dict[str, Any]:
        """lambda by each party's record count."""
        return {
            "name": "simcomb",
            "lam_source": lambda_by_rule(sources, lambda party: rules.source(party).lam),
            "lam_target": lambda_by_rule(targets, rules.lambda_pulled),
        } | perturbed_like(rules.source(sources[0]))
