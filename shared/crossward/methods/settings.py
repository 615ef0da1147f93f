"""Settings that several methods share, and the learners of the library they stand for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from crossward.learning.combining import LevelOne, MajorityVote, Scores, WeightedVote
from crossward.learning.defaults import Party
from crossward.learning.losses import LOGISTIC, Huber, Loss
from crossward.learning.plr import PLR
from crossward.privacy.calibration import Jacobian
from crossward.values import AtLeastOne, NotNegative, Positive, Section, Yes

LAMBDA_ALONE = 0.01
"""For a model that stands alone."""

LAMBDA_PULLED = 0.05
"""For one that is pulled towards sources: it is held to something better than zero."""

Mix = Literal["records", "uniform"]
"""How several sources' weights are mixed."""


class LambdaByRecords(Section):
    """lambda = value (records / n)^power for a party that trains on n records: the more records, the looser."""

    value: Positive
    records: AtLeastOne
    power: Annotated[NotNegative, Field(le=4)]

    def at(self, n: int) -> float:
        """lambda for n records."""
        return float(self.value * (self.records / n) ** self.power)


FIXED, BY_RECORDS = "fixed", "by-records"

Lambda = Annotated[
    Annotated[Positive, Tag(FIXED)] | Annotated[LambdaByRecords, Tag(BY_RECORDS)],
    Discriminator(lambda value: BY_RECORDS if isinstance(value, dict | LambdaByRecords) else FIXED),
]
"""How strongly weights are held: one number for all, or by each party's public record count."""


def lambda_at(lam: float | LambdaByRecords, n: int) -> float:
    """lambda for a party that trains on n records."""
    return lam.at(n) if isinstance(lam, LambdaByRecords) else lam


def rounded(value: float) -> float:
    """Four digits: what a reader can check, and the same on every machine."""
    return float(f"{value:.4g}")


def lambda_by_rule(parties: Sequence[Party], rule: Callable[[Party], float]) -> float | dict[str, Any]:
    """One lambda, or a power of the record count through the smallest and the largest party's."""
    few, many = min(parties, key=lambda p: p.records), max(parties, key=lambda p: p.records)
    low, high = rule(few), rule(many)
    if few.records == many.records or low <= high:
        return rounded(low)
    power = min(math.log(low / high) / math.log(many.records / few.records), 4.0)
    return {"value": rounded(low), "records": few.records, "power": rounded(power)}


class LossSettings(Section):
    """The loss: logistic, or Huber's smoothed hinge of half-width `huber_width`."""

    loss: Literal["logistic", "huber"] = "logistic"
    huber_width: Positive = 0.5

    def loss_function(self) -> Loss:
        """The library's loss."""
        return LOGISTIC if self.loss == "logistic" else Huber(self.huber_width)


class Perturbed(LossSettings):
    """Settings of objective perturbation. `jacobian: tight` pays for the change of variables once, not twice."""

    jacobian: Jacobian = "published"

    def perturbation(self) -> dict[str, Any]:
        """The library's settings of objective perturbation."""
        return {"loss": self.loss_function(), "jacobian": self.jacobian}


def perturbed_like(learner: PLR) -> dict[str, Any]:
    """A learner's loss and how its privacy is reckoned, as a study writes them."""
    loss: dict[str, Any] = {"loss": "logistic"}
    if isinstance(learner.loss, Huber):
        loss = {"loss": "huber", "huber_width": learner.loss.h}
    return loss | {"jacobian": learner.jacobian}


class Combined(Perturbed):
    """What combines level-0 models. `prior` is the strength of the weighted vote that level-1 starts from."""

    combiner: Literal["C-hl", "C-wmv", "C-mv"] = "C-hl"
    lam_level1: Positive = 0.1
    level1_intercept: Yes = True
    scores: Literal["margin", "sigmoid"] = "margin"
    gain: Positive = 2.0
    prior: NotNegative = 4.0

    def combiner_at(self, epsilon: float) -> LevelOne | MajorityVote | WeightedVote:
        """C-hl at the target's epsilon, or a vote."""
        if self.combiner == "C-mv":
            return MajorityVote()
        if self.combiner == "C-wmv":
            return WeightedVote()
        scores = Scores(self.scores, self.gain)
        vote = self.prior, self.level1_intercept
        return LevelOne(epsilon, self.lam_level1, scores, *vote, **self.perturbation())
