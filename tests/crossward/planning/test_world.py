"""Simulated worlds are what the assumptions say, by measures of their own."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from crossward.errors import InvalidSetting
from crossward.planning.assumptions import Assumptions
from crossward.planning.world import World, expected_auc
from crossward.study import Study, example
from crossward_lab.simulate.hospitals import SCHEMA

SMALL = Study.from_yaml(example()).schema


def world(schema=SMALL, seed=0, **assumed):
    rng = np.random.default_rng(seed)
    return World.draw(schema, Assumptions(**assumed), rng), rng


@pytest.mark.parametrize("schema", [SMALL, SCHEMA], ids=["small", "survey"])
@pytest.mark.parametrize(("rate", "auc"), [(0.12, 0.8), (0.5, 0.65), (0.03, 0.93)])
@pytest.mark.parametrize("moved", [False, True])
def test_a_site_has_the_assumed_rate_and_auc(schema, rate, auc, moved):
    drawn, rng = world(schema, positive_rate=rate, nonprivate_auc=auc)
    records = drawn.site(moved, rng, 20_000).draw(60_000, rng)
    assert np.mean(records.y > 0) == pytest.approx(rate, rel=0.12)
    X, y = records.first(20_000)
    scores = LogisticRegression().fit(X, y).decision_function(records.X)
    assert roc_auc_score(records.y[20_000:], scores[20_000:]) == pytest.approx(auc, abs=0.018)
    assert expected_auc(scores[20_000:], records.chance[20_000:]) == pytest.approx(auc, abs=0.012)
    assert expected_auc(records.chance, records.chance) == pytest.approx(auc, abs=0.02)
    assert records.X.shape == (60_000, len(schema.columns))
    assert np.all(np.abs(records.X) <= 1)


def test_what_is_learnt_from_few_records_is_further_below_the_best_score():
    drawn, _ = world(SCHEMA, positive_rate=0.12, nonprivate_auc=0.75)
    best = {}
    for n in (1_000, 20_000):
        rng = np.random.default_rng(3)
        records = drawn.site(False, rng, n).draw(40_000, rng)
        best[n] = expected_auc(records.chance, records.chance)
    assert best[20_000] == pytest.approx(0.75, abs=0.015)
    assert best[1_000] > best[20_000] + 0.02


def test_expected_auc_is_the_mean_over_labels():
    rng = np.random.default_rng(1)
    scores, chance = rng.integers(0, 5, size=60).astype(float), rng.uniform(0.1, 0.9, size=60)
    drawn = [roc_auc_score(rng.random(60) < chance, scores) for _ in range(4000)]
    # The mean of ratios is not the ratio of means: they differ by less than a hundredth here.
    assert expected_auc(scores, chance) == pytest.approx(np.mean(drawn), abs=0.01)
    assert expected_auc(np.zeros(60), chance) == 0.5
    sure = (np.arange(10) >= 5).astype(float)
    assert expected_auc(np.arange(10.0), sure) == 1.0


def test_declared_directions_hold_as_often_as_assumed():
    right = [
        np.array([f.directions()[-1] for f in SCHEMA.features]) == world(SCHEMA, s)[0].directions for s in range(40)
    ]
    assert np.mean(right) == pytest.approx(0.9, abs=0.02)  # 2,000 draws: a deviation of 0.007
    sure = world(SCHEMA, wrong_direction=0.0)[0]
    assert sure.directions.tolist() == [f.directions()[-1] for f in SCHEMA.features]


def test_people_are_as_their_features_declare():
    drawn, rng = world(SCHEMA, mean_shift=0.0)
    X, acting = drawn.people(20_000, np.zeros(len(SCHEMA.features)), rng)
    flags = [j for j, name in enumerate(SCHEMA.columns) if name in ("famdm", "male")]
    assert X[:, flags].mean(axis=0) == pytest.approx(0.25, abs=0.02)
    levels = [j for j, name in enumerate(SCHEMA.columns) if name.startswith("smoker=")]
    assert np.all(X[:, levels].sum(axis=1) == 1)
    assert acting.std(axis=0) == pytest.approx(1.0, abs=0.05)
    assert acting.mean(axis=0) == pytest.approx(0.0, abs=0.05)


def test_sites_differ_only_as_far_as_assumed():
    drawn, rng = world(SCHEMA, effect_shift=0.0, mean_shift=0.0)
    one, two = drawn.site(True, rng, 5_000), drawn.site(True, rng, 5_000)
    assert np.allclose(one.effects / np.linalg.norm(one.effects), two.effects / np.linalg.norm(two.effects))
    drawn, rng = world(SCHEMA, effect_shift=0.5)
    one, two = drawn.site(True, rng, 5_000), drawn.site(True, rng, 5_000)
    assert not np.allclose(one.effects, two.effects, rtol=0.1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"positive_rate": 0.0},
        {"positive_rate": float("nan")},
        {"nonprivate_auc": 0.5},
        {"nonprivate_auc": 1.0},
        {"effect_shift": -1.0},
        {"wrong_direction": 0.6},
        {"correlation": True},
    ],
)
def test_assumptions_that_make_no_sense_are_refused(wrong):
    with pytest.raises(InvalidSetting, match=next(iter(wrong))):
        Assumptions(**wrong)
