"""The default rules: functions of public facts alone, smooth, and sensible at both ends."""

import math
from itertools import pairwise

import numpy as np
import pytest

from crossward.errors import InvalidImportance, InvalidSetting, WrongShape
from crossward.learning.combining import LevelOne, MajorityVote, WeightedVote
from crossward.learning.defaults import Circumstances, Defaults, Party
from crossward.learning.defaults.encoding import LOSS, kept_columns, starting_offset
from crossward.learning.encoding import Category, Flag, Number, Schema
from crossward.privacy import NON_PRIVATE, SeededRandomness
from crossward.privacy.auc import area_under_curve

IMPORTANCE = tuple(0.8**j for j in range(30))


def facts(epsilon=1.0, records=4_000, **changes):
    parties = {"sources": (Party(12_000, epsilon),), "targets": (Party(records, epsilon),)}
    return Circumstances(**({"importance": IMPORTANCE} | parties | changes))


def learners(rules, party, X, y, Xt, randomness):
    one = rules.source(rules.facts.sources[0]).fit(X, y, randomness=randomness)
    split = rules.source_split(rules.facts.sources[0]).fit(X, y, randomness=randomness)
    yield from (rules.direct(party), rules.simcomb(party, one), rules.pst_s(party), rules.pst_f(party))
    yield from (
        rules.pst_h(party, split),
        rules.pst_h(party, [split, split]),
        rules.dppsgd(party),
        rules.amp(party, 1e-5),
    )


@pytest.fixture(scope="module")
def clinic():
    """30 columns, the first ones telling; one positive in five."""
    rng = np.random.default_rng(3)
    X = rng.normal(scale=0.5, size=(9_000, 30))
    odds = -2.0 + 3 * X[:, 0] + 2 * X[:, 1] - 1.5 * X[:, 2]
    return X, np.where(rng.random(9_000) < 1 / (1 + np.exp(-odds)), 1.0, -1.0)


def test_every_learner_of_the_preset_learns(clinic):
    X, y = clinic
    situation = facts(targets=(Party(4_000, 1.0),), sources=(Party(4_000, 1.0),), prevalence=0.2)
    rules, party = Defaults.of(situation), situation.targets[0]
    randomness = SeededRandomness(np.random.default_rng(0))
    for learner in learners(rules, party, X[:4_000], y[:4_000], X[4_000:], randomness):
        model = learner.fit(X[:4_000], y[:4_000], randomness=randomness)
        assert area_under_curve(model.margins(X[4_000:]), y[4_000:]) > 0.75, learner  # noiseless: .84


def test_fewer_columns_where_noise_is_larger():
    kept = [len(kept_columns(facts(), reach)) for reach in np.geomspace(3, 1e6, 60)]
    assert kept[0] == 1
    assert kept[-1] == len(IMPORTANCE)
    assert all(a <= b <= a + 3 for a, b in pairwise(kept)), "smooth: a few columns at a time"


def test_the_columns_kept_are_the_most_important():
    shuffled = np.random.default_rng(0).permutation(30)
    columns = kept_columns(facts(importance=np.array(IMPORTANCE)[shuffled]), 300.0)
    assert set(shuffled[list(columns)]) == set(range(len(columns)))


def test_a_column_of_no_importance_is_dropped():
    assert kept_columns(facts(importance=(1.0, 0.0, 1.0)), 1e9) == (0, 2)


def test_lambda_falls_with_records_and_epsilon_without_a_cliff():
    rules = Defaults.of(facts())
    for role in (rules.lambda_alone, rules.lambda_pulled):
        for along in (
            [Party(n, 0.1) for n in range(1_000, 90_000, 1_000)],
            [Party(4_000, e) for e in np.geomspace(0.01, 9)],
        ):
            found = [role(party) for party in along]
            assert all(a > b > 0.05 * a for a, b in pairwise(found))


def test_the_encoding_is_one_for_all_parties_and_a_target_alone_has_its_own():
    rules = Defaults.of(facts(epsilon=0.05))
    assert rules.source(rules.facts.sources[0]).ball == rules.ball
    assert len(rules.direct(rules.facts.targets[0]).ball.columns) < len(rules.ball.columns)


