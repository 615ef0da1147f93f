"""The exact audit of objective perturbation: the privacy loss itself, from densities, maximised by search.

Group k of K minimises sum_i loss(z_i.w) + b.w + 1/2 sum_j ridge_j w_j^2 - offset.w over signed records z_i, and b has
density proportional to exp(-rate ||b||). The minimiser is w exactly when the noise was

    b_D(w) = -(sum_i loss'(z_i.w) z_i + ridge * w - offset),

so its density at w is exp(-rate ||b_D(w)||) |det J_D(w)| up to a constant, J_D = sum_i loss''(z_i.w) z_i z_i^T +
diag(ridge) (where records carry a number of their own beside the margin, z_i.w + o_i stands for z_i.w), and the loss of
publishing w = (w_1 .. w_K) on neighbours D and D' is

    sum_k rate_k (||b_D',k(w_k)|| - ||b_D,k(w_k)||) + log|det J_D,k(w_k)| - log|det J_D',k(w_k)|.

A mechanism is eps-private exactly when this is at most eps for every w, D and D'. The search has no proof to believe
in: it looks for a counter-example, from seeds that stress one term each and then from the best of them.

The exact audit of objective perturbation with Gaussian noise, (eps, delta): the hockey-stick by quadrature.

w minimises sum_i loss(z_i.w) + B.w + (ridge/2)|w|^2 with B ~ N(0, sigma^2 I), so its density is that of the noise at
b_D(w) times |det J_D(w)|, and

    delta(eps) = integral of max(0, p_D(w) - exp(eps) p_D'(w)) dw

is the smallest delta for that eps. In one or two dimensions a grid of w gives it to many digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from crossward.privacy.noise import Array

FARTHEST = 1e6
"""Weights and raw records stay within this, so that a supremum at infinity is approached and not overflown."""


class Slopes(Protocol):
    """What the audit needs of a loss of the margin."""

    def slope(self, m: Array) -> Array:
        """loss'(m)."""
        ...

    def bend(self, m: Array) -> Array:
        """loss''(m)."""
        ...


@dataclass(frozen=True, slots=True)
class Law:
    """The law of one group's minimiser. `ridge` and `offset` have one entry per weight.

    Records may carry one number more than there are weights: what stands beside their margin, signed by the label.
    """

    loss: Slopes
    rate: float
    ridge: Array
    offset: Array

    def noise(self, Z: Array, w: Array) -> Array:
        """b_D(w), a row per candidate: Z (B, n, d) and w (B, d) give (B, d)."""
        slopes, Z = self.loss.slope(self._margins(Z, w)), Z[:, :, : w.shape[1]]
        return np.asarray(self.offset - self.ridge * w - np.einsum("bi,bij->bj", slopes, Z))

    def log_jacobian(self, Z: Array, w: Array) -> Array:
        """log|det J_D(w)| per candidate; minus infinity where J is singular."""
        bends, Z = self.loss.bend(self._margins(Z, w)), Z[:, :, : w.shape[1]]
        J = np.einsum("bi,bij,bik->bjk", bends, Z, Z) + np.diag(self.ridge)
        return np.asarray(np.linalg.slogdet(J)[1])

    def log_density(self, Z: Array, w: Array) -> Array:
        """The log density at w on D, up to a constant that D does not change."""
        return np.asarray(self.log_jacobian(Z, w) - self.rate * np.linalg.norm(self.noise(Z, w), axis=1))

    @staticmethod
    def _margins(Z: Array, w: Array) -> Array:
        width = w.shape[1]
        return np.asarray(np.einsum("bij,bj->bi", Z[:, :, :width], w) + Z[:, :, width:].sum(axis=2))


Encode = Callable[[Array, Array], list[Array]]
"""Raw records (B, n, features) and labels (B, n) to the signed records of each group, (B, n, d_k). A whole data set at
a time, so that an encoding which looks at other records can be audited too."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One mechanism at one size: n records of `features` raw columns, group k built from `columns[k]`."""

    laws: tuple[Law, ...]
    encode: Encode
    n: int
    columns: tuple[tuple[int, ...], ...]
    reach: float = 1.0

    @property
    def features(self) -> int:
        """The number of raw columns."""
        return 1 + max(max(columns) for columns in self.columns)


@dataclass(slots=True)
class Candidates:
    """B places to look: raw records (the first belongs to D only, the last to D' only), labels and weights."""

    X: Array
    y: Array
    w: list[Array]

    def __getitem__(self, rows: NDArray[np.intp]) -> Candidates:
        return Candidates(self.X[rows], self.y[rows], [w[rows] for w in self.w])

    def __setitem__(self, rows: NDArray[np.intp], other: Candidates) -> None:
        self.X[rows], self.y[rows] = other.X, other.y
        for mine, theirs in zip(self.w, other.w, strict=True):
            mine[rows] = theirs


@dataclass(frozen=True, slots=True)
class Worst:
    """The largest loss found, and where."""

    loss: float
    detail: str


