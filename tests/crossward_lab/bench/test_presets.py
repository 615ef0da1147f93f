"""The papers' methods are as printed; what is public stays public."""

from __future__ import annotations

import math

import numpy as np
import pytest

from crossward.errors import NotFound
from crossward_lab.bench.catalogue import CATALOGUE, settings
from crossward_lab.bench.datasets import hospitals
from crossward_lab.bench.presets.paper import Paper
from crossward_lab.bench.public import Public
from crossward_lab.bench.settings import Choice, Run

FEATURES = ("age", "smoker", "smoker", "smoker", "weight", "sex")
PUBLIC = Public((5.0, 3.0, 3.0, 3.0, 2.0, 1.0), FEATURES)


def _paper(**options: float) -> Paper:
    given = {"lambda": 0.1} | options
    return Paper(Run("ruijin", "main->16", "paper", "any", 1.0, 0, tuple(given.items())), PUBLIC)


def test_a_stack_is_as_000_prints_it() -> None:
    stack = _paper(K=3).alone("PST-F (W)", 100)
    assert stack.level1_share == 0.5
    assert stack.combiner.scores.kind == "sigmoid"
    assert (stack.combiner.intercept, stack.combiner.prior) == (False, 0.0)
    balls = [group.ball for group in stack.level0.groups]
    assert [ball.columns for ball in balls] == [(0, 1), (2, 3), (4, 5)]
    np.testing.assert_allclose([ball.q for ball in balls], [8 / 17, 6 / 17, 3 / 17])
    assert all(ball.scale is None and ball.intercept == 0 for ball in balls)


def test_the_radius_is_the_largest_norm_that_the_schema_allows() -> None:
    balls = [group.ball for group in _paper(K=3).alone("PST-F (W)", 100).level0.groups]
    assert [ball.radius for ball in balls] == pytest.approx([math.sqrt(2), 1.0, math.sqrt(2)])
    assert _paper().alone("Direct", 100).ball.radius == pytest.approx(2.0), "four features, one level set of smoker"


def test_with_a_public_sample_it_is_the_largest_norm_there() -> None:
    sample = np.array([[3.0, 4.0], [1.0, 0.0]])
    assert Public((1.0, 1.0), sample=sample).largest() == 5.0
    assert Public((1.0, 1.0), sample=sample).largest((0,)) == 3.0


def test_alpha_above_one_favours_the_last_columns() -> None:
    first = _paper(K=2, alpha=2.0).alone("PST-F (W)", 100).level0.groups[0].ball
    assert first.columns == (3, 4, 5)
    assert first.q == pytest.approx(8 / 9)


def test_sites_have_the_papers_sizes_and_share_no_record() -> None:
    sites = hospitals.draw_ruijin(0, "paper")
    assert len(sites.y) == round(0.8 * 12_702)
    assert [len(t.y) + len(t.y_test) for t in sites.targets][:3] == [4334, 4739, 6121]
    again = hospitals.draw_ruijin(1, "paper")
    assert not np.array_equal(sites.targets[0].X, again.targets[0].X)


def test_every_setting_names_its_table_and_lists_runs() -> None:
    for dataset in CATALOGUE:
        names = [setting.name for setting in settings(dataset)]
        assert len(set(names)) == len(names)
        for setting in settings(dataset):
            runs = list(setting.runs(Choice(repeats=2)))
            assert len(set(runs)) == len(runs) > 0
            assert setting.paper
    with pytest.raises(NotFound):
        settings("imagenet")


def test_a_choice_narrows_what_is_run() -> None:
    (setting, *_) = settings("ruijin")
    runs = list(setting.runs(Choice(repeats=1, epsilons=(0.3,), methods=("pst-h(w)",), presets=("paper",))))
    assert {(run.method, run.preset) for run in runs} == {("PST-H (W)", "paper")}
    assert {run.epsilon for run in runs} == {0.3, None}
    assert sorted({run.number("lambda") for run in runs}) == list(setting.lambdas)
