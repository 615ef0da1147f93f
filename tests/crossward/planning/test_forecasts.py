"""Forecasts beside measurements: the right rows are compared, and a miss is called one."""

import pytest

from crossward.errors import InvalidSetting
from crossward.planning import Assumptions, Setting
from crossward.study import Study, example
from crossward_lab.bench import forecasts
from crossward_lab.bench.forecasts import DIRECTED, compare, without_directions

SCHEMA = Study.from_yaml(example()).schema


@pytest.fixture(autouse=True)
def small(monkeypatch):
    setting = Setting(SCHEMA, (2_000,), (800,), Assumptions())
    monkeypatch.setitem(forecasts.SETTINGS, "ruijin", lambda: ("main->16", setting))


def row(method="SimComb", epsilon=1.0, auc=0.78, **other):
    found = {"setting": "main->16", "preset": "default", "site": None, "method": method}
    return found | {"epsilon": epsilon, "auc_mean": auc} | other


def test_a_mean_is_within_its_band_or_not():
    measured = [row(), row("Direct", auc=0.6), row(f"SimComb{DIRECTED}", auc=0.95), row("PST-H (U)"), row(epsilon=None)]
    measured += [row(preset="paper", auc=0.1), row(site="Branch 1", auc=0.1), row(setting="other", auc=0.1)]
    found = {one.forecast.method: one for one in compare("ruijin", measured, repeats=3)}
    assert set(found) == {"SimComb", "Direct", f"SimComb{DIRECTED}"}
    assert found["SimComb"].measured == 0.78
    assert not found["Direct"].within
    assert not found[f"SimComb{DIRECTED}"].within
    for one in found.values():
        assert one.within == (one.forecast.auc_low <= one.measured <= one.forecast.auc_high)


def test_directions_count_only_where_the_benchmark_used_them():
    silent = without_directions(SCHEMA)
    assert not any(silent.directions)
    assert silent.importance == SCHEMA.importance


@pytest.mark.parametrize(("dataset", "rows", "words"), [("news20", [], "no study"), ("ruijin", [], "no default row")])
def test_what_cannot_be_compared_is_said(dataset, rows, words):
    with pytest.raises(InvalidSetting, match=words):
        compare(dataset, rows)
