"""The simulated federation: its shape, its repeatability, and how much there is to learn from it."""

import math
import sys
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict

from crossward.errors import InvalidSetting
from crossward.learning.encoding import Category, Flag, Number
from crossward_lab.simulate.hospitals import BRANCHES, MAIN, Federation, Hospital

PUBLISHED = {
    "Glu0": 0.060,
    "Glu120": 0.055,
    "HDL": 0.045,
    "bmi": 0.043,
    "age": 0.018,
    "bone": 0.013,
    "weight": 0.012,
    "mchild": 0.010,
    "eggw": 0.005,
}


@pytest.fixture(scope="module")
def federation() -> Federation:
    return Federation.simulate(branches=16, seed=0)


def test_shape_of_the_study(federation: Federation) -> None:
    assert len(federation.main.labels) == MAIN
    assert tuple(len(branch.labels) for branch in federation.branches) == BRANCHES
    assert MAIN + sum(BRANCHES) == 92_007
    for site in (federation.main, *federation.branches):
        assert all(len(column) == len(site.labels) for column in site.table.values())
        assert 0.08 < site.labels.mean() < 0.17


def test_features_carry_the_published_importance(federation: Federation) -> None:
    features = federation.schema.features
    assert len(features) == 50
    assert math.fsum(feature.importance for feature in features) == pytest.approx(1)
    importance = {feature.name: feature.importance for feature in features}
    assert {name: importance[name] for name in PUBLISHED} == PUBLISHED
    assert max(importance.values()) == importance["Glu0"]
    assert {type(feature) for feature in features} == {Number, Category, Flag}


def test_ranges_suit_the_measurements(federation: Federation) -> None:
    for site in (federation.main, *federation.branches):
        X, report = federation.schema.encode_with_report(site.table)
        assert np.all(np.abs(X) <= 1)
        assert np.all(X.std(axis=0) > 0.05)
        assert max(counts.clipped for counts in report.features.values()) < 0.1 * report.rows


def test_a_site_depends_on_seed_and_number_alone(federation: Federation) -> None:
    few = Federation.simulate(branches=2, seed=0)
    other = Federation.simulate(branches=2, seed=1)
    assert few.schema == federation.schema == other.schema
    for mine, same, different in zip(few.branches, federation.branches, other.branches, strict=False):
        assert _equal(mine, same)
        assert not _equal(mine, different)


def _equal(one: Hospital, two: Hospital) -> bool:
    # Texts and flags hold no NaN, so comparing numbers as texts of a fixed form is enough for all.
    columns = all(np.array_equal(one.table[name].astype(str), two.table[name].astype(str)) for name in one.table)
    return columns and np.array_equal(one.labels, two.labels)


def test_sites_differ_moderately(federation: Federation) -> None:
    main, _ = federation.main.encode(federation.schema)
    deviation = main.std(axis=0)
    for branch in federation.branches:
        X, _ = branch.encode(federation.schema)
        shift = np.abs(X.mean(axis=0) - main.mean(axis=0)) / deviation
        assert 0.05 < np.median(shift) < 0.3


def test_scale_changes_sizes_only() -> None:
    small = Federation.simulate(branches=3, seed=0, scale=0.1)
    assert [len(branch.labels) for branch in small.branches] == [433, 474, 612]
    assert len(Federation.simulate(branches=1, scale=1e-9).main.labels) == 50


@pytest.mark.parametrize(
    "settings", [{"branches": 0}, {"branches": 17}, {"scale": 0.0}, {"scale": -1.0}, {"scale": math.nan}]
)
def test_settings_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting):
        Federation.simulate(**settings)


def test_a_branch_can_be_learned_about_as_well_as_the_papers_report(federation: Federation) -> None:
    X, y = federation.branches[2].encode(federation.schema)
    assert set(y) == {-1.0, 1.0}
    scores = cross_val_predict(LogisticRegression(C=0.1, max_iter=1000), X, y, cv=5, method="decision_function")
    assert 0.755 < roc_auc_score(y, scores) < 0.805


def test_important_features_tell_more(federation: Federation) -> None:
    schema = federation.schema
    X, y = federation.main.encode(schema)
    single = [abs(roc_auc_score(y, X[:, j]) - 0.5) for j in range(X.shape[1])]
    order = np.argsort(schema.importance)
    assert np.mean([single[j] for j in order[-15:]]) > 2 * np.mean([single[j] for j in order[:15]])


def test_ten_times_the_people_take_no_more_calls_of_python() -> None:
    """What makes all seventeen hospitals in a moment, told without a clock: nothing is done person by person."""
    few, many = _calls(scale=0.1), _calls(scale=1.0)
    assert many < 1.5 * few


def _calls(scale: float) -> int:
    calls, before = 0, sys.getprofile()

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        Federation.simulate(branches=16, seed=3, scale=scale)
    finally:
        sys.setprofile(before)
    return calls
