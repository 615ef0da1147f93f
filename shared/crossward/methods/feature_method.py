"""The feature method: the coordinator weighs the partners' models on a public set that it holds (004 Alg. 1)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from crossward.errors import InvalidSetting
from crossward.learning import aggregation
from crossward.learning.model import ReleasedModel
from crossward.methods.base import Sources, Terms, single_models
from crossward.methods.borrowing import Borrowing
from crossward.methods.works import UseAsIs
from crossward.privacy.noise import Array
from crossward.privacy.release import Release
from crossward.values import Name, Positive


class FeatureMethod(Borrowing):
    """One model of the sources', by how they do on a public set."""

    title: ClassVar[str] = "feature method"
    explanation: ClassVar[str] = (
        "Each source trains one private model and releases its weights. The coordinator weighs them on public records; "
        "targets use the result and release nothing."
    )
    proofs: ClassVar[tuple[str, ...]] = ("aggregation.md", "objective-perturbation.md", "release-step.md")
    aggregates: ClassVar[bool] = True

    name: Literal["feature"] = "feature"
    public_set: Name
    lam_aggregate: Positive = 1e-2

    @property
    def public_set_name(self) -> str:
        """The public set."""
        return self.public_set

    def aggregate(self, models: Sequence[ReleasedModel], X: NDArray[np.floating], y: Array) -> ReleasedModel:
        """The sources' models, weighed on the public set."""
        return aggregation.FeatureMethod(self.lam_aggregate).fit(models, X, y)

    def check_aggregate(self, release: Release, weights: Array, inputs: int) -> Iterator[str]:
        """It says what it is, and is no longer than lambda allows.

        f = M^T omega with rows of M of length 1, and lambda/2 |omega|^2 <= log 2, the loss of omega = 0.
        """
        if release.mechanism != aggregation.FEATURE_METHOD:
            yield "its release is not an aggregate of sources' releases."
        longest = math.sqrt(inputs * 2 * math.log(2) / self.lam_aggregate)
        if not math.hypot(*weights.tolist()) <= longest * (1 + 1e-6):
            yield f"its weights are longer than {longest:.3g}."

    def target_work(self, terms: Terms, n: int, sources: Sources) -> UseAsIs:
        """The coordinator's one model."""
        if isinstance(sources, int):
            raise InvalidSetting("The sources' models are not aggregated yet.", "Wait for the coordinator.")
        return UseAsIs(single_models(sources)[0])
