r"""Exact audit of "the best of a random number of tries", for tries with finitely many outcomes.

Let one try give outcome j with probability p_j, best outcome first, and let f(x) = E[x^N] for the number of tries N.
All tries are worse than j with probability f(1 - p_1 - .. - p_j), so the best of them is j with probability

    f(1 - p_1 - .. - p_{j-1}) - f(1 - p_1 - .. - p_j).

No number is drawn: the loss is computed for every pair of tries that are eps-private for each other, on a grid.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from crossward.privacy.noise import Array


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
