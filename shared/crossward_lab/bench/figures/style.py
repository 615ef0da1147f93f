"""One look for all figures: a colour per method that stays the same, and names at the ends of lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from crossward_lab.bench.tables import heading

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
