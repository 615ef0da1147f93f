r"""Objective perturbation: PLR, one private model (000 Alg. 1; Chaudhuri et al. 2011), and PLR-FS, K feature groups at
one budget (002 Alg. 3; 000 Alg. 3 steps 2-13). PLR is PLR-FS with one group, and is computed as such.

Group k has its columns inside a ball of radius q_k, sum_k q_k <= 1, and its own lambda_k and pull. The model solves

    min_w 1/n sum_i loss(y_i w.x_ik) + b_k.w/n + (Delta_k/2)|w|^2 + lambda_k g_k(w)

with Delta_k and the noise law of b_k from `crossward.privacy.calibrate`, then passes the release step. All K models
together are eps-private: eps = eps_obj + eps_out, and the groups share eps_out evenly, since one record moves all.
Proof: docs/proofs/objective-perturbation.md and docs/proofs/release-step.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crossward.errors import InvalidSetting
from crossward.learning.checks import check_and_charge
from crossward.learning.losses import LOGISTIC, Loss
from crossward.learning.model import LinearModel, ReleasedModel, SplitModel
from crossward.learning.records import Ball, Labels, Records
from crossward.learning.regulariser import Pull
from crossward.learning.solver import minimise
from crossward.learning.stored import Rows
from crossward.privacy.budget import Epsilon, NonPrivate, check_epsilon
from crossward.privacy.calibration import Calibration, Jacobian, calibrate, check_importance, check_lambda
from crossward.privacy.filters import Accountant
from crossward.privacy.mechanisms import GroupDescription, ObjectivePerturbation
from crossward.privacy.noise import SYSTEM, Array, Randomness
from crossward.privacy.output import OutputStep

TOLERANCE = 1e-4
"""On the gradient of n J: output noise is then about a hundredth of the noise in the objective."""

OUTPUT_SHARE = 0.01
"""eps_out / eps."""


@dataclass(frozen=True, slots=True)
class Group:
    """One feature group: its ball, its regularisation, and what its weights are pulled towards."""

    ball: Ball
    lam: float
    pull: Pull | None = None

    def __post_init__(self) -> None:
        check_lambda(self.lam)

    def centre(self, features: int) -> Array:
        """Where g is smallest: the pull's centre, or zero."""
        dimension = self.ball.dimension(features)
        return np.zeros(dimension) if self.pull is None else self.pull.centre(dimension)


