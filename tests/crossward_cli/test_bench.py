"""`crossward bench ruijin` and its like: what is refused before any work, and what is written after it."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from crossward.errors import InvalidEpsilon, InvalidSetting
from crossward_cli import bench
from crossward_cli.main import commands
from crossward_lab.bench.measurements import Measurement
from crossward_lab.bench.tables import grids

MakeRow = Callable[..., Measurement]


@pytest.fixture
def nothing_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any work is a failure."""

    def work(*_: object) -> None:
        raise AssertionError("It began to measure.")

    monkeypatch.setattr("crossward_lab.bench.store.Store", work)


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
    bench.require_file(tmp_path / "new" / "rows.csv")
    assert not list((tmp_path / "new").iterdir())
    (tmp_path / "rows.csv").write_text("old")
    bench.require_file(tmp_path / "rows.csv")
    assert (tmp_path / "rows.csv").read_text() == "old"


def test_rows_of_all_kinds_fit_one_csv(row: MakeRow, tmp_path: Path) -> None:
    found = [
        row("Direct", 0.9),
        row("SimComb", 0.91, p_against_best=0.5, paper_auc=0.8, by_lambda={"0.1": 0.9}),
        row("SimComb", 0.92, site="Branch 1"),
        row("PST-F (W)", 0.93, combiner="C-hl", options={"K": 5}),
    ]
    bench.write_csv(tmp_path / "rows.csv", found)
    with (tmp_path / "rows.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["method"] for line in lines] == [row.method for row in found]
    assert [line["p_against_best"] for line in lines] == ["", "0.5", "", ""]
    assert [line["site"] for line in lines] == ["", "", "Branch 1", ""]
    assert lines[3]["options"] == '{"K": 5}'


def _printed(rows: list[Measurement], width: int) -> str:
    (grid,) = grids(rows)
    console = Console(width=width, file=io.StringIO(), color_system=None)
    for table in bench.tables(grid, console):
        console.print(table)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 100, 115, 130, 200])
def test_no_word_of_a_table_is_cut_at_any_usual_width(row: MakeRow, width: int) -> None:
    methods = ("Direct", "SimComb, directed", "boosted DPPSGD, printed noise")
    epsilons = [*(2.0**power for power in range(-5, 4)), None]
    rows = [
        row(method, 0.5 + 0.1 * i + 0.01 * j, preset=preset, epsilon=epsilon, paper_auc=0.111 if epsilon == 8 else None)
        for preset in ("paper", "default")
        for i, method in enumerate(methods)
        for j, epsilon in enumerate(epsilons)
    ]
    text = _printed(rows, width)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    for found in rows:
        assert f" {found.auc_mean:.3f} ".replace("0.", ".") in text
    assert text.count(" paper ") == text.count(" default ") == 3 * text.count("method")
    assert text.count("published") == 3, "only where there is something printed"
    assert ("±" in text) == (width == 200)


def test_deviations_are_shown_where_they_fit(row: MakeRow) -> None:
    assert "±" in _printed([row("Direct", 0.9), row("SimComb", 0.8)], 80)


def test_figures_are_counted_once_though_each_is_two_files() -> None:
    assert bench._count_of(9, Path("plots")) == "9 figures, each as PNG and SVG, in plots"
    assert bench._count_of(1, Path("plots")).startswith("1 figure,")
