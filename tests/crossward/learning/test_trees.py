"""Boosted trees as plain numbers: they say what scikit-learn says, and nothing that is no tree becomes one."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from crossward.errors import InvalidSetting, WrongShape
from crossward.learning.trees import Trees

EXACT = {"rtol": 0, "atol": 1e-12}


def boosted(seed, depth=3, columns=3, records=400, steps=None, **given):
    """scikit-learn's ensemble on records that no line divides; with `steps`, of few different values."""
    rng = np.random.default_rng(seed)
    X = rng.random((records, columns))
    X = X if steps is None else np.round(X * steps) / steps
    y = np.where(X[:, 0] * X[:, -1] + rng.normal(0, 0.2, records) > 0.3, 1.0, -1.0)
    settings = {"max_iter": 30, "max_depth": depth, "early_stopping": False} | given
    with threadpool_limits(1):  # on a busy machine its threads wait for one another
        return HistGradientBoostingClassifier(**settings).fit(X, y), X


def edges(trees):
    """Records that lie on every threshold, and one double to each side of it."""
    inner = trees.left != np.arange(len(trees.left))
    at = trees.threshold[inner]
    around = np.concatenate([at, np.nextafter(at, -np.inf), np.nextafter(at, np.inf)])
    X = np.random.default_rng(1).choice(around, (3 * len(around), trees.columns))
    X[np.arange(len(X)), np.tile(trees.feature[inner], 9)] = np.tile(around, 3)
    return X


@pytest.mark.parametrize("steps", [None, 4, 100])
@pytest.mark.parametrize(("columns", "depth"), [(1, 1), (1, 8), (2, 3), (5, 3), (5, 40), (40, 4)])
def test_they_say_what_scikit_learn_says(columns, depth, steps):
    ensemble, X = boosted(columns + depth, depth, columns, steps=steps)
    trees = Trees.of(ensemble)
    rng = np.random.default_rng(2)
    missing = rng.random((500, columns))
    missing[rng.random(missing.shape) < 0.4] = np.nan
    missing[0] = np.nan
    wild = rng.choice([-1e300, -1.0, -0.0, 0.0, 0.5, 1.0, 1e300, np.inf, -np.inf], (200, columns))
    for records in (X, rng.random((1000, columns)), edges(trees), missing, wild, X[:1], X[:0]):
        expected = ensemble.decision_function(records) if len(records) else np.empty(0)
        np.testing.assert_allclose(trees.margins(records), expected, **EXACT)
    assert trees.depth == max(tree.get_max_depth() for [tree] in ensemble._predictors) <= depth
    assert trees.sizes.tolist() == [len(tree.nodes) for [tree] in ensemble._predictors]


def test_missing_values_go_where_they_were_sent_in_training():
    ensemble, X = boosted(3)
    trees = Trees.of(ensemble)
    holes = np.full((1, 3), np.nan)
    other = replace(trees, missing_left=~trees.missing_left & (trees.left != np.arange(len(trees.left))))
    assert trees.margins(holes) == pytest.approx(ensemble.decision_function(holes), abs=1e-12)
    assert other.margins(holes) != pytest.approx(ensemble.decision_function(holes), abs=1e-3)
    np.testing.assert_array_equal(trees.margins(X), other.margins(X))


def test_a_tree_may_be_a_leaf():
    ensemble, X = boosted(4, min_samples_leaf=399)
    trees = Trees.of(ensemble)
    assert trees.depth == 0
    np.testing.assert_allclose(trees.margins(X), ensemble.decision_function(X), **EXACT)


def test_a_record_has_the_same_margin_alone_and_among_many():
    ensemble, X = boosted(5, max_iter=200)
    trees = Trees.of(ensemble)
    many = np.tile(X, (20, 1))  # several blocks
    together = trees.margins(many)
    np.testing.assert_array_equal(together[: len(X)], together[-len(X) :])
    for row in range(0, len(X), 10):
        assert trees.margins(X[row : row + 1])[0] == together[row]
    np.testing.assert_array_equal(trees.margins(np.asfortranarray(X)), together[: len(X)])


