"""Noise laws against their closed forms: Kolmogorov-Smirnov and chi-square, on fixed seeds.

Each bound on a p-value is far below what chance gives once; a law that is off by a few per cent gives less than 1e-10.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy import stats

from crossward.privacy.noise import SYSTEM, Randomness, SeededRandomness

RARE = 1e-5
DRAWS = 10_000


@pytest.fixture
def source(request: pytest.FixtureRequest) -> Randomness:
    return SeededRandomness(sum(request.node.name.encode()))


def vectors(source: Randomness, dimension: int, scale: float = 1.0, draws: int = DRAWS) -> np.ndarray:
    return np.array([source.in_all_directions(dimension, scale) for _ in range(draws)])


def follows(sample: np.ndarray, law) -> bool:
    return bool(stats.kstest(sample, law.cdf).pvalue > RARE)


def evenly(counts: Counter, cells: int) -> bool:
    assert len(counts) <= cells
    observed = list(counts.values()) + [0] * (cells - len(counts))
    return bool(stats.chisquare(observed).pvalue > RARE)


def test_uniform(source):
    assert follows(source.uniform(10 * DRAWS), stats.uniform())


def test_uniform_near_zero_has_no_gap(source):
    small = source.uniform(2_000_000)
    small = small[small < 1e-3]
    assert follows(small * 1e3, stats.uniform())


def test_exponential(source):
    assert follows(source.exponential(10 * DRAWS), stats.expon())


def test_normal(source):
    sample = source.normal(10 * DRAWS)
    assert follows(sample, stats.norm())
    assert follows(np.abs(sample), stats.halfnorm())
    assert stats.binomtest(int((sample > 0).sum()), len(sample)).pvalue > RARE


def test_normal_draws_are_independent_of_one_another(source):
    sample = source.normal(10 * DRAWS)
    assert stats.pearsonr(sample[:-1], sample[1:]).pvalue > RARE
    assert stats.pearsonr(np.abs(sample[:-1]), np.abs(sample[1:])).pvalue > RARE


def test_the_system_follows_the_same_laws():
    # Fresh words on each run: chance fails this once in a hundred million runs.
    assert stats.kstest(SYSTEM.normal(5000), stats.norm().cdf).pvalue > 1e-8
    norms = np.linalg.norm(vectors(SYSTEM, 3, 2.0, 2000), axis=1)
    assert stats.kstest(norms, stats.gamma(3, scale=2.0).cdf).pvalue > 1e-8


@pytest.mark.parametrize(("dimension", "scale"), [(1, 40.0), (2, 1.0), (3, 1e-9), (10, 0.01)])
def test_the_norm_is_gamma(source, dimension, scale):
    norms = np.linalg.norm(vectors(source, dimension, scale), axis=1)
    assert follows(norms, stats.gamma(dimension, scale=scale))


def test_a_wrong_scale_or_shape_would_be_seen(source):
    norms = np.linalg.norm(vectors(source, 3), axis=1)
    assert not follows(norms, stats.gamma(3, scale=1.05))
    assert not follows(norms, stats.gamma(2, scale=1.0))


def test_in_one_dimension_it_is_laplace(source):
    sample = vectors(source, 1, 1.7)[:, 0]
    assert follows(sample, stats.laplace(scale=1.7))
    assert stats.binomtest(int((sample > 0).sum()), DRAWS).pvalue > RARE


def test_in_two_dimensions_the_angle_is_uniform(source):
    x, y = vectors(source, 2).T
    assert follows(np.arctan2(y, x), stats.uniform(-np.pi, 2 * np.pi))


def test_in_three_dimensions_each_coordinate_of_the_direction_is_uniform(source):
    sample = vectors(source, 3)
    directions = sample / np.linalg.norm(sample, axis=1, keepdims=True)
    for coordinate in directions.T:
        assert follows(coordinate, stats.uniform(-1, 2))


def test_in_seven_dimensions_no_axis_is_favoured(source):
    sample = vectors(source, 7)
    directions = sample / np.linalg.norm(sample, axis=1, keepdims=True)
    diagonal = directions @ np.full(7, 7**-0.5)
    law = stats.beta(0.5, 3)  # the square of one coordinate of a uniform direction
    assert follows(directions[:, 0] ** 2, law)
    assert follows(directions[:, 6] ** 2, law)
    assert follows(diagonal**2, law)
    assert stats.binomtest(int((diagonal > 0).sum()), DRAWS).pvalue > RARE


def test_norm_and_direction_are_independent(source):
    sample = vectors(source, 2)
    norms = np.linalg.norm(sample, axis=1)
    for coordinate in (sample / norms[:, None]).T:
        assert stats.spearmanr(norms, coordinate).pvalue > RARE
        assert stats.spearmanr(norms, np.abs(coordinate)).pvalue > RARE


@pytest.mark.parametrize("bound", [2, 3, 10, 24])
def test_small_integers_are_even(source, bound):
    assert evenly(Counter(source.below(bound) for _ in range(DRAWS)), bound)


@pytest.mark.parametrize("power", [62, 126, 190])
def test_large_integers_are_even(source, power):
    # Taking words modulo this bound would give the first third twice its share.
    drawn = Counter(source.below(3 << power) >> power for _ in range(DRAWS))
    assert evenly(drawn, 3)


@pytest.mark.parametrize("bound", [2**64, 2**64 + 1, 2**65, 10**30])
def test_integers_of_more_than_one_word_are_even_at_both_ends(source, bound):
    drawn = [source.below(bound) for _ in range(DRAWS)]
    assert evenly(Counter(8 * value // bound for value in drawn), 8)
    assert evenly(Counter(value % 8 for value in drawn), 8)


def test_all_orders_of_four_are_as_likely(source):
    assert evenly(Counter(tuple(source.permutation(4).tolist()) for _ in range(DRAWS)), 24)


def test_each_place_of_a_long_permutation_is_even(source):
    drawn = np.array([source.permutation(30) for _ in range(3000)])
    for place in (0, 14, 29):
        assert evenly(Counter(drawn[:, place].tolist()), 30)
