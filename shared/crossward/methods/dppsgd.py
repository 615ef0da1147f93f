"""DPPSGD: permuted gradient descent with noise on its output, at the target alone (003; Wu et al. 2017)."""

from __future__ import annotations

from typing import ClassVar, Literal

from crossward.learning.dppsgd import DPPSGD
from crossward.learning.records import Ball
from crossward.learning.regulariser import Pull
from crossward.methods.one_model import Alone, OneModel, SourceLearner
from crossward.methods.settings import LAMBDA_ALONE
from crossward.values import AtLeastOne, Positive


class DppsgdSettings(OneModel):
    """`weight` is C; `projection` is R, by default weight/lambda."""

    weight: Positive = 1.0
    passes: AtLeastOne = 10
    batch: AtLeastOne = 50
    projection: Positive | None = None

    def learner_in(self, ball: Ball, lam: float, epsilon: float, start: Pull | None) -> DPPSGD:
        """The library's DPPSGD, which starts from 0."""
        descent = self.weight, self.passes, self.batch, self.projection
        return DPPSGD(ball, lam, epsilon, *descent, self.loss_function())


class DppsgdLearner(SourceLearner, DppsgdSettings):
    """A source's DPPSGD."""

    name: Literal["dppsgd"] = "dppsgd"
    lam: Positive = LAMBDA_ALONE


class Dppsgd(Alone, DppsgdSettings):
    """DPPSGD on the target alone."""

    title: ClassVar[str] = "DPPSGD"
    explanation: ClassVar[str] = (
        "Each target trains one model by gradient descent on its own records and releases its weights with noise."
    )
    proofs: ClassVar[tuple[str, ...]] = ("dppsgd.md",)

    name: Literal["dppsgd"] = "dppsgd"
    lam_target: Positive = LAMBDA_ALONE
