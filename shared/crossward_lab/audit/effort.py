"""What every audit is given: chance of its own, and how hard to look."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from crossward.privacy.noise import SYSTEM, Randomness, SeededRandomness
from crossward_lab.audit.measures.report import MechanismVerdict


@dataclass(frozen=True, slots=True)
class Effort:
    """`generator` steers searches; `randomness` is what the audited mechanisms draw their noise from."""

    generator: np.random.Generator
    randomness: Randomness
    full: bool = False

    @classmethod
    def of(cls, name: str, full: bool, seed: int | None) -> Effort:
        """The effort of one audit. Without a seed, mechanisms run on the operating system's generator, as in service.

        With one, every audit has a stream of its own, so that it finds the same alone and among others.
        """
        if seed is None:
            return cls(np.random.default_rng(), SYSTEM, full)
        generator = np.random.default_rng([seed, zlib.crc32(name.encode())])
        return cls(generator, SeededRandomness(generator), full)

    @property
    def starts(self) -> int:
        """Seeds of an exact search."""
        return 6_000 if self.full else 1_500

    @property
    def rounds(self) -> int:
        """Steps of an exact search."""
        return 1_500 if self.full else 300

    def runs(self, quick: int) -> int:
        """Fresh runs of a sampling audit."""
        return 12 * quick if self.full else quick


Audit = Callable[[str, Effort], MechanismVerdict]
"""An audit is given the name to report under, and its effort."""