def losses(scenario: Scenario, at: Candidates) -> Array:
    """The privacy loss at each candidate."""
    Z = scenario.encode(at.X[:, :-1], at.y[:, :-1])
    other = scenario.encode(at.X[:, 1:], at.y[:, 1:])
    total = np.zeros(len(at.X))
    with np.errstate(invalid="ignore", divide="ignore"):
        for law, here, there, w in zip(scenario.laws, Z, other, at.w, strict=True):
            total += law.log_density(here, w) - law.log_density(there, w)
    return np.where(np.isnan(total), -np.inf, total)


def worst_loss(scenario: Scenario, generator: np.random.Generator, *, starts: int = 4000, rounds: int = 600) -> Worst:
    """Search for the largest loss: many seeds, then random steps of every size from the best."""
    seeds = _seeds(scenario, starts, generator)
    value = losses(scenario, seeds)
    best = np.argsort(-value)[: max(16, starts // 20)]
    at, value = seeds[best], value[best]
    for i in range(rounds):
        tried = _step(at, scenario.reach, generator)
        found = losses(scenario, tried)
        better = np.flatnonzero(found > value)
        at[better], value[better] = tried[better], found[better]
        if i % 50 == 49:
            _restart_worst(at, value)
    top = int(np.argmax(value))
    return Worst(float(value[top]), _describe(scenario, at[np.array([top])]))


def _seeds(scenario: Scenario, count: int, generator: np.random.Generator) -> Candidates:
    """Records along, against and across the weights, near margin zero and far away; weights of every length."""
    n, features = scenario.n, scenario.features
    weights = []
    towards = np.zeros((count, features))
    for law, columns in zip(scenario.laws, scenario.columns, strict=True):
        centre = np.divide(law.offset, law.ridge, out=np.zeros_like(law.ridge), where=law.ridge > 0)
        direction = generator.normal(size=(count, len(law.ridge)))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        w = centre + direction * _lengths(count, generator)[:, None]
        weights.append(w)
        towards[:, columns] = w[:, : len(columns)]
    towards /= np.maximum(np.linalg.norm(towards, axis=1, keepdims=True), 1e-12)

    X = generator.normal(size=(count, n + 1, features))
    along = np.einsum("bij,bj->bi", X, towards)[:, :, None] * towards[:, None, :]
    across = X - along
    share = generator.choice([0.0, 1e-3, 0.03, 0.3, 1.0], size=(count, n + 1, 1))
    X = np.where(generator.random((count, n + 1, 1)) < 0.7, across + share * along, along)
    opposed = generator.random(count) < 0.5
    X[opposed, -1] = -X[opposed, 0] + 0.05 * generator.normal(size=(int(opposed.sum()), features))
    length = generator.choice([0.1, 1.0, 3.0], p=[0.1, 0.3, 0.6], size=(count, n + 1, 1))
    X *= scenario.reach * length / np.maximum(np.linalg.norm(X, axis=2, keepdims=True), 1e-12)
    y = generator.choice([-1.0, 1.0], size=(count, n + 1))
    return Candidates(X, y, weights)


def _lengths(count: int, generator: np.random.Generator) -> Array:
    return np.asarray(10 ** generator.uniform(-2, 3, size=count))


def _step(at: Candidates, reach: float, generator: np.random.Generator) -> Candidates:
    """Move about a third of the coordinates, by a step whose size is itself drawn over five decades."""
    size = 10 ** generator.uniform(-5, 0, size=len(at.X))
    X = at.X + reach * _sparse(at.X.shape, size, generator)
    flip = generator.random(at.y.shape) < 0.03
    w = []
    for now in at.w:
        length = np.maximum(np.linalg.norm(now, axis=1, keepdims=True), 0.1)
        w.append(np.clip(now + length * _sparse(now.shape, size, generator), -FARTHEST, FARTHEST))
    return Candidates(np.clip(X, -FARTHEST, FARTHEST), np.where(flip, -at.y, at.y), w)


def _sparse(shape: tuple[int, ...], size: Array, generator: np.random.Generator) -> Array:
    moved = generator.normal(size=shape) * (generator.random(shape) < 0.35)
    return np.asarray(moved * size.reshape(-1, *[1] * (len(shape) - 1)))


def _restart_worst(at: Candidates, value: Array) -> None:
    """The worst quarter continues from where the best quarter stands."""
    order = np.argsort(-value)
    quarter = len(order) // 4
    at[order[-quarter:]] = at[order[:quarter]]
    value[order[-quarter:]] = value[order[:quarter]]


def _describe(scenario: Scenario, at: Candidates) -> str:
    dimensions = ",".join(str(len(law.ridge)) for law in scenario.laws)
    longest = max(float(np.linalg.norm(w)) for w in at.w)
    where = "" if math.isinf(longest) else f", |w| up to {longest:.3g}"
    return f"n={scenario.n}, K={len(scenario.laws)}, d={dimensions}{where}"


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
