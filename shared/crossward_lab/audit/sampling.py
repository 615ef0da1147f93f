"""Sampling audits: a lower bound on epsilon from fresh runs on two neighbouring data sets.

For any event E an (eps, delta)-private mechanism has P(M(D) in E) <= exp(eps) P(M(D') in E) + delta, so

    eps >= log((P(M(D) in E) - delta) / P(M(D') in E)).

The event is chosen on the first half of the runs and its two probabilities are bounded on the second half, each by
Clopper and Pearson at alpha/2: whatever the choice, a correct mechanism is accused with probability at most alpha.


Is the noise drawn from the law that the proof assumes? For noise of density proportional to exp(-rate ||b||).

Its norm is Gamma(d, 1/rate) and its direction uniform. The rate is bounded from below by the sum of the norms, which
is Gamma(N d, 1/rate); shape and direction are tested by Kolmogorov and Smirnov.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, gamma, kstest

from crossward.errors import AuditFailed, CrosswardError
from crossward.privacy.noise import Array

ALPHA = 1e-8
"""The chance that one sampling audit accuses a correct mechanism. Below a hundred of them it stays under 10^-6."""

CUTS = 24
"""Events are intervals between this many quantiles of each statistic."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A lower confidence bound on epsilon and the event that gave it."""

    epsilon: float
    event: str


def clopper_pearson(successes: Array, trials: int, alpha: float) -> tuple[Array, Array]:
    """One-sided lower and upper bounds on a probability, each wrong with probability at most alpha."""
    hits = np.asarray(successes, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        low = np.where(hits > 0, beta.ppf(alpha, hits, trials - hits + 1), 0.0)
        high = np.where(hits < trials, beta.ppf(1 - alpha, hits + 1, trials - hits), 1.0)
    return low, high


def collect(run: Callable[[], Sequence[float]], count: int) -> Array:
    """The statistics of `count` fresh runs, a row each. A refusal is an answer too: the first column tells of it."""
    rows: list[Sequence[float] | None] = []
    for _ in range(count):
        try:
            rows.append(run())
        except CrosswardError:
            rows.append(None)
    width = max((len(row) for row in rows if row is not None), default=0)
    return np.array([[0.0, *row] if row is not None else [1.0] + [-np.inf] * width for row in rows])


def epsilon_lower_bound(here: Array, there: Array, *, delta: float = 0.0, alpha: float = ALPHA) -> Bound:
    """A lower bound on epsilon at confidence 1 - alpha, from statistics (runs, statistics) on D and on D'.

    Where every run on one side was refused there is nothing but refusals to compare, and that is enough.
    """
    if here.shape[1] == there.shape[1] == 1 and np.all(here == 1) and np.all(there == 1):
        raise AuditFailed("The mechanism refused every run, so nothing was audited.", "Give it data it answers on.")
    first, second = len(here) // 2, len(there) // 2
    best, chosen = -np.inf, (0, -np.inf, np.inf, False)
    for column in range(min(here.shape[1], there.shape[1])):
        a, b = here[:first, column], there[:second, column]
        low, high = _intervals(np.concatenate([a, b]))
        for swapped, (p, q) in enumerate(((a, b), (b, a))):
            bounds = _bound(_count(p, low, high), len(p), _count(q, low, high), len(q), delta, alpha)
            top = int(np.argmax(bounds))
            if bounds[top] > best:
                best, chosen = float(bounds[top]), (column, low[top], high[top], bool(swapped))
    column, lowest, highest, swapped = chosen
    p, q = here[first:, column], there[second:, column]
    if swapped:
        p, q = q, p
    edges = np.array([lowest]), np.array([highest])
    found = _bound(_count(p, *edges), len(p), _count(q, *edges), len(q), delta, alpha)
    event = f"statistic {column} in [{lowest:.4g}, {highest:.4g}], {len(here)} runs each"
    return Bound(max(0.0, float(found[0])), event)


def _intervals(values: Array) -> tuple[Array, Array]:
    """All closed intervals between quantiles, the half-lines among them."""
    cuts = np.unique(np.quantile(values, np.linspace(0, 1, CUTS), method="nearest"))
    edges = np.unique(np.concatenate([[-np.inf], cuts, [np.inf]]))
    i, j = np.triu_indices(len(edges))
    return edges[i], edges[j]


def _count(values: Array, low: Array, high: Array) -> NDArray[np.intp]:
    """How many values lie in each closed interval."""
    ordered = np.sort(values)
    return np.searchsorted(ordered, high, "right") - np.searchsorted(ordered, low, "left")


def _bound(
    hits: NDArray[np.intp], trials: int, others: NDArray[np.intp], other_trials: int, delta: float, alpha: float
) -> Array:
    low = clopper_pearson(hits.astype(np.float64), trials, alpha / 2)[0]
    high = clopper_pearson(others.astype(np.float64), other_trials, alpha / 2)[1]
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(low - delta, 0.0)) - np.log(high))


def rate_lower_bound(noise: Array, alpha: float) -> float:
    """A rate that the true one is above with probability at least 1 - alpha, from N draws (N, d)."""
    count, dimension = noise.shape
    return float(gamma.ppf(alpha, count * dimension) / np.linalg.norm(noise, axis=1).sum())


def smallest_p(noise: Array, rate: float) -> float:
    """The smallest p-value of the tests of norm and direction, times their number.

    A coordinate u of a uniform direction in d dimensions has (u + 1)/2 ~ Beta((d - 1)/2, (d - 1)/2).
    """
    dimension = noise.shape[1]
    norms = np.linalg.norm(noise, axis=1)
    values = [kstest(norms, gamma(dimension, scale=1 / rate).cdf).pvalue]
    if dimension > 1:
        half = (dimension - 1) / 2
        directions = (noise / norms[:, None] + 1) / 2
        values += [kstest(directions[:, j], beta(half, half).cdf).pvalue for j in range(dimension)]
    return min(1.0, len(values) * float(min(values)))
