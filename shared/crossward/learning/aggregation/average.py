"""The average method (004 eq. 3): f = 1/N sum_i f_i, or weighted by public record counts. Post-processing: free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from crossward.errors import WrongShape
from crossward.learning.model import LinearModel, ReleasedModel
from crossward.learning.transfer.sources import mixture
from crossward.privacy.release import parallel


def average(partners: Sequence[ReleasedModel], mix: Literal["records", "uniform"] = "uniform") -> ReleasedModel:
    """One linear model from the released models of all partners, who hold different people's records."""
    weights = mixture([(partner.weights, partner.release) for partner in partners], mix)
    first = partners[0].model
    if any(partner.model.ball != first.ball for partner in partners):
        raise WrongShape("The partners' models live in different balls.", "Use the same features, radius and scale.")
    release = parallel("average", *(partner.release for partner in partners))
    return ReleasedModel(LinearModel(first.ball, weights, first.features), release)
