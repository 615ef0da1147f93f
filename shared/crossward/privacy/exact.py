"""Exact samplers on integers: no floating point between the random bits and the answer.

Bernoulli(exp(-x)) and the discrete Laplace law follow Canonne, Kamath and Steinke (2020, section 5): only rational
arithmetic and fair integer draws, so there are no gaps or stray bits to attack (Mironov 2012).
"""

from __future__ import annotations

from fractions import Fraction

from crossward.errors import InvalidSetting
from crossward.privacy.noise import Randomness


def bernoulli(p: Fraction, randomness: Randomness) -> bool:
    """True with probability p, exactly."""
    if not 0 <= p <= 1:
        raise InvalidSetting(f"A probability lies between 0 and 1, and {p} does not.", "Give one that does.")
    return randomness.below(p.denominator) < p.numerator


def bernoulli_exp(x: Fraction, randomness: Randomness) -> bool:
    """True with probability exp(-x), x >= 0, exactly."""
    if x < 0:
        raise InvalidSetting(f"exp({-x}) is no probability: it is above 1.", "Give an x of at least 0.")
    while x > 1:
        if not bernoulli_exp(Fraction(1), randomness):
            return False
        x -= 1
    k = 1
    while bernoulli(x / k, randomness):
        k += 1
    return k % 2 == 1


def discrete_laplace(scale: Fraction, randomness: Randomness) -> int:
    """An integer v with probability proportional to exp(-|v| / scale), exactly."""
    if scale <= 0:
        raise InvalidSetting(
            f"The scale of Laplace noise must be positive, not {scale}.",
            "It is sensitivity over epsilon, both above 0.",
        )
    numerator, denominator = scale.numerator, scale.denominator
    while True:
        low = randomness.below(numerator)
        if not bernoulli_exp(Fraction(low, numerator), randomness):
            continue
        high = 0
        while bernoulli_exp(Fraction(1), randomness):
            high += 1
        size = (low + numerator * high) // denominator
        negative = randomness.below(2) == 1
        if not (negative and size == 0):
            return -size if negative else size
