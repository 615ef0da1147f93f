r"""The study's encoding: which columns are kept, how long each is, and the radius of the ball.

The noise of objective perturbation has norm Gamma(d, 2/eps'), so every column costs, even one too short to matter: its
deviation along each column is about 2 sqrt(d + 1)/eps. Let column j, standardised, tell the classes apart by delta_j^2,
a share of SIGNAL in proportion to importance_j^1.5. A model on the first k columns by importance then separates the
classes by about

    S_k^2 / (S_k + N_k),    S_k = sum_{j <= k} delta_j^2,    N_k = (k deviation_k / (n contrast))^2,

the mean over k standardised columns in a ball of radius sqrt(k), and we keep the k for which this is largest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from crossward.learning.defaults.circumstances import Circumstances, Party
from crossward.learning.encoding import uniform_groups
from crossward.learning.losses import Huber
from crossward.learning.records import Ball

SIGNAL = 5.0
"""How far apart two classes worth telling apart lie: the squared distance of their means, in standard deviations."""

SIGNAL_POWER = 1.5
"""Of a column's importance, in its share of that signal. Doctors' importances go with effects, whose squares separate;
variances of principal components fall faster than what the components tell."""

POWER = 0.5
"""A column's typical length in the ball goes with its importance to this power."""

RADIUS = 0.75
"""The radius, as a share of the typical norm: longer records are cut, and the others fill the ball."""

LOSS = Huber(1.0)
"""Noise is paid for a slope of 1. At a margin of 0 this loss has that slope; the logistic loss has half of it."""

Deviation = Callable[[int], float]
"""The noise along one of d columns, times epsilon."""


def pure_noise(dimension: int) -> float:
    """Of density exp(-eps ||b|| / 2): ||b||^2 is d (d + 1) (2/eps)^2 on average."""
    return 2 * math.sqrt(dimension + 1)


def gaussian_noise(delta: float) -> Deviation:
    """Of AMP's objective, whatever the dimension."""
    return lambda dimension: 2 * (1 + math.sqrt(2 * math.log(1 / delta)))


def signal_shares(facts: Circumstances) -> list[float]:
    """delta_j^2 of each column."""
    powers = [v**SIGNAL_POWER for v in facts.importance]
    return [SIGNAL * power / math.fsum(powers) for power in powers]


def kept_columns(facts: Circumstances, reach: float, noise: Deviation = pure_noise) -> tuple[int, ...]:
    """The columns worth their noise where n eps is `reach`, in the data's order."""
    ranked = sorted((j for j, v in enumerate(facts.importance) if v > 0), key=lambda j: -facts.importance[j])
    shares = signal_shares(facts)
    best, most, signal = 1, 0.0, 0.0
    for k, column in enumerate(ranked, start=1):
        signal += shares[column]
        separation = signal**2 / (signal + (k * noise(k) / (reach * facts.contrast)) ** 2)
        if separation > most:
            best, most = k, separation
    return tuple(sorted(ranked[:best]))


def study_reach(facts: Circumstances) -> float:
    """n eps of a study's encoding: all sources, and a typical target."""
    own = sorted(party.reach for party in facts.targets)
    return math.hypot(*(source.reach for source in facts.sources), own[len(own) // 2] if own else 0.0)


def whole_ball(facts: Circumstances, reach: float, noise: Deviation = pure_noise) -> Ball:
    """The ball of a model on all columns that are kept."""
    return _ball(facts, kept_columns(facts, reach, noise), 1.0)


def group_balls(facts: Circumstances, reach: float, K: int, seed: int | None = None) -> tuple[Ball, ...]:
    """The kept columns in K groups (fewer where there are fewer columns), by importance or by chance with a seed.

    By importance they are dealt, the best to the first group and on to the last, then back again: groups that know
    about as much as one another, and of different things, gain most from being put together. (Cut in falling order, as
    the papers do, the first group knows nearly all and the others add their noise.)
    """
    columns = kept_columns(facts, reach)
    count = min(K, len(columns))
    if seed is not None:
        drawn = uniform_groups(len(columns), count, seed, 1.0)
        return tuple(_ball(facts, [columns[i] for i in part.columns or ()], part.q) for part in drawn)
    ranked = sorted(columns, key=lambda j: -facts.importance[j])
    places = [min(turn, 2 * count - 1 - turn) for turn in (rank % (2 * count) for rank in range(len(ranked)))]
    hands = [sorted(j for j, place in zip(ranked, places, strict=True) if place == k) for k in range(count)]
    return tuple(_ball(facts, hand, 1 / count) for hand in hands)


def starting_offset(prevalence: float) -> float:
    """The margin at which the slopes of both classes balance, p slope(o) = (1 - p) slope(-o); 0 for even classes.

    The rare class has slope 1 and the other slope p/(1 - p), which LOSS has at a margin of 2 - 2 p/(1 - p).
    """
    rare = min(prevalence, 1 - prevalence)
    return math.copysign(2 - 2 * rare / (1 - rare), prevalence - 0.5)


def typical_lengths(facts: Circumstances, columns: Sequence[int]) -> list[float]:
    """The typical length of each scaled column, before the radius divides it: importance^POWER, the longest 1."""
    largest = max(facts.importance[j] for j in columns)
    return [(facts.importance[j] / largest) ** POWER for j in columns]


def _ball(facts: Circumstances, columns: Sequence[int], q: float) -> Ball:
    lengths, sizes = typical_lengths(facts, columns), facts.typical_sizes
    scale = tuple(length / sizes[j] for length, j in zip(lengths, columns, strict=True))
    radius = RADIUS * math.hypot(*lengths)
    return Ball(radius, q, tuple(columns), scale, offset=starting_offset(facts.prevalence))


def noise_to_signal(facts: Circumstances, party: Party, dimension: int, noise: Deviation = pure_noise) -> float:
    """x: the noise along a column, per record, over the contrast of the classes."""
    return noise(dimension) / (party.reach * facts.contrast)
