"""Figures like the papers', as PNG and SVG. matplotlib is only needed here, and is optional.

style.py     colours, fonts, labels at the ends of lines
lines.py     what varies across, a panel per preset (000 Figures 1, 2; 002 Figures 3, 4; 004 Figure 3)
points.py    combiners (000 Figure 3) and single sites (002 Table 4)
budget.py    what a smaller budget costs, on all data in one picture
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from crossward_lab.bench.rows import Row


class NoPlotsError(Exception):
    """matplotlib is not here, and how to get it."""


def require_matplotlib() -> None:
    """Refuse in one line, not with a traceback."""
    if importlib.util.find_spec("matplotlib") is None:
        raise NoPlotsError(
            "matplotlib is not installed; `pip install -r requirements/plots.txt` or `make results` does."
        )


def draw_all(found: list[Row], folder: Path) -> list[Path]:
    """The figures of every setting in the rows; the PNGs written, each with an SVG beside it."""
    require_matplotlib()
    from crossward_lab.bench.figures.lines import draw_setting  # noqa: PLC0415
    from crossward_lab.bench.figures.points import draw_combiners, draw_sites  # noqa: PLC0415
    from crossward_lab.bench.tables import varied  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for setting in dict.fromkeys(row.setting for row in found):
        here = [row for row in found if row.setting == setting]
        place = folder / file_name(here[0].dataset, setting)
        results = [row for row in here if row.site is None]
        if varied(results) == "combiner":
            written.append(draw_combiners(here, place))
        elif len({row.epsilon for row in results} | {str(row.options) for row in results}) > 2:
            levels = [row for row in found if row.setting == f"{setting}, baselines" and row.site is None]
            written.append(draw_setting(results, place, levels))
        sites = [row for row in here if row.site is not None and row.epsilon == 1.0 and not row.options]
        if len({row.site for row in sites}) > 2 and setting.endswith("16"):
            written.append(draw_sites(sites, folder / f"{place.name}-sites"))
    return written


def file_name(dataset: str, setting: str) -> str:
    """mnist-0v8-to-0v9-K."""
    plain = setting.replace("->", "-to-").replace(", ", "-").replace(" ", "-")
    return f"{dataset}-{plain}".lower()