@dataclass(frozen=True, slots=True)
class PLRFS:
    """K private models on feature groups at one epsilon. Every setting is public."""

    groups: tuple[Group, ...]
    epsilon: Epsilon
    loss: Loss = LOGISTIC
    tolerance: float = TOLERANCE
    output_share: float = OUTPUT_SHARE
    jacobian: Jacobian = "published"

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", tuple(self.groups))
        check_importance([group.ball.q for group in self.groups])
        if not isinstance(self.epsilon, NonPrivate):
            check_epsilon(self.epsilon)
        if not self.tolerance > 0:
            raise InvalidSetting(f"The tolerance must be above 0, not {self.tolerance!r}.", f"Try {TOLERANCE}.")
        if not 0 < self.output_share < 1:
            raise InvalidSetting(f"output_share must lie between 0 and 1, not {self.output_share!r}.")

    def calibration(self, n: int) -> Calibration | None:
        """Noise and extra regularisation for n records; None for the non-private twin."""
        if isinstance(self.epsilon, NonPrivate):
            return None
        return calibrate(
            n,
            self.epsilon * (1 - self.output_share),
            [group.lam for group in self.groups],
            [group.ball.q for group in self.groups],
            self.loss.curvature,
            self.jacobian,
        )

    def output_steps(self, calibration: Calibration) -> list[OutputStep]:
        """The release step of each group: two solvers' errors of tolerance / (n (lambda_k + Delta_k)) to hide."""
        share = calibration.epsilon / (1 - self.output_share) * self.output_share / len(self.groups)
        return [OutputStep.hiding(2 * self.tolerance / calibration.strength(k), share) for k in range(len(self.groups))]

    def release(self, n: int, features: int) -> ObjectivePerturbation:
        """What `fit` on n records will release: public, and known before a record is touched."""
        calibration = self.calibration(n)
        steps = None if calibration is None else self.output_steps(calibration)
        groups = tuple(
            GroupDescription(
                ball=group.ball.describe(),
                dimension=group.ball.dimension(features),
                lam=group.lam,
                pull=None if group.pull is None else group.pull.digest(group.centre(features)),
                extra=None if calibration is None else calibration.delta[k],
                grid=None if steps is None else steps[k].grid,
            )
            for k, group in enumerate(self.groups)
        )
        public: Any = {"n": n, "loss": self.loss.name, "tolerance": self.tolerance, "jacobian": self.jacobian}
        if calibration is None or isinstance(self.epsilon, NonPrivate):
            return ObjectivePerturbation(epsilon=math.inf, groups=groups, **public)
        return ObjectivePerturbation(
            epsilon=self.epsilon,
            groups=groups,
            epsilon_objective=calibration.epsilon,
            epsilon_output=self.epsilon * self.output_share,
            epsilon_prime=calibration.epsilon_prime,
            **public,
        )

    def fit(
        self,
        X: Rows,
        y: Labels,
        *,
        randomness: Randomness = SYSTEM,
        accountant: Accountant | None = None,
    ) -> SplitModel:
        """Check, charge, draw, solve, release: in that order. `y` is -1 or +1."""
        X, labels, release = check_and_charge(self, X, y, randomness, accountant)
        return SplitModel(self.train(X, labels, randomness), release)

    def train(self, X: Rows, labels: Labels, randomness: Randomness) -> tuple[LinearModel, ...]:
        """Draw, solve, release. The caller has checked the records and charged for the release."""
        n, features = X.shape
        centres = [group.centre(features) for group in self.groups]
        calibration = self.calibration(n)
        if calibration is None:
            weights = [
                self._solve(X, labels, group, n * group.lam, -n * group.lam * centre)
                for group, centre in zip(self.groups, centres, strict=True)
            ]
        else:
            scale, steps = calibration.noise_scale(), self.output_steps(calibration)
            noise = [randomness.in_all_directions(len(centre), scale) for centre in centres]
            exact = [
                self._solve(X, labels, group, calibration.strength(k), noise[k] - n * group.lam * centres[k])
                for k, group in enumerate(self.groups)
            ]
            weights = [step.publish(w, randomness) for step, w in zip(steps, exact, strict=True)]
        return tuple(LinearModel(group.ball, w, features) for group, w in zip(self.groups, weights, strict=True))

    def _solve(self, X: Rows, y: Labels, group: Group, ridge: float, linear: Array) -> Array:
        return minimise(Records.inside(group.ball, X, y), self.loss, linear, ridge, self.tolerance).w


@dataclass(frozen=True, slots=True)
class PLR:
    """One private linear model. Every setting is public."""

    ball: Ball
    lam: float
    epsilon: Epsilon
    pull: Pull | None = None
    loss: Loss = LOGISTIC
    tolerance: float = TOLERANCE
    output_share: float = OUTPUT_SHARE
    jacobian: Jacobian = "published"

    def __post_init__(self) -> None:
        self.as_one_group()

    def as_one_group(self) -> PLRFS:
        """The same learner as PLR-FS with K = 1."""
        group = Group(self.ball, self.lam, self.pull)
        return PLRFS((group,), self.epsilon, self.loss, self.tolerance, self.output_share, self.jacobian)

    def release(self, n: int, features: int) -> ObjectivePerturbation:
        """What `fit` on n records will release."""
        return self.as_one_group().release(n, features)

    def fit(
        self,
        X: Rows,
        y: Labels,
        *,
        randomness: Randomness = SYSTEM,
        accountant: Accountant | None = None,
    ) -> ReleasedModel:
        """Check, charge, draw, solve, release. `y` is -1 or +1."""
        split = self.as_one_group().fit(X, y, randomness=randomness, accountant=accountant)
        return ReleasedModel(split.groups[0], split.release)

    def train(self, X: Rows, labels: Labels, randomness: Randomness) -> LinearModel:
        """Draw, solve, release. The caller has checked the records and charged for the release."""
        return self.as_one_group().train(X, labels, randomness)[0]


def groups_of(
    balls: Sequence[Ball], lam: float | Sequence[float], pulls: Sequence[Pull | None] | None = None
) -> tuple[Group, ...]:
    """Groups from balls, with one lambda for all or one for each, and pulls where there are any."""
    lams = [lam] * len(balls) if isinstance(lam, int | float) else list(lam)
    pulled = [None] * len(balls) if pulls is None else list(pulls)
    if not len(balls) == len(lams) == len(pulled):
        raise InvalidSetting(f"{len(balls)} groups, {len(lams)} lambdas and {len(pulled)} pulls.", "One per group.")
    return tuple(Group(*parts) for parts in zip(balls, lams, pulled, strict=True))
