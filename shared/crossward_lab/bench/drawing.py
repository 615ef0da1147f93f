"""Figures like the papers', with matplotlib: one look for all, a colour per method, and names at the ends of lines.

`draw_setting`: a line per method over what varies, a panel per preset (000 Figures 1, 2; 002 Figures 3, 4; 004
Figure 3). `draw_combiners` (000 Figure 3) and `draw_sites` (002 Table 4): a dot per part. `draw_budget`: what a smaller
budget costs, on all data in one picture, ours beside the papers' best.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from crossward_lab.bench.measurements import Measurement
from crossward_lab.bench.tables import column, heading, varied

GREY, BLACK = "#6e6e6e", "#222222"
COLOURS = {
    "Direct": GREY,
    "SourceD": "#E69F00",
    "SimComb": "#D55E00",
    "SimComb, directed": "#A03000",
    "PST-S": "#CC79A7",
    "PST-F (U)": "#009E73",
    "PST-H (U)": "#009E73",
    "PST-F (W)": "#0072B2",
    "PST-H (W)": "#0072B2",
    "average": GREY,
    "feature method": "#0072B2",
    "boosted DPPSGD": "#D55E00",
    "boosted DPPSGD, printed noise": "#CC79A7",
    "alone DPPSGD": "#E69F00",
    "boosted AMP": "#0072B2",
    "alone AMP": "#56B4E9",
    "boosted PLR": "#009E73",
    "alone PLR": GREY,
}
"""Colours that people with any colour vision tell apart (Okabe and Ito)."""

LOOK: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#e6e6e6",
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": BLACK,
    "ytick.labelcolor": BLACK,
    "lines.linewidth": 1.8,
    "lines.markersize": 4,
    "svg.fonttype": "none",
    "svg.hashsalt": "crossward",
    "figure.dpi": 100,
}


def colour(method: str) -> str:
    """A method's colour."""
    return COLOURS.get(method, BLACK)


def save(figure: Figure, place: Path, dpi: int = 100) -> Path:
    """PNG and SVG, without dates: the same numbers give the same files."""
    png, svg = place.with_name(f"{place.name}.png"), place.with_name(f"{place.name}.svg")
    figure.savefig(png, dpi=dpi, metadata={"Software": None}, bbox_inches="tight", pil_kwargs={"optimize": True})
    figure.savefig(svg, metadata={"Date": None, "Creator": "crossward bench"}, bbox_inches="tight")
    plt.close(figure)
    return png


def label_ends(axes: Axes, ends: list[tuple[float, str, str]], x: float) -> None:
    """Names beside the ends of lines at x, moved apart where they would overlap: (y, name, colour) each."""
    low, high = axes.get_ylim()
    room = (high - low) * 13.5 / (axes.get_window_extent().height * 72 / axes.figure.dpi)
    at = float("-inf")
    placed = []
    for y, name, ink in sorted(ends):
        at = max(y, at + room)
        placed.append((at, y, name, ink))
    over = max(0.0, placed[-1][0] - high) if placed else 0.0
    for level, y, name, ink in placed:
        axes.annotate(
            name,
            xy=(x, y),
            xytext=(7, (level - over - y) / (high - low) * axes.get_window_extent().height * 72 / axes.figure.dpi),
            textcoords="offset points",
            va="center",
            color=ink,
            fontsize=8.5,
            annotation_clip=False,
        )


def budget_axis(axes: Axes, epsilons: list[float], twin: float | None) -> None:
    """Epsilon on a logarithmic axis with its own ticks; the non-private twin stands to the right of all."""
    axes.set_xscale("log", base=2)
    ticks, names = list(epsilons), [heading(epsilon, "epsilon") for epsilon in epsilons]
    if twin is not None:
        ticks, names = [*ticks, twin], [*names, "∞"]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(ticks, names)
    axes.set_xlabel("privacy budget ε (smaller is more private)")


PANELS = {"paper": "as printed", "default": "our defaults"}
AXIS_NAMES = {"K": "groups of features K", "alpha": "importance falls as αⁱ", "m": "records per site m", "N": "sites N"}


def draw_setting(found: list[Measurement], place: Path, levels: list[Measurement]) -> Path:
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
            _setting_panel(axes, [row for row in found if row.preset == preset], varies)
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


def _setting_panel(axes: Axes, found: list[Measurement], varies: str) -> None:
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
        axes.set_xlabel(AXIS_NAMES.get(varies, varies))
    label_ends(axes, ends, twin if twin is not None else stops[-1])
    if any(row.paper_auc is not None for row in found) and found[0].preset == "paper":
        axes.annotate("hollow: printed in the paper", (0.98, 0.03), xycoords="axes fraction", ha="right", color=GREY)


