"""`crossward bench ruijin` and its like: what is refused before any work, and what is written after it."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crossward.bench.rows import Row
from crossward.cli import benchmarks
from crossward.cli.main import commands
from crossward.errors import InvalidEpsilon, InvalidSetting

MakeRow = Callable[..., Row]


@pytest.fixture
def nothing_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any work is a failure."""

    def work(*_: object) -> None:
        raise AssertionError("It began to measure.")

    monkeypatch.setattr(benchmarks, "Store", work)


def _refusal(*arguments: str) -> BaseException | None:
    return CliRunner().invoke(commands, ["bench", *arguments]).exception


@pytest.mark.usefixtures("nothing_measured")
@pytest.mark.parametrize("epsilon", ["0", "-1", "nan", "inf"])
def test_an_epsilon_that_is_none_is_refused_before_any_work(epsilon: str) -> None:
    assert isinstance(_refusal("ruijin", "--epsilon", epsilon), InvalidEpsilon)


@pytest.mark.usefixtures("nothing_measured")
def test_a_place_that_cannot_be_written_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    for arguments in (
        ("ruijin", "--csv", str(tmp_path)),
        ("ruijin", "--csv", str(tmp_path / "file" / "rows.csv")),
        ("ruijin", "--plots", str(tmp_path / "file")),
        ("ruijin", "--plots", str(tmp_path / "file" / "plots")),
        ("report", str(tmp_path / "file")),
    ):
        refusal = _refusal(*arguments)
        assert isinstance(refusal, InvalidSetting), arguments
        assert str(tmp_path) in refusal.cause
    assert (tmp_path / "file").read_text() == "kept"


def test_asking_for_a_file_leaves_nothing_behind_and_what_is_there_alone(tmp_path: Path) -> None:
    benchmarks.require_file(tmp_path / "new" / "rows.csv")
    assert not list((tmp_path / "new").iterdir())
    (tmp_path / "rows.csv").write_text("old")
    benchmarks.require_file(tmp_path / "rows.csv")
    assert (tmp_path / "rows.csv").read_text() == "old"


def test_rows_of_all_kinds_fit_one_csv(row: MakeRow, tmp_path: Path) -> None:
    found = [
        row("Direct", 0.9),
        row("SimComb", 0.91, p_against_best=0.5, paper_auc=0.8, by_lambda={"0.1": 0.9}),
        row("SimComb", 0.92, site="Branch 1"),
        row("PST-F (W)", 0.93, combiner="C-hl", options={"K": 5}),
    ]
    benchmarks.write_csv(tmp_path / "rows.csv", found)
    with (tmp_path / "rows.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["method"] for line in lines] == [row.method for row in found]
    assert [line["p_against_best"] for line in lines] == ["", "0.5", "", ""]
    assert [line["site"] for line in lines] == ["", "", "Branch 1", ""]
    assert lines[3]["options"] == '{"K": 5}'


def test_figures_are_counted_once_though_each_is_two_files() -> None:
    assert benchmarks._drawn(9, Path("plots")) == "9 figures, each as PNG and SVG, in plots"
    assert benchmarks._drawn(1, Path("plots")).startswith("1 figure,")
