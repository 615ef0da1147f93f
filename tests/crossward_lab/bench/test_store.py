"""Measured once, and not again: after an interruption, and until run, data or code change."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossward.errors import InvalidSetting
from crossward_lab.bench import store as storing
from crossward_lab.bench.engine import benchmark
from crossward_lab.bench.settings import Choice, Run
from crossward_lab.bench.store import Store

RUN = Run("ruijin", "main->16", "default", "Direct", 1.0, 0)
FOUND = {"": {"auc": 0.75, "error": 0.2}}


def test_results_outlive_the_process_that_found_them(tmp_path: Path) -> None:
    Store("ruijin", tmp_path).add(RUN, FOUND)
    assert Store("ruijin", tmp_path).get(RUN) == FOUND
    assert Store("ruijin", tmp_path, fresh=True).get(RUN) is None


def test_a_line_torn_by_an_interruption_costs_that_result_alone(tmp_path: Path) -> None:
    Store("ruijin", tmp_path).add(RUN, FOUND)
    with (tmp_path / "ruijin.jsonl").open("a") as lines:
        lines.write('["half a li')
    assert Store("ruijin", tmp_path).get(RUN) == FOUND


@pytest.mark.parametrize("digest", ["digest", "code_digest"])
def test_other_data_or_other_code_make_other_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digest: str
) -> None:
    Store("ruijin", tmp_path).add(RUN, FOUND)
    monkeypatch.setattr(storing, digest, lambda *_: "changed")
    assert Store("ruijin", tmp_path).get(RUN) is None


def test_the_code_that_results_depend_on_is_there() -> None:
    assert all((storing.ROOT / part).exists() for part in (*storing.CODE, *storing.ASIDE, *storing.RULES))
    assert storing.code_digest("paper") != storing.code_digest("default")


def test_words_about_code_change_no_result() -> None:
    plain = "def f(x):\n    return x + 1\n"
    told = '"""Adds."""\ndef f(x):\n    """One more."""\n    return x + 1  # more\n'
    assert storing._meaning(plain) == storing._meaning(told)
    assert storing._meaning(plain) != storing._meaning(plain.replace("1", "2"))


def test_noise_depends_on_the_run_and_on_nothing_else() -> None:
    again = Run("ruijin", "main->16", "default", "Direct", 1.0, 0)
    other = Run("ruijin", "main->16", "default", "Direct", 1.0, 1)
    assert RUN.randomness().words(3).tolist() == again.randomness().words(3).tolist()
    assert RUN.randomness().words(3).tolist() != other.randomness().words(3).tolist()


def test_a_benchmark_measures_what_is_missing(tmp_path: Path) -> None:
    choice = Choice(repeats=1, epsilons=(1.0,), methods=("sourced",), presets=("default",))
    first = benchmark("ruijin", choice, Store("ruijin", tmp_path), only=("main->16",), workers=1)
    assert first.fresh_runs == 2, "epsilon 1 and the non-private twin"
    again = benchmark("ruijin", choice, Store("ruijin", tmp_path), only=("main->16",), workers=1)
    assert again.fresh_runs == 0
    assert again.measured == first.measured
    (measured,) = first.measured
    assert len(measured.outcomes[0][1]) == 16, "a result for every branch"


def test_a_method_that_does_not_exist_is_refused_with_those_that_do(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match=r"PST-H \(W\)"):
        benchmark("ruijin", Choice(methods=("PST-X",)), Store("ruijin", tmp_path), workers=1)
