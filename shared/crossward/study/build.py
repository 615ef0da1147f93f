"""From a method's settings to the library's learners."""

from __future__ import annotations

from typing import Any

from crossward.learning.amp import AMP
from crossward.learning.dppsgd import DPPSGD
from crossward.learning.losses import LOGISTIC, Huber, Loss
from crossward.learning.plr import PLR
from crossward.learning.records import Ball
from crossward.learning.regulariser import Pull
from crossward.learning.stacking import LevelOne, MajorityVote, Scores, WeightedVote
from crossward.study.methods import (
    Amp,
    AmpLearner,
    Direct,
    Dppsgd,
    DppsgdLearner,
    PlrLearner,
    PstF,
    PstH,
    PstS,
    SimComb,
    StackedMethod,
)
from crossward.values import lambda_at

Alone = Direct | Dppsgd | Amp
SourceSettings = PlrLearner | DppsgdLearner | AmpLearner
OneModel = PLR | DPPSGD | AMP


def loss_of(settings: Alone | SourceSettings | SimComb | StackedMethod) -> Loss:
    """The loss a method names."""
    return LOGISTIC if settings.loss == "logistic" else Huber(settings.huber_width)


def perturbation(settings: Direct | PlrLearner | SimComb | StackedMethod) -> dict[str, Any]:
    """The loss, and how its change of variables is paid for: as published where a study does not say."""
    return {"loss": loss_of(settings), "jacobian": settings.jacobian or "published"}


def one_model(
    settings: Alone | SourceSettings, ball: Ball, epsilon: float, n: int, start: Pull | None = None
) -> OneModel:
    """A learner of one model over all columns, for n records. PLR alone can start from something else than 0."""
    lam = lambda_at(settings.lam_target if isinstance(settings, Direct | Dppsgd | Amp) else settings.lam, n)
    loss = loss_of(settings)
    if isinstance(settings, Dppsgd | DppsgdLearner):
        descent = settings.weight, settings.passes, settings.batch, settings.projection
        return DPPSGD(ball, lam, epsilon, *descent, loss)
    if isinstance(settings, Amp | AmpLearner):
        shares = settings.noise_share, settings.output_share
        return AMP(ball, epsilon, settings.delta, lam, *shares, loss=loss)
    return PLR(ball, lam, epsilon, start, **perturbation(settings))


def combiner_of(method: PstS | PstF | PstH, epsilon: float) -> LevelOne | MajorityVote | WeightedVote:
    """C-hl at the target's epsilon, or a vote."""
    if method.combiner == "C-mv":
        return MajorityVote()
    if method.combiner == "C-wmv":
        return WeightedVote()
    scores = Scores(method.scores, method.gain)
    vote = method.prior, method.level1_intercept
    return LevelOne(epsilon, method.lam_level1, scores, *vote, **perturbation(method))
