"""The boosted ensemble: gradient boosting at the target over the sources' scores (003).

It is fitted to the target's records without noise, so it never leaves the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import FailFast, Field

from crossward.errors import InvalidInput, InvalidMessage, InvalidSetting
from crossward.learning.aggregation import MOST_LEAVES, BoostedEnsemble, BoostedModel
from crossward.learning.trees import Trees
from crossward.methods.base import SourceModel, Sources, Terms, single_models
from crossward.methods.borrowing import Borrowing
from crossward.methods.works import Boost
from crossward.protocol.canonical import canonical, read_canonical
from crossward.protocol.constants import Role
from crossward.protocol.messages import validated
from crossward.values import AtLeastOne, Count, Positive, Real, Section, Yes

Indices = Annotated[tuple[Count, ...], FailFast()]
Reals = Annotated[tuple[Real, ...], FailFast()]
Choices = Annotated[tuple[Yes, ...], FailFast()]


class KeptTrees(Section):
    """Trees as a site keeps them (see `Trees`), in canonical JSON.

    JSON and not numpy's own files: they are archives of archives, with sizes of their own to be believed or checked,
    and the protocol's reader of JSON is there, total, and reads each number as it was written. It takes 0.1 MB for a
    hundred trees, where there is one such model per study.
    """

    version: Annotated[int, Field(strict=True, ge=1, le=1)]
    columns: AtLeastOne
    base: Real
    first: Indices
    feature: Indices
    threshold: Reals
    missing_left: Choices
    left: Indices
    right: Indices
    value: Reals

    @classmethod
    def of(cls, trees: Trees) -> Self:
        """Trees, to be written."""
        return cls(
            version=1,
            columns=trees.columns,
            base=trees.base,
            first=tuple(trees.first.tolist()),
            feature=tuple(trees.feature.tolist()),
            threshold=tuple(trees.threshold.tolist()),
            missing_left=tuple(trees.missing_left.tolist()),
            left=tuple(trees.left.tolist()),
            right=tuple(trees.right.tolist()),
            value=tuple(trees.value.tolist()),
        )

    def trees(self) -> Trees:
        """The trees, if they are any."""
        return Trees(
            columns=self.columns,
            base=self.base,
            first=np.array(self.first, dtype=np.intp),
            feature=np.array(self.feature, dtype=np.intp),
            threshold=np.array(self.threshold, dtype=np.float64),
            missing_left=np.array(self.missing_left, dtype=np.bool_),
            left=np.array(self.left, dtype=np.intp),
            right=np.array(self.right, dtype=np.intp),
            value=np.array(self.value, dtype=np.float64),
        )


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
        return canonical(KeptTrees.of(model.ensemble).model_dump())

    def restore(self, terms: Terms, sources: Sequence[SourceModel], kept: bytes | None) -> BoostedModel:
        """The ensemble over the sources' models. `kept` is data: whatever it holds, nothing of it is run."""
        if kept is None:
            raise InvalidSetting("The ensemble was never stored.", "Train it again.")
        partners = tuple(single_models(sources))
        try:
            trees = validated(KeptTrees, read_canonical(kept, self._most_bytes)).trees()
            self._check(trees, len(partners))
        except InvalidInput as error:
            raise InvalidMessage(f"The stored ensemble cannot be used: {error.cause}", "Train it again.") from None
        return BoostedModel(partners, trees)

    @property
    def _most_nodes(self) -> int:
        """The nodes that a tree of this method has at most."""
        return 2 * min(MOST_LEAVES, 1 << min(self.depth, MOST_LEAVES)) - 1

    @property
    def _most_bytes(self) -> int:
        """What an ensemble of this method takes at most: a number has 25 characters, an index 16, each with a comma."""
        return 1_000 + self.iterations * (17 + self._most_nodes * (2 * 26 + 3 * 17 + len("false,")))

    def _check(self, trees: Trees, partners: int) -> None:
        """Refuse trees that this method would not have fitted."""
        if trees.columns != partners:
            raise InvalidMessage(f"It was trained on the scores of {trees.columns} partners and there are {partners}.")
        if len(trees.first) > self.iterations:
            raise InvalidMessage(f"It has {len(trees.first)} trees and may have {self.iterations}.")
        if trees.depth > self.depth or np.any(trees.sizes > self._most_nodes):
            raise InvalidMessage(f"One of its trees is deeper than {self.depth}, or has over {MOST_LEAVES} leaves.")
