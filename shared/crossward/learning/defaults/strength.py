r"""How strongly weights are held: lambda as a smooth function of the noise along a column, per record and over the
contrast of the classes, x = 2 sqrt(d + 1)/(n eps contrast).

A ridge regression whose gradient carries noise x and whose weights have deviation omega is best with lambda =
x^2/(omega^2 h), h the curvature of the data: lambda goes with the square of the noise. At small n eps the model is then
a noisy difference of class means, which needs no curvature; at large n eps it is a regression.

A model that is pulled to a source may be held as strongly where noise rules, for then source and target are averaged,
and less where it does not, for then they are told apart: a slightly larger power.

Without noise there is still sampling error, which n contrast^2 measures: a floor under both.
"""

from __future__ import annotations

import math

ALONE_FLOOR, PULLED_FLOOR = 1.0, 2.0
ALONE, ALONE_POWER = 1000.0, 2.0
PULLED, PULLED_POWER = 1800.0, 2.5
LEVEL1, LEVEL1_POWER = 30.0, 1.5


def lambda_alone(x: float, telling: float) -> float:
    """lambda of a model that is pulled to nothing, or to a prior. `telling`: n contrast^2."""
    return ALONE_FLOOR / telling + ALONE * math.pow(x, ALONE_POWER)


def lambda_pulled(x: float, telling: float) -> float:
    """lambda of a target that is pulled to its sources."""
    return PULLED_FLOOR / telling + PULLED * math.pow(x, PULLED_POWER)


def lambda_level1(x: float, telling: float) -> float:
    """lambda of a level-1 model, which starts from the sum of its scores and needs good reason to leave it."""
    return PULLED_FLOOR / telling + LEVEL1 * math.pow(x, LEVEL1_POWER)
