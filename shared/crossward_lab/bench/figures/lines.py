"""A line per method over what varies, a panel per preset: the papers' way on the left, ours on the right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from crossward_lab.bench.figures.style import GREY, LOOK, budget_axis, colour, label_ends, save
from crossward_lab.bench.rows import Row
from crossward_lab.bench.tables import column, heading, varied

PANELS = {"paper": "as printed", "default": "our defaults"}
NAMES = {"K": "groups of features K", "alpha": "importance falls as αⁱ", "m": "records per site m", "N": "sites N"}


def draw_setting(found: list[Row], place: Path, levels: list[Row]) -> Path:
    """One figure for a setting. `levels`: what to compare all of it with, as horizontal lines."""
    varies = varied(found)
    presets = [preset for preset in PANELS if any(row.preset == preset for row in found)]
    with plt.rc_context(LOOK):
        figure, panels = plt.subplots(
            1, len(presets), figsize=(5.4 * len(presets), 3.5), sharey=True, squeeze=False, layout="constrained"
        )
        least = min(row.auc_mean for row in found)
        most = max(row.auc_mean for row in found + levels)
        for axes, preset in zip(panels[0], presets, strict=True):
            axes.set_ylim(max(0.0, least - 0.03), most + 0.015)
            tuned = any(row.tuning for row in found if row.preset == preset)
            name = f"{PANELS[preset]}, λ best in hindsight" if tuned else PANELS[preset]
            axes.set_title(f"{found[0].dataset} {found[0].setting}: {name}")
        figure.canvas.draw()
        for axes, preset in zip(panels[0], presets, strict=True):
            _panel(axes, [row for row in found if row.preset == preset], varies)
            for level in levels:
                axes.axhline(level.auc_mean, color=GREY, linewidth=0.9, linestyle=":")
                at = (0.01, level.auc_mean)
                axes.annotate(
                    level.method,
                    at,
                    xycoords=axes.get_yaxis_transform(),
                    xytext=(0, 2),
                    textcoords="offset points",
                    color=GREY,
                    fontsize=8,
                )
        panels[0][0].set_ylabel("test AUC")
        return save(figure, place)


def _panel(axes: Axes, found: list[Row], varies: str) -> None:
    stops = sorted({float(at) for row in found if (at := column(row, varies)) is not None})
    has_twin = varies == "epsilon" and any(row.epsilon is None for row in found)
    twin = stops[-1] * (stops[-1] / stops[-2] if len(stops) > 1 else 2) ** 1.2 if has_twin else None
    ends = []
    for method in dict.fromkeys(row.method for row in found):
        own = {column(row, varies): row for row in found if row.method == method}
        here = [stop for stop in stops if stop in own]
        means = np.array([own[stop].auc_mean for stop in here])
        spread = np.array([own[stop].auc_sd or 0.0 for stop in here])
        axes.plot(here, means, marker="o", color=colour(method), clip_on=False, zorder=3)
        axes.fill_between(here, means - spread, means + spread, color=colour(method), alpha=0.12, linewidth=0)
        last = means[-1]
        if twin is not None and None in own:
            last = own[None].auc_mean
            axes.plot([here[-1], twin], [means[-1], last], color=colour(method), linestyle=":", linewidth=1)
            axes.plot([twin], [last], marker="o", color=colour(method), clip_on=False, zorder=3)
        printed = [(stop, auc) for stop in here if (auc := own[stop].paper_auc) is not None]
        if printed and found[0].preset == "paper":
            axes.plot(*zip(*printed, strict=True), "o", mfc="white", mec=colour(method), markersize=5, zorder=4)
        ends.append((float(last), method, colour(method)))
    if varies == "epsilon":
        budget_axis(axes, stops, twin)
    else:
        if varies != "alpha":
            axes.set_xscale("log")
            axes.minorticks_off()
        axes.set_xticks(stops, [heading(stop, varies) for stop in stops])
        axes.set_xlabel(NAMES.get(varies, varies))
    label_ends(axes, ends, twin if twin is not None else stops[-1])
    if any(row.paper_auc is not None for row in found) and found[0].preset == "paper":
        axes.annotate("hollow: printed in the paper", (0.98, 0.03), xycoords="axes fraction", ha="right", color=GREY)
