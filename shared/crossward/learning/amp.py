r"""AMP: approximate minima perturbation, (eps, delta) (003; Iyengar et al. 2019, Alg. 1).

    w ~ argmin sum_i loss(y_i w.x_i) + B.w + (Lambda/2)|w|^2,   ||x_i|| <= q,   B ~ N(0, sigma_1^2 I)

stopped at a gradient of `tolerance`, and w + N(0, sigma_2^2 I) is released, where eps = eps_1 + eps_2,
delta = delta_1 + delta_2, eps_3 < eps_1, and

    Lambda  >= 2 c q^2 / (eps_1 - eps_3)                                      the change of variables
    sigma_1  = 2 q (1 + sqrt(2 log(1/delta_1))) / eps_3                       one record moves the gradient by 2q
    sigma_2  = 2 (tolerance / Lambda) (1 + sqrt(2 log(1/delta_2))) / eps_2    two data sets, two errors

(The paper divides the objective, B and the gradient by n.) The Gaussian tails need eps_i to be at most
2 (1 + sqrt(2 log(1/delta_i))), which is checked. Proof: docs/proofs/amp.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from crossward.errors import InvalidEpsilon, InvalidSetting
from crossward.learning.checks import check_and_charge
from crossward.learning.losses import LOGISTIC, Loss
from crossward.learning.model import LinearModel, ReleasedModel
from crossward.learning.plr import TOLERANCE
from crossward.learning.records import Ball, Labels, Records
from crossward.learning.solver import minimise
from crossward.learning.stored import Rows
from crossward.privacy.budget import Epsilon, NonPrivate, check_delta, check_epsilon
from crossward.privacy.calibration import check_lambda, check_records
from crossward.privacy.filters import Accountant
from crossward.privacy.mechanisms import ApproximateMinima
from crossward.privacy.noise import SYSTEM, Randomness
from crossward.privacy.output import grid_for, on_grid


def _gaussian_factor(delta: float, epsilon: float, name: str) -> float:
    """(1 + sqrt(2 log(1/delta))) / eps: the noise of a Gaussian mechanism of sensitivity one."""
    reach = 1 + math.sqrt(2 * math.log(1 / delta))
    if epsilon > 2 * reach:
        raise InvalidEpsilon(
            f"{name} = {epsilon:.3g} is too large for its delta of {delta:.3g}: the Gaussian tail bound needs at most "
            f"{2 * reach:.3g}.",
            "Lower epsilon, lower delta, or use objective perturbation.",
        )
    return reach / epsilon


@dataclass(frozen=True, slots=True)
class Noise:
    """The numbers that fix AMP's noise, all public."""

    ridge: float
    sigma_objective: float
    sigma_output: float


@dataclass(frozen=True, slots=True)
class AMP:
    """Approximate minima perturbation. `lam` only matters where n lambda exceeds what privacy needs of Lambda.

    `output_share` is eps_2/eps and delta_2/delta (003: 0.01); `noise_share` is eps_3/eps_1.
    """

    ball: Ball
    epsilon: Epsilon
    delta: float
    lam: float = 1e-3
    noise_share: float = 0.9
    output_share: float = 0.01
    tolerance: float = TOLERANCE
    loss: Loss = LOGISTIC

    def __post_init__(self) -> None:
        check_lambda(self.lam)
        check_delta(self.delta)
        if not isinstance(self.epsilon, NonPrivate):
            check_epsilon(self.epsilon)
        for name, share in (("noise_share", self.noise_share), ("output_share", self.output_share)):
            if not 0 < share < 1:
                raise InvalidSetting(f"{name} must lie between 0 and 1, not {share!r}.")
        if not self.tolerance > 0:
            raise InvalidSetting(f"The tolerance must be above 0, not {self.tolerance!r}.")

    def noise(self, n: int) -> Noise | None:
        """Lambda, sigma_1 and sigma_2 for n records; None for the non-private twin."""
        if isinstance(self.epsilon, NonPrivate):
            return None
        check_records(n, self.epsilon)
        eps_2, delta_2 = self.output_share * self.epsilon, self.output_share * self.delta
        eps_1, delta_1 = self.epsilon - eps_2, self.delta - delta_2
        eps_3 = self.noise_share * eps_1
        q = self.ball.q
        ridge = max(n * self.lam, 2 * self.loss.curvature * q**2 / (eps_1 - eps_3))
        sigma_objective = 2 * q * _gaussian_factor(delta_1, eps_3, "eps_3")
        sigma_output = 2 * self.tolerance / ridge * _gaussian_factor(delta_2, eps_2, "eps_2")
        return Noise(ridge, sigma_objective, sigma_output)

    def release(self, n: int, features: int) -> ApproximateMinima:
        """What `fit` on n records will release."""
        noise = self.noise(n)
        twin = noise is None or isinstance(self.epsilon, NonPrivate)
        return ApproximateMinima(
            epsilon=math.inf if isinstance(self.epsilon, NonPrivate) else self.epsilon,
            delta=0.0 if twin else self.delta,
            n=n,
            ball=self.ball.describe(),
            dimension=self.ball.dimension(features),
            loss=self.loss.name,
            lam=self.lam,
            tolerance=self.tolerance,
            ridge=None if noise is None else noise.ridge,
            sigma_objective=None if noise is None else noise.sigma_objective,
            sigma_output=None if noise is None else noise.sigma_output,
            grid=None if noise is None else grid_for(noise.sigma_output),
        )

    def fit(
        self,
        X: Rows,
        y: Labels,
        *,
        randomness: Randomness = SYSTEM,
        accountant: Accountant | None = None,
    ) -> ReleasedModel:
        """Check, charge, draw, solve, release. `y` is -1 or +1."""
        X, labels, release = check_and_charge(self, X, y, randomness, accountant)
        return ReleasedModel(self.train(X, labels, randomness), release)

    def train(self, X: Rows, labels: Labels, randomness: Randomness) -> LinearModel:
        """Draw, solve, release. The caller has checked the records and charged for the release."""
        n, features = X.shape
        dimension = self.ball.dimension(features)
        records = Records.inside(self.ball, X, labels)
        noise = self.noise(n)
        if noise is None:
            w = minimise(records, self.loss, np.zeros(dimension), n * self.lam, self.tolerance).w
        else:
            linear = noise.sigma_objective * randomness.normal(dimension)
            w = minimise(records, self.loss, linear, noise.ridge, self.tolerance).w
            w = on_grid(w + noise.sigma_output * randomness.normal(dimension), grid_for(noise.sigma_output))
        return LinearModel(self.ball, w, features)
