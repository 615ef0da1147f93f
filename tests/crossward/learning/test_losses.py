"""Losses against numerical derivatives, and the two bounds that privacy needs of them."""

import numpy as np
import pytest

from crossward.errors import InvalidSetting
from crossward.learning.losses import Huber, Logistic

LOSSES = [Logistic(), Huber(0.5), Huber(0.1), Huber(2.0)]
M = np.linspace(-6, 6, 2001)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_slope_is_the_derivative_of_the_value(loss):
    h = 1e-6
    numerical = (loss.value(M + h) - loss.value(M - h)) / (2 * h)
    np.testing.assert_allclose(loss.slope(M), numerical, atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_bend_is_the_derivative_of_the_slope_away_from_kinks(loss):
    h = 1e-6
    kinks = [1 - loss.h, 1 + loss.h] if isinstance(loss, Huber) else []
    smooth = np.array([all(abs(m - k) > 1e-3 for k in kinks) for m in M])
    numerical = (loss.slope(M + h) - loss.slope(M - h)) / (2 * h)
    np.testing.assert_allclose(loss.bend(M)[smooth], numerical[smooth], atol=1e-4)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_the_bounds_that_privacy_relies_on_hold_and_are_attained(loss):
    assert np.all((loss.slope(M) <= 0) & (loss.slope(M) >= -1))
    assert np.all((loss.bend(M) >= 0) & (loss.bend(M) <= loss.curvature))
    assert loss.bend(M).max() == pytest.approx(loss.curvature)


def test_extreme_margins_neither_overflow_nor_warn():
    extreme = np.array([-1e308, -800.0, 0.0, 800.0, 1e308])
    for loss in LOSSES:
        assert np.all(np.isfinite(loss.slope(extreme)))
        assert np.all(np.isfinite(loss.bend(extreme)))
        assert np.all(np.isfinite(loss.value(extreme)))


@pytest.mark.parametrize("h", [0.0, -1.0, np.inf, np.nan])
def test_huber_refuses_a_constant_without_meaning(h):
    with pytest.raises(InvalidSetting):
        Huber(h)
