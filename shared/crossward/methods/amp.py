"""AMP: approximate minima perturbation, (eps, delta), at the target alone (003; Iyengar et al. 2019)."""

from __future__ import annotations

from typing import ClassVar, Literal

from crossward.learning.amp import AMP
from crossward.learning.records import Ball
from crossward.learning.regulariser import Pull
from crossward.methods.one_model import Alone, OneModel, SourceLearner
from crossward.values import Positive, Share

LAMBDA = 1e-3
"""It only matters where n lambda exceeds what privacy needs."""


class AmpSettings(OneModel):
    """`delta` has no default: it must be chosen well below one over the number of records."""

    delta: Share
    noise_share: Share = 0.9
    output_share: Share = 0.01

    def learner_in(self, ball: Ball, lam: float, epsilon: float, start: Pull | None) -> AMP:
        """The library's AMP, which starts from 0."""
        shares = self.noise_share, self.output_share
        return AMP(ball, epsilon, self.delta, lam, *shares, loss=self.loss_function())


class AmpLearner(SourceLearner, AmpSettings):
    """A source's AMP."""

    name: Literal["amp"] = "amp"
    lam: Positive = LAMBDA


class Amp(Alone, AmpSettings):
    """AMP on the target alone."""

    title: ClassVar[str] = "AMP"
    explanation: ClassVar[str] = (
        "Each target trains one model on its own records and releases its weights, at an epsilon and a delta."
    )
    proofs: ClassVar[tuple[str, ...]] = ("amp.md",)

    name: Literal["amp"] = "amp"
    lam_target: Positive = LAMBDA