def test_nobody_changes_them():
    trees = Trees.of(boosted(6)[0])
    for name in ("first", "feature", "threshold", "missing_left", "left", "right", "value"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(trees, name)[0] = 0


@pytest.mark.parametrize("shape", [(3,), (3, 1), (3, 4), (0, 4), (1, 2, 3)])
def test_records_of_another_shape_are_refused(shape):
    with pytest.raises(WrongShape, match="3 columns"):
        Trees.of(boosted(7)[0]).margins(np.zeros(shape))


# -- what is no tree --------------------------------------------------------------------------------------------------
TWO = Trees(  # a stump, and a tree of depth 2
    columns=2,
    base=0.5,
    first=np.array([0, 3]),
    feature=np.array([0, 0, 0, 1, 0, 0, 0, 0]),
    threshold=np.array([0.5, 0.0, 0.0, 0.25, 0.0, 0.75, 0.0, 0.0]),
    missing_left=np.array([True, False, False, False, False, False, False, False]),
    left=np.array([1, 1, 2, 4, 4, 6, 6, 7]),
    right=np.array([2, 1, 2, 5, 4, 7, 6, 7]),
    value=np.array([0.0, -1.0, 1.0, 0.0, -2.0, 0.0, 3.0, 4.0]),
)


def test_trees_by_hand():
    X = [[0.5, 0.25], [0.6, 0.25], [0.6, 0.3], [0.8, 0.3], [np.nan, 0.3], [0.5, np.nan]]
    np.testing.assert_array_equal(TWO.margins(np.array(X)), [-2.5, -0.5, 4.5, 5.5, 3.5, 2.5])
    assert TWO.depth == 2


@pytest.mark.parametrize(
    ("name", "index", "value", "cause"),
    [
        ("first", 0, 1, "one after the other"),
        ("first", 1, 0, "one after the other"),
        ("first", 1, -1, "no root"),
        ("first", 1, 8, "no root"),
        ("first", 1, 2**62, "no root"),
        ("first", 1, -(2**63), "no root"),
        ("first", 1, 4, "in the same tree|parent"),
        ("feature", 3, 2, "column"),
        ("feature", 3, -1, "column"),
        ("feature", 1, 1, "does not use"),
        ("threshold", 0, np.nan, "finite"),
        ("threshold", 0, np.inf, "finite"),
        ("threshold", 2, 0.1, "does not use"),
        ("missing_left", 2, True, "does not use"),
        ("value", 1, -np.inf, "finite"),
        ("value", 0, 1.0, "does not use"),
        ("left", 0, 0, "after its parent"),
        ("left", 3, 0, "after its parent"),
        ("left", 5, 3, "after its parent"),
        ("left", 0, 3, "same tree"),
        ("left", 0, 2, "no parent, or several"),
        ("right", 5, 6, "no parent, or several"),
        ("right", 5, 8, "same tree"),
        ("right", 5, 2**62, "same tree"),
        ("right", 5, -1, "after its parent"),
        ("right", 4, 5, "after its parent"),
    ],
)
def test_what_is_no_tree_is_refused(name, index, value, cause):
    changed = getattr(TWO, name).copy()
    changed[index] = value
    with pytest.raises(InvalidSetting, match=cause):
        replace(TWO, **{name: changed})


@pytest.mark.parametrize("name", ["feature", "threshold", "missing_left", "left", "right", "value"])
def test_lists_of_different_lengths_are_refused(name):
    whole = getattr(TWO, name)
    for changed in (whole[:-1], np.append(whole, whole[-1]), whole[:0], whole[None], whole[0]):
        with pytest.raises(InvalidSetting, match="lengths"):
            replace(TWO, **{name: changed})


@pytest.mark.parametrize("first", [np.zeros(0, np.intp), np.array(0), np.array([[0, 3]])])
def test_roots_are_a_list(first):
    with pytest.raises(InvalidSetting, match="no root"):
        replace(TWO, first=first)


@pytest.mark.parametrize("changes", [{"base": np.nan}, {"base": np.inf}, {"columns": 1}, {"columns": 0}])
def test_a_base_is_finite_and_columns_are_there(changes):
    with pytest.raises(InvalidSetting, match=r"finite|column"):
        replace(TWO, **changes)
