"""The regulariser g and hypothesis transfer (HTL).

g(w) = eta/2 |w|^2 + (1 - eta)/2 |w - u|^2 pulls towards u, for instance a source's released weights. Up to a constant
it is 1/2 |w - (1 - eta) u|^2: 1-strongly convex for any fixed u, so the pull changes nothing about privacy.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from crossward.errors import InvalidSetting, NotFinite, WrongShape
from crossward.privacy.noise import Array


@dataclass(frozen=True, slots=True)
class Pull:
    """A pull towards fixed, public weights. eta = 0 pulls all the way, eta = 1 not at all (000: 0; 002: tuned)."""

    towards: Array
    eta: float = 0.0

    def __post_init__(self) -> None:
        towards = np.array(self.towards, dtype=np.float64)
        towards.setflags(write=False)
        object.__setattr__(self, "towards", towards)
        if not 0 <= self.eta <= 1:
            raise InvalidSetting(f"eta must lie between 0 and 1, not {self.eta!r}.", "0 trusts the source fully.")
        if not np.all(np.isfinite(self.towards)):
            raise NotFinite("The weights to pull towards hold NaN or infinity.", "Check the source's release.")

    def digest(self, centre: Array) -> str:
        """Names the point pulled to in a release: the start of its sha256."""
        return hashlib.sha256(centre.tobytes()).hexdigest()[:16]

    def centre(self, dimension: int) -> Array:
        """(1 - eta) u, the point where g is smallest."""
        if np.shape(self.towards) != (dimension,):
            raise WrongShape(
                f"The model has {dimension} weights and is pulled towards {np.shape(self.towards)}.",
                "Source and target must use the same features, groups and intercept.",
            )
        return (1.0 - self.eta) * self.towards
