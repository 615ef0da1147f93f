"""One picture of what a smaller budget costs: AUC over epsilon on each data set, ours beside the papers' best."""

from __future__ import annotations

import math
from pathlib import Path

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from crossward_lab.bench.figures.style import BLACK, GREY, LOOK, budget_axis, label_ends, save
from crossward_lab.bench.rows import Row

OURS, THEIRS = "#D55E00", "#0072B2"

CHOSEN = (
    ("mnist", "0v8->0v9", "SimComb", "Digits: 0 v 8 helps 0 v 9"),
    ("news20", "sci-talk", "Direct", "Newsgroups: one site"),
    ("brfss", "Washington->16", "SimComb", "Health survey: mean of 16 states"),
    ("ruijin", "main->16", "SimComb", "Simulated hospitals: mean of 16 branches"),
)
"""Data set, setting, the method our rules recommend there, and a title."""


def draw_budget(found: list[Row], place: Path) -> Path:
    """A panel per data set."""
    shown = [chosen for chosen in CHOSEN if any((row.dataset, row.setting) == chosen[:2] for row in found)]
    with plt.rc_context(LOOK):
        columns = min(2, len(shown))
        lines = -(-len(shown) // columns)
        figure, panels = plt.subplots(
            lines, columns, figsize=(5.6 * columns, 3.1 * lines), squeeze=False, layout="constrained"
        )
        for axes in panels.flat[len(shown) :]:
            axes.set_visible(False)
        for axes, (dataset, setting, method, title) in zip(panels.flat, shown, strict=False):
            here = [r for r in found if (r.dataset, r.setting, r.site) == (dataset, setting, None)]
            axes.set_title(title)
            _panel(axes, here, method)
        return save(figure, place, dpi=80)


def _saving(axes: Axes, ours: dict[float, float], theirs: dict[float, float]) -> None:
    """An arrow from the papers' best at epsilon 1 to the smallest epsilon at which we do as well."""
    reached = [stop for stop, auc in ours.items() if auc >= theirs.get(1.0, math.inf)]
    if not reached or min(reached) >= 1.0:
        return
    first, level = min(reached), theirs[1.0]
    axes.annotate(
        "", xy=(first, level), xytext=(1.0, level), arrowprops={"arrowstyle": "->", "color": BLACK, "linewidth": 1.1}
    )
    least = "at least " if first == min(ours) else ""
    axes.annotate(
        f"the same with ε {least}{1 / first:.0f} times smaller",
        (math.sqrt(first), level),
        xytext=(0, -7),
        textcoords="offset points",
        ha="center",
        va="top",
        fontsize=8,
        color=BLACK,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1},
        zorder=5,
    )


def _panel(axes: Axes, here: list[Row], method: str) -> None:
    ours = {row.epsilon: row for row in here if (row.method, row.preset) == (method, "default")}
    theirs: dict[float, float] = {}
    printed: dict[float, float] = {}
    for row in here:
        if row.preset == "paper" and row.epsilon is not None:
            theirs[row.epsilon] = max(theirs.get(row.epsilon, 0.0), row.auc_mean)
            if row.paper_auc is not None:
                printed[row.epsilon] = max(printed.get(row.epsilon, 0.0), row.paper_auc)
    stops = sorted(epsilon for epsilon in ours if epsilon is not None)
    means = [ours[stop].auc_mean for stop in stops]
    spread = [ours[stop].auc_sd or 0.0 for stop in stops]
    axes.fill_between(
        stops,
        [m - s for m, s in zip(means, spread, strict=True)],
        [m + s for m, s in zip(means, spread, strict=True)],
        color=OURS,
        alpha=0.15,
        linewidth=0,
    )
    axes.plot(stops, means, marker="o", color=OURS, zorder=3)
    ends = [(means[-1], f"ours ({method})", OURS)]
    common = [stop for stop in stops if stop in theirs]
    axes.plot(common, [theirs[stop] for stop in common], marker="s", linestyle="--", color=THEIRS)
    ends.append((theirs[common[-1]], "papers' best", THEIRS))
    if printed:
        axes.plot(sorted(printed), [printed[stop] for stop in sorted(printed)], "o", mfc="white", mec=BLACK, zorder=4)
        stop = min(printed)
        axes.annotate("printed", (stop, printed[stop]), xytext=(6, -10), textcoords="offset points", color=BLACK)
    _saving(axes, {stop: ours[stop].auc_mean for stop in stops}, theirs)
    twin = max((row.auc_mean for row in here if row.epsilon is None), default=None)
    if twin is not None:
        axes.axhline(twin, color=GREY, linewidth=0.9, linestyle=":")
        axes.annotate("non-private", (stops[0], twin), xytext=(0, 3), textcoords="offset points", color=GREY)
    axes.set_ylabel("test AUC")
    budget_axis(axes, stops, None)
    axes.figure.canvas.draw()
    label_ends(axes, ends, stops[-1])
