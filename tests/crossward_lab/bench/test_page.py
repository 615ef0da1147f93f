"""The page and its figures, from rows we made up."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from crossward_lab.bench.drawing import draw_budget
from crossward_lab.bench.figures import NoPlotsError, draw_all, file_name, require_matplotlib
from crossward_lab.bench.measurements import Measurement
from crossward_lab.bench.tables import grids, heading

MakeRow = Callable[..., Measurement]
METHODS = ("Direct", "SourceD", "SimComb", "PST-H (U)", "PST-H (W)")


def _rows(row: MakeRow) -> list[Measurement]:
    return [
        row(method, 0.9 + 0.01 * i, preset=preset, epsilon=epsilon, paper_auc=0.8 if epsilon == 1 else None)
        for preset in ("paper", "default")
        for i, method in enumerate(METHODS)
        for epsilon in (0.125, 1.0, None)
    ]


def test_a_setting_is_a_table_with_the_papers_figures_beneath_its_methods(row: MakeRow) -> None:
    (grid,) = grids(_rows(row))
    assert grid.columns == ("1/8", "1", "non-private")
    assert [(line.method, line.preset) for line in grid.lines[:3]] == [
        ("Direct", "paper"),
        ("Direct", "published"),
        ("SourceD", "paper"),
    ]
    published = grid.lines[1].cells
    assert [cell.text(deviation=True) if cell else None for cell in published] == [None, ".800", None]
    assert len(grid.lines) == 15


@pytest.mark.parametrize(
    ("value", "text"), [(1 / 32, "1/32"), (0.025, "0.025"), (0.1, "0.1"), (8.0, "8"), (None, "non-private")]
)
def test_epsilons_are_written_as_people_think_of_them(value: float | None, text: str) -> None:
    assert heading(value, "epsilon") == text


def test_what_varies_is_found_in_the_rows(row: MakeRow) -> None:
    rows = [row("PST-F (W)", 0.9, setting="0v8, K", options={"K": k}) for k in (2, 5)]
    (grid,) = grids(rows)
    assert (grid.varies, grid.columns) == ("K", ("2", "5"))


def test_a_column_of_one_is_not_bold(row: MakeRow) -> None:
    rows = [row("PST-F (W)", 0.9, setting="0v8, alpha", options={"alpha": a}) for a in (0.8, 0.9)]
    (grid,) = grids(rows)
    assert [cell and cell.bold for cell in grid.lines[0].cells] == [False, False]
    (grid,) = grids([*rows, row("PST-F (U)", 0.9, setting="0v8, alpha", options={"alpha": 0.8})])
    assert [cell and cell.bold for cell in grid.lines[0].cells] == [True, False]


def test_figures_are_small_and_the_same_for_the_same_rows(row: MakeRow, tmp_path: Path) -> None:
    written = [*draw_all(_rows(row), tmp_path), draw_budget(_rows(row), tmp_path / "budget")]
    assert [place.name for place in written] == ["mnist-0v8-to-0v9.png", "budget.png"]
    for place in written:
        for file in (place, place.with_suffix(".svg")):
            assert 1_000 < file.stat().st_size < 100_000
    again = draw_budget(_rows(row), tmp_path / "again")
    assert again.with_suffix(".svg").read_bytes() == written[1].with_suffix(".svg").read_bytes()
    assert "SimComb" in written[0].with_suffix(".svg").read_text()


def test_without_matplotlib_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(NoPlotsError, match=r"\.\[plots\]"):
        require_matplotlib()


def test_names_of_files() -> None:
    assert file_name("mnist", "0v8->0v9, K") == "mnist-0v8-to-0v9-k"
