r"""How far a computed gradient can be from the exact one.

With u = 2^-53, n records of norm at most q, sums of r numbers within a block, d weights, a loss of curvature c:

    margins     z_i.w + o is a sum of d products and o: error at most (d + 4) u (q |w| + |o|), c times that in a slope
    slopes      a few roundings and one exponential, accurate to 4 units in the last place: at most 16 u
    sums        a block adds r numbers in an unknown order, r u; blocks are added pairwise, with a few products, 64 u
    the rest    linear + ridge w: 4 u (|linear| + ridge |w|)

Each record weighs |slope| ||z_i|| <= q, so the sums err by n q u (r + 80 + c (d + 4) (q |w| + |o|)) at most. Twice that
covers products of errors and the rounding of the norm itself. At n = 10^6, d = 50, |w| = 10 it is 1.2e-6.
"""

from __future__ import annotations

import math

import numpy as np

from crossward.learning.losses import Loss
from crossward.learning.records import Records
from crossward.privacy.noise import Array

_UNIT = 2.0**-53


def before_reading(records: Records, loss: Loss, linear: Array, ridge: float) -> float:
    """A bound on the rounding error near the minimiser, from what is known before a record is read.

    F is at most n l at the minimiser, as it is at 0, l = loss(-|o|), and losses are not negative: so with
    a = |linear|/ridge, |w|^2/2 - a |w| <= n l/ridge there, and |w| <= a + sqrt(a^2 + 2 n l/ridge). A refusal that rests
    on this depends on the noise and on public numbers only; one that looked at w would be an answer about the records.
    """
    n, largest = records.n, float(loss.value(np.array([-abs(records.offset)]))[0])
    a = math.sqrt(float(linear @ linear)) / ridge
    size = a + math.sqrt(a * a + 2 * n * largest / ridge)
    longest = np.full(len(linear), size / math.sqrt(len(linear)))
    return of_gradient(n, records.block_rows, records.reach, loss.curvature, linear, ridge, longest, records.offset)


def of_gradient(
    n: float, r: int, q: float, curvature: float, linear: Array, ridge: float, w: Array, offset: float = 0.0
) -> float:
    """A bound on || computed gradient - exact gradient ||."""
    size = math.sqrt(float(w @ w))
    sums = n * q * (r + 80 + curvature * (len(w) + 4) * (q * size + abs(offset)))
    rest = 4 * (math.sqrt(float(linear @ linear)) + ridge * size)
    return 2 * _UNIT * (sums + rest)
