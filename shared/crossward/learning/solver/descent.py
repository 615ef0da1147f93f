r"""Descent to a given gradient norm, from few gradients and fewer Hessians.

A step is p = -B^{-1} grad F with B a Hessian seen once, often on fewer rows, and corrected by what the gradients since
then taught (BFGS, so convergence is superlinear). It is kept if it halves the smallest gradient norm so far. A step
that does not is taken back, and replaced by a Newton step with a Hessian of all rows, up to where F stops falling
along it. Neither test needs a value of F, whose differences near the minimum drown in rounding.

This ends. The norm can be halved only finitely often before it is below the tolerance, and between two halvings there
are only Newton steps with a line search, which reach the minimum of a strongly convex F with a bounded Hessian from
anywhere, also where that Hessian jumps (Huber).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from crossward.errors import NotConverged
from crossward.learning.solver.objective import Objective
from crossward.privacy.noise import Array

MAX_STEPS = 500
"""Far more than a problem of finite precision needs: separable records at a tiny ridge take some fifty."""

_PAIRS = 12
"""Corrections kept. Solves from a good start need about six."""

_FLAT = 0.1
"""A line search ends where the slope is a tenth of the first: more precision saves no Newton steps, even for Huber."""

MAX_TRIES = 200


@dataclass(frozen=True, slots=True)
class Point:
    """Where a descent stands."""

    w: Array
    gradient: Array
    norm: float

    @classmethod
    def at(cls, objective: Objective, w: Array) -> Point:
        """The point w, at the cost of one pass."""
        gradient = objective.gradient(w)
        return cls(w, gradient, math.sqrt(float(gradient @ gradient)))


class Curvature:
    """B^{-1}: a Cholesky factor of a Hessian, corrected by BFGS pairs (s, y) = (step, change of gradient)."""

    def __init__(self, hessian: Array) -> None:
        self._factor, failed = dpotrf(hessian, lower=1)
        if failed:  # only rounding can make a Hessian of at least ridge > 0 indefinite
            self._factor = _lifted(hessian)
        self._pairs: list[tuple[Array, Array, float]] = []

    def step(self, gradient: Array) -> Array:
        """-B^{-1} gradient, by the two-loop recursion (Nocedal and Wright 2006, Alg. 7.4)."""
        if not self._pairs:
            return -self._solve(gradient)
        q, shares = gradient.copy(), []
        for s, y, inverse in reversed(self._pairs):
            share = inverse * float(s @ q)
            q -= share * y
            shares.append(share)
        r = self._solve(q)
        for (s, y, inverse), share in zip(self._pairs, reversed(shares), strict=True):
            r += (share - inverse * float(y @ r)) * s
        return -r

    def _solve(self, right: Array) -> Array:
        solution: Array = dpotrs(self._factor, right, lower=1)[0]
        return solution

    def learn(self, s: Array, y: Array) -> None:
        """Take in that a step s changed the gradient by y."""
        product = float(s @ y)
        if product > 0:  # always but for rounding, F being strongly convex
            self._pairs.append((s, y, 1.0 / product))
            del self._pairs[:-_PAIRS]


def _lifted(hessian: Array) -> Array:
    """The factor of the Hessian plus the least multiple of the identity, in powers of ten, that rounding leaves one."""
    lift = 1e-16 * float(np.trace(hessian))
    for _ in range(16):
        lift *= 10
        factor, failed = dpotrf(hessian + lift * np.eye(len(hessian)), lower=1)
        if not failed:
            return np.asarray(factor)
    raise NotConverged("The solver met a Hessian that is not finite.", "Check the linear term and the start.")


def descend(
    objective: Objective, start: Array, tolerance: float, curvature: Curvature | None = None, *, newton: bool = False
) -> Point:
    """From `start` to a gradient norm of at most `tolerance`, rounding included.

    `newton`: take a fresh Hessian at every step, for problems so small that it costs no more than a correction.
    """
    here = Point.at(objective, start)
    best = here.norm
    for _ in range(MAX_STEPS):
        if here.norm <= tolerance and _is_certain(objective, here, tolerance):
            return here
        fresh = curvature is None
        if curvature is None:
            curvature = Curvature(objective.hessian(here.w))
        step = curvature.step(here.gradient)
        there = Point.at(objective, here.w + step)
        if there.norm <= best / 2:
            if newton:
                curvature = None
            else:
                curvature.learn(step, there.gradient - here.gradient)
            here, best = there, there.norm
            continue
        curvature = None
        if fresh:
            here = _as_far_as_it_falls(objective, here, step)
            best = min(best, here.norm)
    raise _stopped(best, tolerance)


def _as_far_as_it_falls(objective: Objective, here: Point, step: Array) -> Point:
    """The point along a descent direction where F stops falling, a tenth of its first slope allowed.

    By convexity the slope rises along the ray, and F is lower wherever it is still negative: so the lower end of a
    bracket of its zero is returned. The zero is found by false position, an end that stays halved (Illinois).
    """
    slope = objective.along(here.w, step)
    lower, upper, first = 0.0, 1.0, slope(0.0)
    at_lower, at_upper = first, slope(upper)
    while at_upper < 0:
        lower, at_lower, upper = upper, at_upper, 4 * upper
        at_upper = slope(upper)
    left, right, moved = at_lower, at_upper, 0
    for _ in range(MAX_TRIES):
        if at_lower >= _FLAT * first:
            return Point.at(objective, here.w + lower * step)
        size = (lower * right - upper * left) / (right - left)
        if not lower < size < upper:
            size = (lower + upper) / 2
        there = slope(size)
        if there <= 0:
            lower, at_lower, left = size, there, there
            right, moved = right / 2 if moved < 0 else right, -1
        else:
            upper, right = size, there
            left, moved = left / 2 if moved > 0 else left, 1
    raise NotConverged("The solver found no step that lowers its objective.", "Raise lambda; the charge stands.")


def _is_certain(objective: Objective, point: Point, tolerance: float) -> bool:
    rounding = objective.rounding(point.w)
    if rounding > tolerance:
        raise NotConverged(
            f"Rounding alone may move the gradient by {rounding:.3g}, more than the tolerance of {tolerance:.3g}.",
            "Raise the tolerance or lambda; the charge for this release stands.",
        )
    return point.norm + rounding <= tolerance


def _stopped(norm: float, tolerance: float) -> NotConverged:
    return NotConverged(
        f"The solver stopped at a gradient of {norm:.3g}, above its tolerance of {tolerance:.3g}.",
        "Raise lambda or the tolerance; the charge for this release stands.",
    )
