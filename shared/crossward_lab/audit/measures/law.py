"""Is the noise drawn from the law that the proof assumes? For noise of density proportional to exp(-rate ||b||).

Its norm is Gamma(d, 1/rate) and its direction uniform. The rate is bounded from below by the sum of the norms, which
is Gamma(N d, 1/rate); shape and direction are tested by Kolmogorov and Smirnov.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import beta, gamma, kstest

from crossward.privacy.noise import Array


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
