"""Where randomness comes from, and the continuous noise laws built on it.

Every law here is a deterministic function of independent 64-bit words. In service the words come from the operating
system; a test may pass a seeded generator instead, and what it produces is marked as seeded. Both run the same code.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from crossward.errors import InvalidSetting

Array = NDArray[np.float64]

_WORD = 2.0**-64
_BELOW_ONE = 1 - 2.0**-53


class Randomness(ABC):
    """A source of independent, uniform 64-bit words."""

    seeded: bool

    @abstractmethod
    def words(self, count: int) -> NDArray[np.uint64]:
        """`count` independent uniform 64-bit words."""

    def uniform(self, count: int) -> Array:
        """Uniform on (0, 1]; the spacing near zero is 2^-64, so tails of the laws below reach that far."""
        return (self.words(count).astype(np.float64) + 0.5) * _WORD

    def exponential(self, count: int) -> Array:
        """Standard exponential, by inversion."""
        return -np.log(self.uniform(count))

    def normal(self, count: int) -> Array:
        """Standard normal, never zero: a half-normal by inversion in its accurate tail, and an independent sign."""
        sign = np.where(self.words(count) >> np.uint64(63), 1.0, -1.0)
        return sign * -ndtri(0.5 * np.minimum(self.uniform(count), _BELOW_ONE))

    def in_all_directions(self, dimension: int, scale: float) -> Array:
        """A vector with density proportional to exp(-||z|| / scale).

        Its norm is Gamma(dimension, scale), a sum of `dimension` exponentials, and its direction uniform.
        """
        norm = scale * float(self.exponential(dimension).sum())
        direction = self.normal(dimension)
        return norm / float(np.linalg.norm(direction)) * direction

    def below(self, bound: int) -> int:
        """A uniform integer in [0, bound), exactly: words that would favour some residues are drawn again."""
        if bound < 1:
            raise InvalidSetting(f"Cannot draw an integer below {bound}.", "Give a bound of at least 1.")
        size = max(1, -(-bound.bit_length() // 64))
        limit = (1 << (64 * size)) // bound * bound
        while True:
            drawn = int.from_bytes(self.words(size).tobytes(), "little")
            if drawn < limit:
                return drawn % bound

    def permutation(self, n: int) -> NDArray[np.intp]:
        """A uniform permutation of 0..n-1 (two equal 64-bit keys have probability below n^2 2^-65)."""
        return np.argsort(self.words(n))


class SystemRandomness(Randomness):
    """The operating system's cryptographic generator."""

    seeded = False

    def words(self, count: int) -> NDArray[np.uint64]:
        """`count` words from the operating system."""
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


class SeededRandomness(Randomness):
    """A reproducible generator for tests and simulations; releases made with it say so."""

    seeded = True

    def __init__(self, seed: int | np.random.Generator | np.random.RandomState) -> None:
        if isinstance(seed, np.random.RandomState):
            seed = int(seed.randint(2**31 - 1))
        self._generator = np.random.default_rng(seed)

    def words(self, count: int) -> NDArray[np.uint64]:
        """`count` words from the seeded generator."""
        return self._generator.integers(0, 2**64, size=count, dtype=np.uint64)


SYSTEM = SystemRandomness()


def as_randomness(
    source: int | np.random.Generator | np.random.RandomState | Randomness | None,
) -> Randomness:
    """None: the operating system. A seed or a numpy generator: seeded, and marked so."""
    if source is None:
        return SYSTEM
    if isinstance(source, Randomness):
        return source
    return SeededRandomness(source)
