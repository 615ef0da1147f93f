r"""Audits of deterministic answers with noise on top: how far apart can two neighbours' answers be?

- Noise of density proportional to exp(-||z|| / scale): answers a distance apart lose exactly distance / scale.
- Gaussian noise of deviation sigma: the smallest delta for an epsilon is, with s = distance / sigma,
      delta(eps) = Phi(s/2 - eps/s) - exp(eps) Phi(-s/2 - eps/s)
  (Balle and Wang 2018, Thm 8), so there is nothing to estimate there either.

What remains is the distance: a search over neighbouring data sets through the code that will run.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from crossward.privacy.noise import Array


def exponential_loss(distance: float, scale: float) -> float:
    """The loss of noise with density proportional to exp(-||z|| / scale)."""
    return distance / scale


def gaussian_delta(distance: float, sigma: float, epsilon: float) -> float:
    """The smallest delta at which Gaussian noise gives this epsilon."""
    s = distance / sigma
    if s == 0:
        return 0.0
    return float(ndtr(s / 2 - epsilon / s) - math.exp(epsilon + log_ndtr(-s / 2 - epsilon / s)))


def gaussian_epsilon(distance: float, sigma: float, delta: float) -> float:
    """The smallest epsilon that Gaussian noise gives at this delta."""
    if gaussian_delta(distance, sigma, 0.0) <= delta:
        return 0.0
    s = distance / sigma
    # P(loss > eps) bounds delta(eps), and the loss is N(s^2/2, s^2): this epsilon is large enough.
    enough = s * s / 2 + s * math.sqrt(2 * math.log(1 / delta))
    return float(brentq(lambda e: gaussian_delta(distance, sigma, e) - delta, 0.0, enough))


def widest(
    distance: Callable[[Array], float], seeds: Array, generator: np.random.Generator, *, rounds: int
) -> tuple[float, Array]:
    """The largest distance found from these seeds (a row each), by random steps from the best of them."""
    values = [distance(seed) for seed in seeds]
    top = int(np.argmax(values))
    best, at = values[top], seeds[top]
    for _ in range(rounds):
        size = 10 ** generator.uniform(-3, 0.5)
        tried = at + size * generator.normal(size=at.shape) * (generator.random(at.shape) < 0.4)
        found = distance(tried)
        if found >= best:
            best, at = found, tried
    return float(best), at
