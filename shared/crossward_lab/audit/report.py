"""What an audit is given (`Effort`: chance of its own, and how hard to look), and what it finds: whether each mechanism
kept its promise, and whether each planted fault was noticed.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from crossward.privacy.noise import SYSTEM, Randomness, SeededRandomness

ROUNDING = 1e-9
"""A mechanism may use its epsilon up: a loss above the claim by less than this share is floating point, not a fault."""

Verdict = Literal["clear", "violation"]


def exceeds(loss: float, claimed: float) -> bool:
    """Whether a loss is above a claim by more than rounding."""
    return loss > claimed * (1 + ROUNDING)


@dataclass(frozen=True, slots=True)
class MechanismVerdict:
    """A mechanism, the epsilon (and delta) it claims, and the largest privacy loss that was found.

    `method` is how: "exact" (densities), "distance" (sensitivity over noise), "law" (the law of the noise) or
    "sampling" (a lower confidence bound from fresh runs).
    """

    name: str
    claimed_epsilon: float
    largest_loss: float
    verdict: Verdict
    claimed_delta: float = 0.0
    method: str = "exact"
    detail: str = ""

    @classmethod
    def of(
        cls, name: str, claimed: float, loss: float, method: str, detail: str = "", *, delta: float = 0.0
    ) -> MechanismVerdict:
        """Judge a loss against its claim."""
        verdict: Verdict = "violation" if exceeds(loss, claimed) else "clear"
        return cls(name, claimed, loss, verdict, delta, method, detail)


@dataclass(frozen=True, slots=True)
class MutantVerdict:
    """A planted fault, and whether the audit caught it."""

    name: str
    caught: bool
    claimed_epsilon: float
    largest_loss: float
    method: str
    detail: str = ""

    @classmethod
    def of(cls, found: MechanismVerdict) -> MutantVerdict:
        """A mutant is audited as the mechanism it pretends to be: it is caught when that is a violation."""
        caught = found.verdict == "violation"
        return cls(found.name, caught, found.claimed_epsilon, found.largest_loss, found.method, found.detail)


@dataclass(frozen=True, slots=True)
class PeerVerdict:
    """A public library's formula, audited for information. It does not decide whether the audit passed."""

    name: str
    claimed_epsilon: float
    largest_loss: float
    method: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class AuditReport:
    """All verdicts. An audit passes when every mechanism is clear and every mutant is caught."""

    mechanisms: tuple[MechanismVerdict, ...]
    mutants: tuple[MutantVerdict, ...]
    peers: tuple[PeerVerdict, ...] = ()

    @property
    def passed(self) -> bool:
        """Every promise kept, and every planted fault noticed."""
        return all(m.verdict == "clear" for m in self.mechanisms) and all(m.caught for m in self.mutants)

    def describe(self) -> dict[str, Any]:
        """Plain values, ready for JSON. A `largest_loss` without bound is null."""
        described = {
            "mechanisms": [_plain(found) for found in self.mechanisms],
            "mutants": [_plain(found) for found in self.mutants],
        }
        return described | ({"peers": [_plain(found) for found in self.peers]} if self.peers else {})


def _plain(found: MechanismVerdict | MutantVerdict | PeerVerdict) -> dict[str, Any]:
    plain = asdict(found)
    if math.isinf(found.largest_loss):
        plain["largest_loss"] = None
    return plain


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
