"""The boosted ensemble: gradient boosting at the target over the sources' scores (003).

It is fitted to the target's records without noise, so it never leaves the target.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from crossward.errors import InvalidSetting
from crossward.learning.aggregation import BoostedEnsemble, BoostedModel
from crossward.methods.base import SourceModel, Sources, Terms, single_models
from crossward.methods.borrowing import Borrowing
from crossward.methods.works import Boost
from crossward.protocol.constants import Role
from crossward.values import AtLeastOne, Positive


class Boosted(Borrowing):
    """Gradient boosting over the sources' scores."""

    title: ClassVar[str] = "boosted ensemble"
    explanation: ClassVar[str] = (
        "Each source trains one private model and releases its weights. Each target trains an ensemble on top of them; "
        "it is not private, so it never leaves, and nothing is released."
    )
    proofs: ClassVar[tuple[str, ...]] = ("aggregation.md", "objective-perturbation.md", "release-step.md")

    name: Literal["boosted"] = "boosted"
    iterations: AtLeastOne = 100
    depth: AtLeastOne = 3
    rate: Positive = 0.1

    def trains(self, role: Role) -> bool:
        """A target trains, though it releases nothing."""
        return True

    def target_work(self, terms: Terms, n: int, sources: Sources) -> Boost:
        """The ensemble on the sources' scores."""
        if isinstance(sources, int):
            raise InvalidSetting("The sources have not released yet.", "Wait for them.")
        return Boost(BoostedEnsemble(self.iterations, self.depth, self.rate), single_models(sources))

    def keep(self, model: Any) -> bytes | None:
        """The trees alone: the partners' models are rebuilt from what they released."""
        if not isinstance(model, BoostedModel):
            raise InvalidSetting("This is no boosted ensemble.")
        return pickle.dumps(model.ensemble)

    def restore(self, terms: Terms, sources: Sequence[SourceModel], kept: bytes | None) -> BoostedModel:
        """The ensemble over the sources' models. The caller knows that `kept` is its own: a pickle can run anything."""
        if kept is None:
            raise InvalidSetting("The ensemble was never stored.", "Train it again.")
        return BoostedModel(tuple(single_models(sources)), pickle.loads(kept))
