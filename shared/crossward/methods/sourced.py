"""SourceD: the sources' model as it is (of several, their mixture), which costs the target nothing (000, 002)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from crossward.errors import InvalidSetting
from crossward.learning.aggregation import average
from crossward.learning.defaults import Defaults, Party
from crossward.methods.base import Sources, Terms, single_models
from crossward.methods.borrowing import Borrowing
from crossward.methods.settings import Mix, lambda_by_rule, perturbed_like
from crossward.methods.works import UseAsIs


class Mixed(Borrowing):
    """A target uses the mixture of the sources' models."""

    mix: Mix

    def target_work(self, terms: Terms, n: int, sources: Sources) -> UseAsIs:
        """The convex combination of the sources' weights."""
        if isinstance(sources, int):
            raise InvalidSetting("The sources have not released yet.", "Wait for them.")
        return UseAsIs(average(single_models(sources), self.mix))


class SourceD(Mixed):
    """The sources' model as it is."""

    title: ClassVar[str] = "SourceD"
    explanation: ClassVar[str] = (
        "Each source trains one private model and releases its weights. Targets use them as they are and release "
        "nothing."
    )
    proofs: ClassVar[tuple[str, ...]] = ("aggregation.md", "objective-perturbation.md", "release-step.md")

    name: Literal["sourced"] = "sourced"
    mix: Mix = "records"

    @classmethod
    def by_rule(cls, rules: Defaults, sources: Sequence[Party], targets: Sequence[Party]) -> dict[str, Any]:
        """A PLR at each source, lambda by its record count."""
        lam = lambda_by_rule(sources, lambda party: rules.source(party).lam)
        return {"name": "sourced", "learner": {"name": "plr", "lam": lam} | perturbed_like(rules.source(sources[0]))}
