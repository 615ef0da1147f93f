"""Balls: what stays inside, whatever the numbers; and what is refused."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossward.errors import InvalidBounds, InvalidSetting, NotFinite, WrongShape
from crossward.learning.dppsgd import DPPSGD
from crossward.learning.plr import PLR
from crossward.learning.records import EXTREME, Ball
from crossward.privacy import Accountant

SIZES = st.sampled_from([0.0, 1e-300, 1e-160, 1e-50, 1e-3, 1.0, 7.0, 1e50, 1e99])


@settings(max_examples=200, deadline=None)
@given(
    x=st.lists(st.tuples(SIZES, st.booleans()), min_size=1, max_size=4),
    radius=st.sampled_from([1 / EXTREME, 1e-3, 1.0, 1e10, EXTREME]),
    scale=st.sampled_from([0.0, 1 / EXTREME, 1e-9, 1.0, EXTREME]),
    intercept=st.sampled_from([0.0, 0.5, EXTREME]),
    q=st.floats(1e-3, 1.0),
)
def test_no_record_leaves_the_ball_however_extreme(x, radius, scale, intercept, q):
    """In exact arithmetic, for the floats that are really used."""
    row = np.array([[-size if negative else size for size, negative in x]])
    ball = Ball(radius, q, scale=(scale,) * len(x), intercept=intercept)
    placed = ball.place(row)[0]
    assert np.all(np.isfinite(placed))
    assert sum(Fraction(float(z)) ** 2 for z in placed) <= Fraction(q) ** 2


@pytest.mark.parametrize("radius", [0.0, -1.0, 1e-60, 1e60, np.nan, np.inf])
def test_radii_whose_squares_vanish_or_overflow_are_refused(radius):
    with pytest.raises(InvalidBounds):
        Ball(radius)


@pytest.mark.parametrize(
    "setting", [{"scale": (1e-60,)}, {"scale": (-1.0,)}, {"intercept": 1e-60}, {"intercept": -1.0}]
)
def test_scales_and_intercepts_are_bounded_too(setting):
    with pytest.raises(InvalidSetting):
        Ball(1.0, **setting)


@pytest.mark.parametrize("learner", [PLR(Ball(1.0, scale=(2.0,)), 0.1, 1.0), DPPSGD(Ball(1.0, scale=(2.0,)), 0.1, 1.0)])
def test_numbers_too_large_to_square_are_refused_before_the_charge(learner):
    X = np.array([[1.0], [-1.0], [1.7e308], [2.0]])
    account = Accountant.with_budget(10)
    with pytest.raises(NotFinite):
        learner.fit(X, np.array([1.0, -1.0, 1.0, -1.0]), accountant=account)
    assert account.spent.releases == 0


def test_a_ball_is_frozen_even_if_it_was_given_lists():
    columns = [0, 1]
    ball = Ball(1.0, columns=columns, scale=[1.0, 2.0])
    columns.append(2)
    assert ball.columns == (0, 1)
    assert hash(ball) == hash(Ball(1.0, columns=(0, 1), scale=(1.0, 2.0)))
    with pytest.raises(WrongShape):
        Ball(1.0, columns=(0, 0))
