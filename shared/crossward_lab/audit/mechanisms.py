"""What is audited: every mechanism of Crossward that a release can name, each in the ways that suit it."""

from __future__ import annotations

import numpy as np

from crossward.learning.defaults import Circumstances, Defaults, Party
from crossward.learning.losses import LOGISTIC, Huber, Loss
from crossward.learning.plr import PLRFS, Group, groups_of
from crossward.learning.records import Ball
from crossward.learning.regulariser import Pull
from crossward.privacy.calibration import Jacobian
from crossward_lab.audit import choice, distances, sampled
from crossward_lab.audit.objective import Subject, exact, noise_law, subject_of, unscaled
from crossward_lab.audit.report import Audit

HUBER = Huber(0.5)


def one_ball(
    *,
    lam: float = 0.5,
    epsilon: float = 2.0,
    loss: Loss = LOGISTIC,
    intercept: float = 0.0,
    scale: tuple[float, ...] | None = None,
    pulled: float = 0.0,
    offset: float = 0.0,
    jacobian: Jacobian = "published",
) -> PLRFS:
    """PLR with two raw columns."""
    ball = Ball(2.0, intercept=intercept, scale=scale, offset=offset)
    pull = Pull(np.full(ball.dimension(2), pulled)) if pulled else None
    return PLRFS((Group(ball, lam, pull),), epsilon, loss, jacobian=jacobian)


def three_balls(
    lam: tuple[float, float, float] = (0.5, 0.5, 0.5),
    q: tuple[float, float, float] = (0.5, 0.3, 0.2),
    *,
    epsilon: float = 2.0,
    loss: Loss = LOGISTIC,
    pulled: float = 0.0,
    offset: float = 0.0,
    jacobian: Jacobian = "published",
) -> PLRFS:
    """PLR-FS with three groups on four columns: two share one, which the theory allows."""
    columns = ((0, 1), (2,), (2, 3))
    balls = [Ball(1.0, qk, columns=c, offset=offset) for qk, c in zip(q, columns, strict=True)]
    pulls = [Pull(np.full(len(c), pulled)) if pulled else None for c in columns]
    return PLRFS(groups_of(balls, lam, pulls), epsilon, loss, jacobian=jacobian)


def _plain(n: int, features: int) -> Subject:
    return subject_of(PLRFS((Group(Ball(1.0), 0.5),), 2.0), n, features)


def _by_default_rules(n: int, features: int) -> Subject:
    """What the default preset has a party run on its own, with directions that its doctors declared."""
    party = Party(n, 2.0)
    facts = Circumstances((2.0, 1.0), targets=(party,), prevalence=0.2, directions=(1.0, -1.0))
    return subject_of(Defaults.of(facts).direct(party).as_one_group(), n, features)


MECHANISMS: dict[str, Audit] = {
    "PLR": exact(_plain, (1, 1), (1, 3), (3, 2)),
    "PLR, Delta > 0": exact(lambda n, f: subject_of(one_ball(lam=0.01, epsilon=0.5), n, f), (3, 2), (5, 2)),
    "PLR, Huber loss": exact(lambda n, f: subject_of(one_ball(loss=HUBER), n, f), (2, 2), (4, 2)),
    "PLR, intercept and scaled columns": exact(
        lambda n, f: subject_of(one_ball(intercept=0.5, scale=(1.0, 0.3)), n, f), (1, 2), (3, 2)
    ),
    "PLR, pulled to a source": exact(lambda n, f: subject_of(one_ball(pulled=30.0), n, f), (1, 2), (3, 2)),
    "PLR, unscaled records": exact(lambda n, f: unscaled(n, f, power=2), (3, 2)),
    "PLR-FS": exact(lambda n, f: subject_of(three_balls(), n, f), (1, 4), (3, 4)),
    "PLR-FS, Huber loss, pulled": exact(lambda n, f: subject_of(three_balls(loss=HUBER, pulled=9.0), n, f), (3, 4)),
    "PLR-FS, one Delta clamped at 0": exact(
        lambda n, f: subject_of(three_balls((0.001, 0.001, 5.0), epsilon=1.0), n, f), (3, 4)
    ),
    "PLR, public offset": exact(lambda n, f: subject_of(one_ball(loss=HUBER, offset=-1.5), n, f), (1, 2), (3, 2)),
    "PLR, tight Jacobian": exact(lambda n, f: subject_of(one_ball(lam=0.2, jacobian="tight"), n, f), (1, 2), (3, 2)),
    "PLR, tight Jacobian, Huber loss, Delta > 0": exact(
        lambda n, f: subject_of(one_ball(lam=0.05, loss=HUBER, jacobian="tight"), n, f), (1, 2), (2, 2)
    ),
    "PLR-FS, tight Jacobian, Huber loss, offset, pulled": exact(
        lambda n, f: subject_of(three_balls((0.15,) * 3, loss=HUBER, offset=0.5, pulled=3.0, jacobian="tight"), n, f),
        (3, 4),
    ),
    "PLR by the default rules": exact(_by_default_rules, (2, 2)),
    "PLR, law of the noise": noise_law(one_ball(intercept=0.5)),
    "PLR-FS, law of the noise": noise_law(three_balls()),
    "PLR, sampled": sampled.plr(),
    "PLR-FS, sampled": sampled.plr_fs,
    "PST-S, sampled": sampled.pst_s,
    "PST-F, sampled": sampled.pst_f(),
    "PST-H, sampled": sampled.pst_f(transfer=True),
    "release step": sampled.release_step(),
    "release step, K groups": distances.release_steps(three_balls()),
    "solver within its tolerance": distances.solver,
    "DPPSGD": distances.dppsgd(),
    "DPPSGD, sampled": sampled.dppsgd,
    "AMP, objective noise": distances.amp_objective,
    "AMP, output noise": distances.amp_output(),
    "AMP, sampled": sampled.amp,
    "private AUC": sampled.auc(),
    "exponential mechanism": choice.exponential(),
    "choice by chunks": choice.chunks(),
    "choice by random stopping": choice.stopping_law(cost=2.0),
    "choice by random stopping, sampled": choice.stopping,
}
