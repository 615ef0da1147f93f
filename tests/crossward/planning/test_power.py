"""Forecasts: repeatable, in the order that theory demands, and read off for the lead. All seeded."""

import pytest

from crossward.errors import InvalidSetting
from crossward.planning import Assumptions, Setting, forecast, plan, smallest_epsilon
from crossward.planning.outlook import as_auto
from crossward.planning.power import AS_WRITTEN, representative
from crossward.planning.setting import MOST_RECORDS
from crossward.study import Study, example

STUDY = Study.from_yaml(example())
SETTING = Setting(STUDY.schema, (3_000,), (1_000, 600), Assumptions())
REPEATS = 6


@pytest.fixture(scope="module")
def found():
    return {(row.method, row.epsilon): row for row in forecast(SETTING, (0.02, 1.0), repeats=REPEATS)}


def test_every_method_has_a_mean_within_its_band(found):
    assert {method for method, _ in found} == {"Direct", "SourceD", "SimComb", "PST-F (W)", "PST-H (W)"}
    for row in found.values():
        assert 0 < row.auc_low <= row.auc_mean <= row.auc_high < 0.85
        assert row.repeats == REPEATS


def test_more_budget_and_more_records_help(found):
    """Margins are a half of the differences seen, which are several times the deviation of these means."""
    assert found["SimComb", 1.0].auc_mean > found["SimComb", 0.02].auc_mean + 0.05
    assert found["Direct", 1.0].auc_mean > found["Direct", 0.02].auc_mean + 0.05
    assert found["SimComb", 0.02].auc_high - found["SimComb", 0.02].auc_low > 0.05


def test_a_repeat_depends_on_seed_and_number_alone(found):
    again = forecast(SETTING, (0.02, 1.0), repeats=REPEATS, workers=2)
    assert {(row.method, row.epsilon): row for row in again} == found
    other = forecast(SETTING, (1.0,), repeats=2, seed=1)
    assert other != forecast(SETTING, (1.0,), repeats=2)


def test_without_sources_targets_are_alone():
    alone = Setting(STUDY.schema, (), (800,), Assumptions())
    assert {row.method for row in forecast(alone, (1.0,), repeats=2)} == {"Direct", "PST-F (W)"}


def test_where_records_are_too_few_nothing_is_promised():
    assert forecast(SETTING, (1e-4,), repeats=2) == []


@pytest.mark.parametrize(
    ("records", "epsilon", "shown"),
    [
        (30, 0.05, {"Direct", "SourceD", "SimComb"}),
        (30, 4.0, {"Direct", "SourceD", "SimComb", "PST-F (W)", "PST-H (W)"}),
        (8, 0.05, set()),
        (2, 4.0, {"SourceD"}),
        (1, 4.0, set()),
    ],
)
def test_where_some_records_are_too_few_the_rest_is_shown(records, epsilon, shown):
    setting = Setting(STUDY.schema, (3_000,), (records, 600), Assumptions())
    assert {row.method for row in forecast(setting, (epsilon,), repeats=3)} == shown


def test_a_source_with_too_few_records_leaves_the_targets_alone():
    setting = Setting(STUDY.schema, (2,), (1_000,), Assumptions())
    assert {row.method for row in forecast(setting, (1.0,), repeats=3)} == {"Direct", "PST-F (W)"}


def test_only_the_simulation_is_smaller_than_a_large_party():
    records = {"main": 5_000_000, "branch-1": 2_000_000, "branch-2": 600}
    setting = Setting.of(STUDY, records, Assumptions())
    assert (setting.sources, setting.targets) == ((5_000_000,), (2_000_000, 600))
    assert setting.rules(1.0).facts.sources[0].records == 4_000_000
    assert (setting.simulated.sources, setting.simulated.targets) == ((MOST_RECORDS,), (MOST_RECORDS, 600))
    assert SETTING.simulated == SETTING
    assert forecast(setting, (1.0,), repeats=2) == forecast(setting.simulated, (1.0,), repeats=2)


def test_of_many_targets_some_stand_for_all():
    assert representative([5, 3, 4]) == (3, 4, 5)
    assert representative(range(100, 117)) == (100, 105, 111, 116)


def test_the_smallest_epsilon_lies_on_the_curve():
    curve = [(0.1, 0.6), (1.0, 0.7), (10.0, 0.8)]
    assert smallest_epsilon(curve, 0.7) == pytest.approx(1.0)
    assert smallest_epsilon(curve, 0.65) == pytest.approx(10**-0.5)
    assert smallest_epsilon(curve, 0.55) == 0.1
    assert smallest_epsilon(curve, 0.9) is None
    assert smallest_epsilon([], 0.6) is None
    assert 0.1 < smallest_epsilon([(0.1, 0.6), (0.2, 0.58), (1.0, 0.7)], 0.65) < 1.0


def test_a_plan_says_what_auto_freezes_and_what_is_enough():
    records = {"main": 3_000, "branch-1": 1_000, "branch-2": 600}
    outlook = plan(STUDY, records=records, epsilons=(0.05, 4.0), wanted=0.7, repeats=4)
    assert outlook.frozen.method.name == "simcomb"
    assert outlook.recommended == "SimComb"
    assert [row.epsilon for row in outlook.curve("SimComb")] == [0.05, 1.0, 4.0]
    assert outlook.curve(AS_WRITTEN) == []
    assert 0.05 <= outlook.enough.expected <= 4.0
    assert outlook.enough.sure is None or outlook.enough.sure >= outlook.enough.expected
    assert outlook.setting.assumed.positive_rate == 0.12


def test_a_method_that_the_lead_named_is_forecast_as_written():
    named = Study.from_data(
        STUDY.model_dump(mode="json", exclude={"chosen", "encoding", "method"})
        | {"method": "pst-h", "groups": {"kind": "importance", "k": 2}, "epsilon": {"source": 2.0, "target": 1.0}}
    )
    outlook = plan(named, records={"main": 2_000, "branch-1": 500, "branch-2": 500}, epsilons=(4.0,), repeats=2)
    assert [row.epsilon for row in outlook.curve(AS_WRITTEN)] == [1.0, 4.0]
    assert outlook.setting.ratio == 2.0
    assert outlook.frozen.method.name == "simcomb"
    assert as_auto(named, {}).epsilon == named.epsilon


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"wanted": 0.9}, "cannot be reached"),
        ({"wanted": 0.4}, "no better than guessing.*between 0.5 and 0.8"),
        ({"wanted": 0.5}, "no better than guessing"),
        ({"records": {"nobody": 5}}, "takes no part"),
        ({"records": {"main": 0}}, "0 records"),
    ],
)
def test_what_cannot_be_planned_is_said_before_anything_runs(options, words):
    with pytest.raises(InvalidSetting, match=words):
        plan(STUDY, repeats=2, **options)


def test_a_party_without_a_count_is_named():
    silent = STUDY.model_copy(update={"records": {"main": 3_000, "branch-1": 500}})
    with pytest.raises(InvalidSetting, match="branch-2"):
        plan(silent, repeats=2)