SITE_METHODS = (("SimComb", "default"), ("Direct", "default"), ("PST-H (W)", "default"), ("PST-H (W)", "paper"))


def draw_combiners(found: list[Measurement], place: Path) -> Path:
    """000 Figure 3: each level-0 model alone, and every way to combine them."""
    presets = [preset for preset in ("paper", "default") if any(row.preset == preset for row in found)]
    names = [f"C-{k}" for k in range(5)] + ["C-mv", "C-wmv", "C-hl"]
    with plt.rc_context(LOOK):
        figure, panels = plt.subplots(
            1, len(presets), figsize=(5.0 * len(presets), 3.2), sharey=True, squeeze=False, layout="constrained"
        )
        for axes, preset in zip(panels[0], presets, strict=True):
            for shift, method in ((-0.12, "PST-F (U)"), (0.12, "PST-F (W)")):
                own = {row.combiner: row for row in found if (row.method, row.preset) == (method, preset)}
                here = [i for i, name in enumerate(names) if name in own]
                axes.errorbar(
                    np.array(here) + shift,
                    [own[names[i]].auc_mean for i in here],
                    yerr=[own[names[i]].auc_sd or 0.0 for i in here],
                    fmt="o",
                    color=colour(method),
                    label=method,
                    markersize=5,
                    linewidth=1.2,
                )
            axes.axvspan(4.5, 7.5, color="#f4f4f4", zorder=0)
            axes.set_xticks(range(len(names)), names)
            title = "as printed, λ best in hindsight" if preset == "paper" else "our defaults"
            axes.set_title(f"{found[0].dataset}, ε = {found[0].epsilon:g}: {title}")
            axes.set_xlabel("one group alone, the most important first  |  combined")
        panels[0][0].set_ylabel("test AUC")
        panels[0][0].legend(frameon=False, loc="upper center", ncols=2)
        return save(figure, place)


def draw_sites(found: list[Measurement], place: Path) -> Path:
    """Each target at epsilon 1: what it reaches alone, with the source, and what the papers print."""
    sites = list(dict.fromkeys(row.site for row in found))
    with plt.rc_context(LOOK | {"axes.grid.axis": "x"}):
        figure, axes = plt.subplots(figsize=(7.2, 0.27 * len(sites) + 1.3), layout="constrained")
        for method, preset in SITE_METHODS:
            own = {row.site: row for row in found if (row.method, row.preset) == (method, preset)}
            filled = preset == "default"
            axes.errorbar(
                [own[site].auc_mean for site in sites],
                range(len(sites)),
                xerr=[own[site].auc_sd or 0.0 for site in sites],
                fmt="o" if filled else "s",
                color=colour(method),
                mfc=colour(method) if filled else "white",
                label=f"{method}, {preset}",
                linewidth=0.8,
                markersize=4.5,
            )
        printed = {row.site: row.paper_auc for row in found if row.method == "PST-H (W)" and row.paper_auc is not None}
        if printed:
            at = [sites.index(site) for site in printed]
            axes.plot(
                list(printed.values()), at, "x", color=BLACK, label="PST-H (W), printed in the paper", markersize=5
            )
        axes.set_yticks(range(len(sites)), [str(site) for site in sites])
        axes.invert_yaxis()
        axes.set_xlabel("test AUC")
        axes.set_title(f"{found[0].dataset}: every target at ε = 1")
        axes.axvline(0.5, color=GREY, linewidth=0.8)
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        return save(figure, place)


OURS, THEIRS = "#D55E00", "#0072B2"

BUDGET_PANELS = (
    ("mnist", "0v8->0v9", "SimComb", "Digits: 0 v 8 helps 0 v 9"),
    ("news20", "sci-talk", "Direct", "Newsgroups: one site"),
    ("brfss", "Washington->16", "SimComb", "Health survey: mean of 16 states"),
    ("ruijin", "main->16", "SimComb", "Simulated hospitals: mean of 16 branches"),
)
"""Data set, setting, the method our rules recommend there, and a title."""


def draw_budget(found: list[Measurement], place: Path) -> Path:
    """A panel per data set."""
    shown = [chosen for chosen in BUDGET_PANELS if any((row.dataset, row.setting) == chosen[:2] for row in found)]
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
            _budget_panel(axes, here, method)
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


def _budget_panel(axes: Axes, here: list[Measurement], method: str) -> None:
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
