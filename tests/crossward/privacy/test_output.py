"""The release step: noise of the right law, and nothing finer than the grid."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from crossward.errors import InvalidSetting, NotConverged
from crossward.privacy.noise import SeededRandomness
from crossward.privacy.output import (
    COARSEST,
    FINEST,
    OutputStep,
    common_grid,
    grid_for,
    on_grid,
    on_own_grid,
    power_of_two_below,
)

RARE = 1e-5
BAD = [0.0, -1.0, math.nan, math.inf, -math.inf]


@given(st.floats(min_value=0, exclude_min=True, allow_infinity=False))
def test_the_largest_power_of_two_below(value):
    power = power_of_two_below(value)
    assert math.frexp(power)[0] == 0.5
    assert Fraction(power) <= Fraction(value) < 2 * Fraction(power)


@given(distance=st.floats(1e-12, 1e3), epsilon=st.floats(1e-6, 10))
def test_the_grid_is_a_little_finer_than_the_noise(distance, epsilon):
    step = OutputStep.hiding(distance, epsilon)
    assert step.scale == pytest.approx(distance / epsilon)
    assert math.frexp(step.grid)[0] == 0.5
    assert 2**8 * step.grid <= step.scale < 2**9 * step.grid


@pytest.mark.parametrize("bad", BAD)
def test_a_step_that_hides_nothing_is_refused(bad):
    for distance, epsilon in ((bad, 1.0), (1.0, bad)):
        with pytest.raises(InvalidSetting) as caught:
            OutputStep.hiding(distance, epsilon)
        assert caught.value.fix


@given(
    w=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8),
    scale=st.floats(1e-6, 1e3),
    seed=st.integers(0, 2**32),
)
def test_what_is_published_lies_on_the_grid(w, scale, seed):
    step = OutputStep.hiding(scale, 1.0)
    published = step.publish(np.array(w), SeededRandomness(seed))
    noisy = np.array(w) + SeededRandomness(seed).in_all_directions(len(w), step.scale)
    assert published.shape == (len(w),)
    for value, before in zip(published.tolist(), noisy.tolist(), strict=True):
        assert (Fraction(value) / Fraction(step.grid)).denominator == 1
        assert abs(Fraction(value) - Fraction(before)) <= Fraction(step.grid) / 2
        assert value != 0 or math.copysign(1.0, value) == 1.0  # the sign of zero would be one more bit


def test_zero_has_one_sign():
    assert not np.signbit(on_grid(np.array([-1e-9, -0.0, 1e-9]), 1.0)).any()


def test_it_leaves_the_weights_as_they_are():
    w = np.array([1.0, 2.0])
    OutputStep.hiding(1.0, 1.0).publish(w, SeededRandomness(0))
    assert w.tolist() == [1.0, 2.0]


def test_in_one_dimension_the_noise_is_laplace():
    source, w = SeededRandomness(1), np.array([12.34])
    step = OutputStep(0.7, 2.0**-30)
    drawn = np.array([step.publish(w, source)[0] - w[0] for _ in range(8000)])
    assert stats.kstest(drawn, stats.laplace(scale=0.7).cdf).pvalue > RARE
    assert stats.kstest(drawn, stats.laplace(scale=0.8).cdf).pvalue < RARE


def test_in_five_dimensions_its_norm_is_gamma_and_its_directions_even():
    source, w = SeededRandomness(2), np.array([1.0, -2.0, 0.0, 100.0, 1e-9])
    step = OutputStep(0.25, 2.0**-30)
    drawn = np.array([step.publish(w, source) - w for _ in range(8000)])
    norms = np.linalg.norm(drawn, axis=1)
    assert stats.kstest(norms, stats.gamma(5, scale=0.25).cdf).pvalue > RARE
    for coordinate in (drawn / norms[:, None]).T:
        assert stats.kstest(coordinate**2, stats.beta(0.5, 2).cdf).pvalue > RARE
        assert stats.binomtest(int((coordinate > 0).sum()), len(drawn)).pvalue > RARE


def cells(w: float, step: OutputStep, reach: int) -> np.ndarray:
    """The chance of each grid point when Laplace noise is rounded to the grid."""
    edges = (np.arange(-reach, reach + 2) - 0.5) * step.grid
    return np.diff(stats.laplace(loc=w, scale=step.scale).cdf(edges))


def test_each_grid_point_has_its_chance_and_neighbours_stay_within_epsilon():
    epsilon, distance, reach = 0.5, 0.4, 12
    step = OutputStep(distance / epsilon, 0.5)
    one, other = 0.1, 0.1 + distance
    for seed, w in enumerate((one, other)):
        source = SeededRandomness(seed)
        drawn = Counter(round(step.publish(np.array([w]), source)[0] / step.grid) for _ in range(8000))
        chances = cells(w, step, reach)
        observed = [drawn[k] for k in range(-reach, reach + 1)]
        rest = 8000 - sum(observed)
        assert stats.chisquare([*observed, rest], [*(8000 * chances), 8000 * (1 - chances.sum())]).pvalue > RARE
    ratio = np.log(cells(one, step, reach) / cells(other, step, reach))
    assert np.abs(ratio).max() == pytest.approx(epsilon)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_never_published(bad):
    with pytest.raises(NotConverged) as caught:
        OutputStep.hiding(1.0, 1.0).publish(np.array([0.0, bad]), SeededRandomness(0))
    assert caught.value.fix


@pytest.mark.parametrize("w", [1e300, 1.7e308])
def test_what_overflows_on_the_grid_is_never_published(w):
    with pytest.raises(NotConverged):
        OutputStep.hiding(1e-20, 1.0).publish(np.array([w]), SeededRandomness(0))


@pytest.mark.parametrize("w", [1.0, -1.0])
def test_weights_so_large_that_the_noise_is_lost_in_them_are_never_published(w):
    step = OutputStep.hiding(1e-17, 1.0)
    assert w + step.scale == w
    with pytest.raises(NotConverged):
        step.publish(np.array([w]), SeededRandomness(0))


# -- what is computed from releases alone -----------------------------------------------------------------------------
numbers = st.floats(-1e6, 1e6).map(lambda number: number if abs(number) > 1e-100 else 0.0)
vectors = st.lists(numbers, min_size=1, max_size=6).map(np.array)


@given(vectors)
def test_an_aggregate_keeps_forty_bits_of_its_largest_weight(w):
    rounded = on_own_grid(w)
    assert np.all(np.abs(rounded - w) <= np.max(np.abs(w)) * 2.0**-40)
    steps = rounded / common_grid(rounded)
    assert np.all(steps == np.rint(steps))
    assert np.all(np.abs(steps) < 2**52)
    assert not steps.any() or any(step % 2 for step in steps)  # no coarser grid would do
    assert np.array_equal(on_own_grid(np.zeros(3)), np.zeros(3))


def test_every_grid_can_be_named():
    """What no message could carry is refused before anyone pays."""
    for scale in (2.0 ** (FINEST + 8), 2.0 ** (COARSEST - 1)):
        assert FINEST <= math.log2(grid_for(scale)) <= COARSEST
    for scale in (2.0 ** (FINEST + 7), 2.0**COARSEST, 1e-300, 5e-324):
        with pytest.raises(InvalidSetting, match="no grid"):
            grid_for(scale)
