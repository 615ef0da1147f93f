"""Audits of deterministic answers with noise on top: how far apart can two neighbours' answers be?

- Noise of density proportional to exp(-||z|| / scale): answers a distance apart lose exactly distance / scale.
- Gaussian noise of deviation sigma: the smallest delta for an epsilon is, with s = distance / sigma,
      delta(eps) = Phi(s/2 - eps/s) - exp(eps) Phi(-s/2 - eps/s)
  (Balle and Wang 2018, Thm 8), so there is nothing to estimate there either.

What remains is the distance: a search over neighbouring data sets through the code that will run.


Exact audit of "the best of a random number of tries", for tries with finitely many outcomes.

Let one try give outcome j with probability p_j, best outcome first, and let f(x) = E[x^N] for the number of tries N.
All tries are worse than j with probability f(1 - p_1 - .. - p_j), so the best of them is j with probability

    f(1 - p_1 - .. - p_{j-1}) - f(1 - p_1 - .. - p_j).

No number is drawn: the loss is computed for every pair of tries that are eps-private for each other, on a grid.
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


def generating_function(pmf: Callable[[int], float], left: float = 1e-13) -> Callable[[Array], Array]:
    """f(x) = E[x^N] of a law on 1, 2, ..., summed until `left` of it remains; the rest is taken at its last number."""
    masses: list[float] = []
    remaining = 1.0
    while remaining > left and len(masses) < 100_000:
        masses.append(pmf(len(masses) + 1))
        remaining -= masses[-1]
    coefficients = np.array([0.0, *masses])
    coefficients[-1] += max(0.0, 1 - coefficients.sum())
    return lambda x: np.asarray(np.polynomial.polynomial.polyval(x, coefficients))


def worst_best_of(generate: Callable[[Array], Array], epsilon: float, points: int = 40) -> tuple[float, str]:
    """The largest loss over pairs of three-outcome tries whose probabilities differ by factors of at most exp(eps)."""
    grid = np.geomspace(1e-4, 0.9, points)
    better, middle = (a.ravel() for a in np.meshgrid(grid, grid))
    up = np.exp(epsilon)
    other_better, other_middle = better * up, middle / up
    rest, other_rest = 1 - better - middle, 1 - other_better - other_middle
    fits = (rest > 0) & (other_rest > rest / up) & (other_rest < rest * up)
    p = np.stack([better, middle, rest])[:, fits]
    q = np.stack([other_better, other_middle, other_rest])[:, fits]
    losses = np.abs(np.log(_best_of(generate, p)) - np.log(_best_of(generate, q)))
    outcome, at = np.unravel_index(int(np.argmax(losses)), losses.shape)
    return float(losses[outcome, at]), f"outcome {outcome + 1} of 3, tried with {p[0, at]:.3g}, {p[1, at]:.3g}"


def _best_of(generate: Callable[[Array], Array], p: Array) -> Array:
    worse = 1 - np.cumsum(p, axis=0)
    worse[-1] = 0.0
    return np.asarray(-np.diff(generate(np.vstack([np.ones(p.shape[1]), worse])), axis=0))
