"""What is made of runs: the papers' lambda, means over sites, tests between methods."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from crossward_lab.bench.engine import Benchmark, MeasuredSetting
from crossward_lab.bench.measurements import holm, measurements, paired_test, published
from crossward_lab.bench.settings import Choice, Outcome, Run, Setting


def _setting(**about: object) -> Setting:
    given = {
        "dataset": "mnist",
        "name": "made up",
        "paper": "none",
        "methods": {"paper": ("Direct",)},
        "epsilons": (1.0,),
        "lambdas": (0.01, 0.1),
        "twins": False,
    }
    return Setting(**(given | about))  # type: ignore[arg-type]


def _rows(setting: Setting, measure, repeats: int = 3):  # type: ignore[no-untyped-def]
    outcomes = tuple((run, measure(run)) for run in setting.runs(Choice(repeats=repeats)))
    return measurements(Benchmark("mnist", (MeasuredSetting(setting, outcomes),), 0.0, 0))


def test_the_papers_lambda_is_the_best_mean_over_repeats_not_the_best_of_each() -> None:
    table = {0.01: (0.9, 0.5, 0.7), 0.1: (0.7, 0.8, 0.75)}

    def measure(run: Run) -> Outcome:
        return {"": {"auc": table[run.number("lambda")][run.repeat], "error": 0.1}}

    (row,) = _rows(_setting(), measure)
    assert row.auc_mean == pytest.approx(0.75)
    assert row.auc_sd == pytest.approx(np.std(table[0.1], ddof=1))
    assert row.by_lambda == {"0.01": 0.7, "0.1": 0.75}
    assert "hindsight" in (row.tuning or "")


def test_lambda_is_chosen_for_all_sites_together_and_the_result_is_their_mean() -> None:
    table = {0.01: {"A": 0.9, "B": 0.5}, 0.1: {"A": 0.8, "B": 0.7}}

    def measure(run: Run) -> Outcome:
        return {site: {"auc": auc, "error": 0.2} for site, auc in table[run.number("lambda")].items()}

    found = {row.site: row.auc_mean for row in _rows(_setting(parts="site"), measure)}
    assert found == pytest.approx({None: 0.75, "A": 0.8, "B": 0.7})


def test_combiners_share_the_lambda_of_the_level_one_model() -> None:
    table = {0.01: {"C-hl": 0.9, "C-0": 0.6}, 0.1: {"C-hl": 0.8, "C-0": 0.95}}

    def measure(run: Run) -> Outcome:
        return {part: {"auc": auc, "error": 0.2} for part, auc in table[run.number("lambda")].items()}

    found = {row.combiner: row.auc_mean for row in _rows(_setting(parts="combiner"), measure)}
    assert found == pytest.approx({"C-hl": 0.9, "C-0": 0.6})


def test_methods_that_chance_may_explain_are_comparable_and_others_are_not() -> None:
    wobble = (0.0, 0.01, -0.01, 0.005, -0.005, 0.002, -0.002, 0.001)
    levels = {"Direct": 0.9, "SourceD": 0.901, "SimComb": 0.8}
    noise = {
        "Direct": (0.004, -0.001, 0.002, -0.003, 0.001, -0.002, 0.003, -0.004),
        "SourceD": (0.0,) * 8,
        "SimComb": (0.001, *(0.0,) * 7),
    }

    def measure(run: Run) -> Outcome:
        auc = levels[run.method] + wobble[run.repeat] + noise[run.method][run.repeat]
        return {"": {"auc": auc, "error": 0.1}}

    setting = _setting(methods={"default": tuple(levels)})
    found = {row.method: row for row in _rows(setting, measure, repeats=8)}
    assert {method: row.comparable for method, row in found.items()} == {
        "Direct": True,
        "SourceD": True,
        "SimComb": False,
    }
    assert found["SourceD"].p_against_best is None


def test_a_combiner_is_compared_with_the_same_combiner_as_tables_show_them() -> None:
    levels = {"PST-F (U)": 0.8, "PST-F (W)": 0.9}
    parts = {"C-hl": 0.05, **{f"C-{k}": -0.05 * k for k in range(7)}}

    def measure(run: Run) -> Outcome:
        wobble = 0.001 * run.repeat * (run.method == "PST-F (W)")
        return {part: {"auc": levels[run.method] + shift + wobble, "error": 0.1} for part, shift in parts.items()}

    setting = _setting(methods={"default": tuple(levels)}, parts="combiner")
    found = _rows(setting, measure, repeats=8)
    assert len(found) == 16
    assert {row.comparable for row in found if row.method == "PST-F (W)"} == {True}, "the best of every column"
    assert {row.comparable for row in found if row.method == "PST-F (U)"} == {False}
    assert {row.p_against_best for row in found if row.method == "PST-F (U)"} == {2 * 2**-8}, "one comparison each"


def test_the_paired_test_is_the_one_of_scipy() -> None:
    first, second = (0.9, 0.8, 0.85, 0.7), (0.88, 0.81, 0.8, 0.67)
    assert paired_test(first, second) == pytest.approx(stats.wilcoxon(first, second).pvalue)
    assert paired_test((0.5,), (0.9,)) == 1.0
    assert paired_test((0.5, 0.5), (0.5, 0.5)) == 1.0


def test_ten_wins_of_ten_count_even_where_one_model_was_turned_around() -> None:
    theirs = (0.95,) * 9 + (0.05,)
    ours = tuple(auc + 0.01 * (1 + i / 100) for i, auc in enumerate(theirs))
    assert paired_test(ours, theirs) == pytest.approx(2 * 2**-10)


def test_holm_on_a_worked_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


def test_printed_figures_are_those_of_the_papers() -> None:
    assert published("mnist", "0v8->0v9", "PST-H (W)", 0.5, None) == (0.9007, 0.0391)
    assert published("mnist", "0v8->0v9", "Direct", 8.0, None) == (0.9877, 0.0039)
    assert published("mnist", "0v8->0v9", "Direct", 1 / 32, None) == (None, None)
    assert published("ruijin", "main->16", "PST-H (W)", 1.0, "Branch 16") == (0.6039, 0.0124)
    assert published("ruijin", "main->16", "SimComb", 8.0, "Branch 1") == (0.7386, 0.0311)
    assert published("brfss", "Washington->16", "SimComb", 1.0, None) == (None, None)


def test_json_rows_have_their_fixed_fields_and_no_nan() -> None:
    def measure(run: Run) -> Outcome:
        return {"": {"auc": 0.75, "error": 0.1}}

    (row,) = _rows(_setting(), measure, repeats=1)
    described = row.describe()
    assert {"dataset", "setting", "method", "preset", "epsilon", "auc_mean", "auc_sd", "repeats"} <= described.keys()
    assert described["auc_sd"] is None
    assert "paper_auc" not in described