@pytest.mark.parametrize("prevalence", [0.01, 0.12, 0.5, 0.7])
def test_the_offset_balances_the_classes(prevalence):
    o = np.array([starting_offset(prevalence)])
    slopes = prevalence * LOSS.slope(o), (1 - prevalence) * LOSS.slope(-o)
    assert slopes[0] == pytest.approx(slopes[1])


def test_there_is_one_group_unless_more_are_asked_for():
    assert Defaults.of(facts()).groups == (Defaults.of(facts()).ball,)
    assert len(Defaults.of(facts(), K=5).groups) == 5
    assert len(Defaults.of(facts(epsilon=0.001), K=50).groups) < 50, "no more groups than columns"


@pytest.mark.parametrize("grouping", ["importance", "uniform"])
def test_groups_deal_out_the_kept_columns(grouping):
    rules = Defaults.of(facts(), K=5, grouping=grouping)
    assert math.fsum(ball.q for ball in rules.groups) <= 1
    dealt = [column for ball in rules.groups for column in ball.columns]
    assert sorted(dealt) == list(rules.ball.columns)
    if grouping == "importance":
        worth = [sum(IMPORTANCE[j] for j in ball.columns) for ball in rules.groups]
        assert max(worth) < 2 * min(worth), "no group holds nearly all"


def test_directions_start_the_weights_where_noise_is_large_and_vanish_where_it_is_not():
    signs = (1.0, -1.0, 0.0) * 10
    rules = Defaults.of(facts(directions=signs))
    noisy, quiet = (rules.prior(Party(4_000, e)) * rules.lambda_alone(Party(4_000, e)) for e in (0.02, 50.0))
    kept = np.array([signs[j] for j in rules.ball.columns])
    assert np.array_equal(np.sign(noisy), kept)
    assert np.linalg.norm(quiet) < 1e-2 * np.linalg.norm(noisy)
    assert not Defaults.of(facts()).prior(Party(4_000, 1.0)).any()
    assert Defaults.of(facts()).direct(Party(4_000, 1.0)).pull is None


def test_facts_of_a_schema():
    schema = Schema(
        (Number("age", 0, 100, importance=3, direction="up"), Flag("ill"), Category("town", ("a", "b", "c", "d")))
    )
    found = Circumstances.from_schema(schema, targets=(Party(100, 1.0),))
    assert found.importance == schema.importance
    assert found.directions == schema.directions
    assert found.sizes == (0.5, 0.4, 0.5, 0.5, 0.5, 0.5)
    assert Circumstances.from_schema(schema, targets=(Party(100, 1.0),), with_directions=False).directions is None


def test_a_twin_keeps_every_column():
    rules = Defaults.of(facts(NON_PRIVATE))
    assert rules.ball.columns == tuple(range(30))


def test_combiners_by_name():
    rules = Defaults.of(facts())
    kinds = [type(rules.pst_f(Party(4_000, 1.0), combiner=name).combiner) for name in ("C-hl", "C-wmv", "C-mv")]
    assert kinds == [LevelOne, WeightedVote, MajorityVote]


def test_the_description_is_what_the_learners_use():
    rules, party = Defaults.of(facts()), Party(4_000, 1.0)
    told = rules.describe(party)
    assert told["lambda_alone"] == rules.source(party).lam
    assert told["columns"] == rules.ball.columns
    assert told["level1_lambda"] == rules.pst_f(party).combiner.lam


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"importance": (0.0, 0.0)}, InvalidImportance),
        ({"importance": (1.0, float("nan"))}, InvalidImportance),
        ({"sources": (), "targets": ()}, InvalidSetting),
        ({"prevalence": 0.0}, InvalidSetting),
        ({"sizes": (1.0,)}, WrongShape),
        ({"sizes": (0.0,) * 30}, InvalidSetting),
        ({"directions": (2.0,) * 30}, InvalidSetting),
    ],
)
def test_facts_that_make_no_sense_are_refused(changes, error):
    with pytest.raises(error):
        facts(**changes)
