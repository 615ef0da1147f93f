r"""The exact audit of objective perturbation with Gaussian noise, (eps, delta): the hockey-stick by quadrature.

w minimises sum_i loss(z_i.w) + B.w + (ridge/2)|w|^2 with B ~ N(0, sigma^2 I), so its density is that of the noise at
b_D(w) times |det J_D(w)|, and

    delta(eps) = integral of max(0, p_D(w) - exp(eps) p_D'(w)) dw

is the smallest delta for that eps. In one or two dimensions a grid of w gives it to many digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from crossward.privacy.noise import Array
from crossward_lab.audit.measures.exact import Law, Slopes

TAILS = 9.0
"""The grid covers noise up to this many deviations: what lies outside is far below any delta."""


@dataclass(frozen=True, slots=True)
class GaussianLaw:
    """The law of a minimiser in `dimension` weights."""

    loss: Slopes
    sigma: float
    ridge: float
    dimension: int

    def grid(self, n: int, points: int) -> tuple[Array, float]:
        """Weights that cover all but the tails, and the volume of a cell. |b_D(w) + ridge w| is at most n."""
        reach = (TAILS * self.sigma + n) / self.ridge
        axis = np.linspace(-reach, reach, points)
        mesh = np.meshgrid(*[axis] * self.dimension, indexing="ij")
        return np.stack([m.ravel() for m in mesh], axis=1), float((axis[1] - axis[0]) ** self.dimension)

    def density(self, Z: Array, w: Array) -> Array:
        """p_D at each row of w."""
        law = Law(self.loss, 0.0, np.full(self.dimension, self.ridge), np.zeros(self.dimension))
        everywhere = np.broadcast_to(Z, (len(w), *Z.shape))
        square = np.sum(law.noise(everywhere, w) ** 2, axis=1) / self.sigma**2
        log_scale = self.dimension * math.log(self.sigma * math.sqrt(2 * math.pi))
        return np.asarray(np.exp(law.log_jacobian(everywhere, w) - square / 2 - log_scale))


def hockey_stick(law: GaussianLaw, Z: Array, other: Array, epsilon: float, points: int = 2001) -> float:
    """delta(eps) for publishing the minimiser on records Z rather than on `other`."""
    w, cell = law.grid(len(Z), points)
    return _delta(law.density(Z, w), law.density(other, w), cell, epsilon)


def epsilon_at(law: GaussianLaw, Z: Array, other: Array, delta: float, points: int = 2001) -> float:
    """The smallest epsilon at this delta, Z against `other` and `other` against Z."""
    w, cell = law.grid(len(Z), points)
    p, q = law.density(Z, w), law.density(other, w)
    return max(_epsilon(p, q, cell, delta), _epsilon(q, p, cell, delta))


def _delta(p: Array, q: Array, cell: float, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum() * cell)


def _epsilon(p: Array, q: Array, cell: float, delta: float) -> float:
    if _delta(p, q, cell, 0.0) <= delta:
        return 0.0
    if _delta(p, q, cell, 100.0) > delta:
        return math.inf
    return float(brentq(lambda e: _delta(p, q, cell, e) - delta, 0.0, 100.0, xtol=1e-9))
