"""Feature groups: partitions of the columns with q that sum to at most one."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossward.errors import InvalidBounds, InvalidImportance, InvalidSetting, WrongShape
from crossward.learning.encoding import (
    NormShare,
    alpha_importance,
    importance_groups,
    importance_scale,
    typical_radius,
    uniform_groups,
)
from crossward.learning.plr import PLRFS, groups_of
from crossward.privacy.calibration import check_importance

importances = st.lists(st.one_of(st.just(0.0), st.floats(0, 1e300), st.floats(0, 1)), min_size=1, max_size=40).filter(
    any
)


@st.composite
def cuts(draw: Any) -> tuple[int, int]:
    columns = draw(st.integers(1, 60))
    return columns, draw(st.integers(1, columns))


@given(cuts(), st.integers())
def test_uniform_groups_partition_the_columns(cut: tuple[int, int], seed: int) -> None:
    columns, K = cut
    balls = uniform_groups(columns, K, seed, 1.0)
    assert sorted(j for ball in balls for j in ball.columns or ()) == list(range(columns))
    sizes = [len(ball.columns or ()) for ball in balls]
    assert len(balls) == K
    assert max(sizes) - min(sizes) <= 1
    assert math.fsum(ball.q for ball in balls) <= 1
    assert all(ball.q == 1 / K for ball in balls)


@given(importances, st.data())
def test_importance_groups_partition_the_columns_that_count(importance: list[float], data: Any) -> None:
    K = data.draw(st.integers(1, len(importance)))
    balls = importance_groups(importance, K, 1.0)
    used = [j for ball in balls for j in ball.columns or ()]
    assert len(set(used)) == len(used)
    assert math.fsum(ball.q for ball in balls) <= 1
    assert check_importance([ball.q for ball in balls])
    for earlier, later in pairwise(balls):
        assert min(importance[j] for j in earlier.columns or ()) >= max(importance[j] for j in later.columns or ())
    if all(value > 1e-3 * max(importance) for value in importance):
        assert sorted(used) == list(range(len(importance)))


def test_importance_groups_follow_equation_6() -> None:
    first, second = importance_groups([0.1, 0.4, 0.1, 0.2], 2, [2.0, 3.0])
    assert (first.columns, first.radius) == ((1, 3), 2.0)
    assert (second.columns, second.radius) == ((0, 2), 3.0)
    assert first.q == pytest.approx(0.75)
    assert second.q == pytest.approx(0.25)


def test_a_group_without_importance_is_dropped_and_radii_stay_with_their_groups() -> None:
    balls = importance_groups([0.0, 0.0, 3.0, 1.0], 2, [5.0, 7.0])
    assert [(ball.columns, ball.q, ball.radius) for ball in balls] == [((2, 3), 1.0, 5.0)]


def test_equal_importance_keeps_the_order_of_the_columns() -> None:
    assert [ball.columns for ball in importance_groups([1.0] * 5, 2, 1.0)] == [(0, 1, 2), (3, 4)]


def test_uniform_groups_are_fixed_by_the_seed_for_ever() -> None:
    # Published studies depend on these: a change here is a change of their groups.
    assert [ball.columns for ball in uniform_groups(8, 3, 0, 1.0)] == [(0, 2, 5), (1, 3, 4), (6, 7)]
    assert uniform_groups([f"c{j}" for j in range(8)], 3, 0, 1.0) == uniform_groups(8, 3, 0, 1.0)
    assert uniform_groups(50, 5, 1, 1.0) != uniform_groups(50, 5, 2, 1.0)


def test_random_order_is_uniform() -> None:
    together = np.mean([_same_group(uniform_groups(10, 2, seed, 1.0), 0, 9) for seed in range(2000)])
    assert together == pytest.approx(4 / 9, abs=4 * math.sqrt(20 / 81 / 2000))


def _same_group(balls: Any, first: int, second: int) -> bool:
    return any(first in ball.columns and second in ball.columns for ball in balls)


def test_scale_and_intercept_reach_the_right_balls() -> None:
    importance = [0.1, 0.4, 0.1, 0.2]
    first, second = importance_groups(importance, 2, NormShare(0.5), intercept=0.2, scale=[1, 2, 3, 4])
    assert (first.scale, second.scale) == ((2.0, 4.0), (1.0, 3.0))
    assert first.intercept == second.intercept == 0.2
    assert first.radius == pytest.approx(0.5 * math.sqrt(20))
    assert second.radius == typical_radius(2, 0.5, [1, 3])


def test_radius_by_share_grows_with_the_group() -> None:
    assert typical_radius(9, 0.5) == 1.5
    assert [ball.radius for ball in uniform_groups(7, 2, 0, NormShare(0.5))] == [1.0, 0.5 * math.sqrt(3)]


def test_groups_are_what_plr_fs_takes() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(400, 6))
    y = np.where(X[:, 0] + 0.1 * rng.normal(size=400) > 0, 1.0, -1.0)
    balls = importance_groups(alpha_importance(6, 0.5), 3, NormShare(0.6), intercept=0.2)
    model = PLRFS(groups_of(balls, 0.01), epsilon=10.0).fit(X, y)
    np.testing.assert_array_equal(model.q, [ball.q for ball in balls])


def test_alpha_importance_and_scale() -> None:
    assert alpha_importance(3, 0.5) == (0.5, 0.25, 0.125)
    assert importance_scale([1.0, 4.0, 0.0], 0.5) == (0.5, 1.0, 0.0)
    assert importance_scale([1.0, 4.0, 0.0], 0) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: uniform_groups(3, 4, 0, 1.0), InvalidSetting),
        (lambda: uniform_groups(3, 0, 0, 1.0), InvalidSetting),
        (lambda: uniform_groups(3, -1, 0, 1.0), InvalidSetting),
        (lambda: uniform_groups(3, 1.5, 0, 1.0), InvalidSetting),
        (lambda: uniform_groups(3, True, 0, 1.0), InvalidSetting),
        (lambda: uniform_groups(3, 2, 0, [1.0]), InvalidSetting),
        (lambda: uniform_groups(3, 2, 0, 0.0), InvalidBounds),
        (lambda: uniform_groups(3, 2, 0, NormShare(math.nan)), InvalidBounds),
        (lambda: uniform_groups(3, 2, 0, 1.0, scale=[1.0]), WrongShape),
        (lambda: importance_groups([1.0, 2.0], 3, 1.0), InvalidSetting),
        (lambda: importance_groups([1.0, -2.0], 1, 1.0), InvalidImportance),
        (lambda: importance_groups([1.0, math.nan], 1, 1.0), InvalidImportance),
        (lambda: importance_groups([0.0, 0.0], 1, 1.0), InvalidImportance),
        (lambda: importance_groups([], 1, 1.0), InvalidImportance),
        (lambda: importance_scale([0.0], 1), InvalidImportance),
        (lambda: importance_scale([1.0], -1), InvalidSetting),
        (lambda: alpha_importance(0, 0.5), InvalidSetting),
        (lambda: alpha_importance(3, 0), InvalidSetting),
        (lambda: alpha_importance(1000, 10), InvalidSetting),
    ],
)
def test_refused_with_cause(make: Any, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        make()
    assert type(caught.value) is error


def test_too_many_groups_say_what_to_do() -> None:
    with pytest.raises(InvalidSetting, match=r"3 columns cannot make K = 4 groups\. Use K of at most 3\."):
        uniform_groups(3, 4, 0, 1.0)
