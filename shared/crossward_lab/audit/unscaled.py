r"""Objective perturbation on records of norm up to R that are not scaled: the form of Chaudhuri et al. before scaling.

With noise of density proportional to exp(-eps' ||b|| / (2R)) and c R^2 in place of c it is our mechanism in other
coordinates (w and b measured in units of 1/R and R), and as private. It is here because forgetting one of the two R
is the easiest mistake of all to make, and invisible while R is 1.
"""

from __future__ import annotations

import math

import numpy as np

from crossward.learning.losses import LOGISTIC
from crossward.learning.records import Ball
from crossward.privacy.noise import Array
from crossward_lab.audit.measures.exact import Encode, Law, Scenario
from crossward_lab.audit.objective import Subject

NORM = 100.0


def unscaled(n: int, features: int, *, power: int, epsilon: float = 1.0, strength: float = 1.0) -> Subject:
    """Records of norm up to R = 100, n lambda = `strength`; `power` 2 is right and 1 is the mistake."""
    bend = LOGISTIC.curvature * NORM**power
    left, ridge = epsilon - 2 * math.log1p(bend / strength), strength
    if left <= 0:
        left, ridge = epsilon / 2, bend / math.expm1(epsilon / 4)
    law = Law(LOGISTIC, left / (2 * NORM), np.full(features, ridge), np.zeros(features))
    columns = (tuple(range(features)),)
    return Subject(Scenario((law,), of_norm(NORM), n, columns, NORM), epsilon)


def of_norm(norm: float, intercept: bool = False) -> Encode:
    """Records cut to a norm, with a column of ones beside them if asked: outside the ball."""
    ball = Ball(norm)

    def encode(X: Array, y: Array) -> list[Array]:
        Z = norm * ball.place(X.reshape(-1, X.shape[2])).reshape(*y.shape, -1)
        if intercept:
            Z = np.concatenate([Z, np.ones((*y.shape, 1))], axis=2)
        return [y[:, :, None] * Z]

    return encode
