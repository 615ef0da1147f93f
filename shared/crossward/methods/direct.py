"""Direct: a PLR on the target's own records, without a source (000: "PLR (target)", 002: "Direct")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from crossward.learning.defaults import Defaults, Party
from crossward.learning.plr import PLR
from crossward.learning.records import Ball
from crossward.learning.regulariser import Pull
from crossward.methods.one_model import Alone, OneModel, SourceLearner
from crossward.methods.settings import LAMBDA_ALONE, Lambda, Perturbed, lambda_by_rule, perturbed_like


class PlrSettings(OneModel, Perturbed):
    """A PLR over all columns."""

    can_start: ClassVar[bool] = True

    def learner_in(self, ball: Ball, lam: float, epsilon: float, start: Pull | None) -> PLR:
        """The library's PLR."""
        return PLR(ball, lam, epsilon, start, **self.perturbation())


class PlrLearner(SourceLearner, PlrSettings):
    """A source's PLR."""

    name: Literal["plr"] = "plr"
    lam: Lambda = LAMBDA_ALONE


class Direct(Alone, PlrSettings):
    """PLR on the target alone."""

    title: ClassVar[str] = "Direct"
    explanation: ClassVar[str] = "Each target trains one private model on its own records and releases its weights."
    proofs: ClassVar[tuple[str, ...]] = ("objective-perturbation.md", "release-step.md")

    name: Literal["direct"] = "direct"
    lam_target: Lambda = LAMBDA_ALONE

    @classmethod
    def by_rule(cls, rules: Defaults, sources: Sequence[Party], targets: Sequence[Party]) -> dict[str, Any]:
        """lambda by each target's record count."""
        lam = lambda_by_rule(targets, lambda party: rules.source(party).lam)
        return {"name": "direct", "lam_target": lam} | perturbed_like(rules.source(targets[0]))
