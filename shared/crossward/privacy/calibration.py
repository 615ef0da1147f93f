r"""Calibration of objective perturbation for K feature groups that share one epsilon.

Model k minimises, over w in R^{d_k},

    J_k(w) = 1/n sum_i loss(y_i w.x_ik) + b_k.w/n + (Delta_k/2)|w|^2 + lambda_k g_k(w),

where |loss'| <= 1, 0 <= loss'' <= c (the curvature), ||x_ik|| <= q_k, sum_k q_k <= 1, g_k is 1-strongly convex, and
b_k has density proportional to exp(-eps' ||b|| / 2). Releasing all K minimisers together is eps-private when

    eps' <= eps - sum_k 2 log(1 + c q_k^2 / (n (lambda_k + Delta_k))):

the noise pays eps' for the gradients, which one record moves by at most 2 q_k in group k, and the rest pays for the
change of variables from noise to minimiser, its Jacobian. One logarithm per group is enough for it (`TIGHT`): the
two of the papers (`PUBLISHED`) bound a change of rank two, and replacing a record takes away one term and adds one.
Proofs: docs/proofs/objective-perturbation.md and docs/proofs/tight-jacobian.md.
Follows 000 Alg. 1 (K = 1) and 000 Alg. 3 / 002 Alg. 3 (K > 1), corrected as ADR 0002 lists.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from crossward.errors import InvalidImportance, InvalidRegularisation, InvalidSetting, TooFewRecords
from crossward.privacy.budget import check_epsilon, is_number

Jacobian = Literal["published", "tight"]
"""How the change of variables is paid for: as the papers have it, or as their lemma allows."""

LOGARITHMS: dict[Jacobian, int] = {"published": 2, "tight": 1}
"""Per group."""

_ROUNDING = 1e-12
"""Slack on sum(q) <= 1 and n eps >= 1 for numbers that came from a division in floating point."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """How much noise and extra regularisation K groups need: all of it public."""

    n: int
    epsilon: float
    epsilon_prime: float
    delta: list[float]
    lam: list[float]
    q: list[float]
    curvature: float

    def noise_scale(self) -> float:
        """b_k has density proportional to exp(-||b|| / noise_scale), in every group."""
        return 2.0 / self.epsilon_prime

    def strength(self, k: int) -> float:
        """n (lambda_k + Delta_k): the strong convexity of n J_k."""
        return self.n * (self.lam[k] + self.delta[k])


def check_records(n: int, epsilon: float) -> int:
    """Refuse an n from which nothing could be learned at this epsilon.

    By group privacy, replacing all n records changes the chance of any output by a factor of at most exp(n eps). When
    n eps < 1 that is less than e whatever the method: the output hardly depends on the data.
    """
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise TooFewRecords(f"n must be a whole number of at least 1, not {n!r}.", "Give the public record count.")
    if n * epsilon < 1 - _ROUNDING:
        raise TooFewRecords(
            f"n = {n} is too small for epsilon = {epsilon:g}: any two data sets of that size give nearly the same "
            "output, so nothing can be learned.",
            # Three digits of a number 0.5 % larger are never below 1/n.
            f"Bring at least {math.ceil(1 / max(epsilon, 1e-300))} records, "
            f"or raise epsilon to {1.005 / n:.3g} or more.",
        )
    return int(n)


def check_lambda(lam: float, name: str = "lambda") -> float:
    """A usable regularisation strength: finite and above zero."""
    if not (is_number(lam) and lam > 0):
        raise InvalidRegularisation(
            f"{name} must be a finite number above 0, not {lam!r}.",
            "Strong convexity is what bounds the noise; common choices are 0.001 to 1.",
        )
    return float(lam)


def check_importance(q: Sequence[float]) -> list[float]:
    """Usable group importances: none negative, not all zero, summing to at most one."""
    given = list(q)
    if not given or not all(is_number(value) and value >= 0 for value in given):
        raise InvalidImportance(f"q must be finite numbers of at least 0, not {given}.", "Use shares such as 1/K.")
    values = [float(value) for value in given]
    if sum(values) == 0:
        raise InvalidImportance("q is all zero, so there is no group to train.", "Give at least one group q > 0.")
    if math.fsum(values) > 1 + _ROUNDING:
        raise InvalidImportance(
            f"q sums to {math.fsum(values):.6g}, more than 1: the groups would cost more than epsilon together.",
            "Divide each q by their sum.",
        )
    return values


def calibrate(
    n: int,
    epsilon: float,
    lam: Sequence[float] | float,
    q: Sequence[float] | float = 1.0,
    curvature: float = 0.25,
    jacobian: Jacobian = "published",
) -> Calibration:
    """eps' and Delta_k for n records, K groups with lambda_k and q_k, and a loss of the given curvature.

    Delta_k = 0 and eps' = eps - sum_k 2 log(1 + c q_k^2/(n lambda_k)) where that leaves at least half of eps.
    Otherwise Delta_k = max(0, c q_k^2/(n (exp(eps q_k / 4) - 1)) - lambda_k), which always does (ADR 0010).
    With a tight `jacobian` the 2 is a 1, and the 4 a 2.

    >>> calibrate(n=1000, epsilon=1.0, lam=[0.01], q=[1.0]).epsilon_prime
    0.9506147748199...
    """
    epsilon = check_epsilon(epsilon)
    lams = [check_lambda(v) for v in ([lam] if isinstance(lam, int | float) else list(lam))]
    qs = check_importance([q] if isinstance(q, int | float) else q)
    if len(lams) != len(qs):
        raise InvalidSetting(f"lam has {len(lams)} values and q has {len(qs)}.", "Give one of each per group.")
    if not (is_number(curvature) and curvature > 0):
        raise InvalidSetting(f"curvature must be a finite number above 0, not {curvature!r}.", "Logistic: 0.25.")
    if jacobian not in LOGARITHMS:
        raise InvalidSetting(f"The Jacobian is paid for as 'published' or 'tight', not {jacobian!r}.")
    n = check_records(n, epsilon)

    logarithms = LOGARITHMS[jacobian]
    bends = [curvature * qk**2 / n for qk in qs]
    delta = [0.0] * len(qs)
    left = epsilon - logarithms * _jacobian_price(bends, lams)
    if left < epsilon / 2:
        delta = [
            max(0.0, bend / math.expm1(epsilon * qk / (2 * logarithms)) - lk) if bend > 0 else 0.0
            for bend, qk, lk in zip(bends, qs, lams, strict=True)
        ]
        left = epsilon - logarithms * _jacobian_price(bends, [lk + dk for lk, dk in zip(lams, delta, strict=True)])
    return Calibration(n, epsilon, left, delta, lams, qs, curvature)


def _jacobian_price(bends: Sequence[float], strengths: Sequence[float]) -> float:
    """sum_k log(1 + c q_k^2 / (n strength_k))."""
    return math.fsum(_log_one_plus(bend, strength) for bend, strength in zip(bends, strengths, strict=True))


def _log_one_plus(bend: float, strength: float) -> float:
    """log(1 + bend/strength), also where the quotient is too large for a float."""
    quotient = bend / strength
    return math.log1p(quotient) if quotient < math.inf else math.log(bend) - math.log(strength)
