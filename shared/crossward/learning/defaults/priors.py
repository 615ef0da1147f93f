r"""A prior from the directions that a study's doctors declare: weights to start from, beside zero.

Column j, standardised, is expected to move by direction_j delta_j between the classes (delta_j^2 its share of the
signal). Its typical length in the ball being l_j, a record's gradient then has the mean

    t_j = direction_j delta_j l_j contrast/2,    with noise of deviation contrast x,

and the posterior mean of a quantity that is known to be about t_j, give or take t_j itself, gives the prior the weight
x_j^2/(x_j^2 + t_j^2): all of it where noise rules, none where records speak. A pull to weights u adds n lambda u to the
gradient, so u_j = weight_j t_j / lambda.
"""

from __future__ import annotations

import math

import numpy as np

from crossward.learning.defaults.circumstances import Circumstances
from crossward.learning.defaults.encoding import signal_shares, typical_lengths
from crossward.learning.records import Ball
from crossward.privacy.noise import Array


def directed_weights(facts: Circumstances, ball: Ball, x: float, lam: float) -> Array:
    """u for a model in this ball; zero where no direction is declared."""
    columns = ball.columns or ()
    weights = np.zeros(ball.dimension(len(facts.importance)))
    if facts.directions is None:
        return weights
    shares = signal_shares(facts)
    lengths = np.array(typical_lengths(facts, columns))
    signs = np.array([facts.directions[j] for j in columns])
    deltas = np.array([math.sqrt(shares[j]) for j in columns])
    expected = signs * deltas * lengths * ball.q / math.hypot(*lengths) * facts.contrast / 2
    noise = x * facts.contrast
    weights[: len(columns)] = expected * noise**2 / (noise**2 + expected**2) / lam
    return weights
