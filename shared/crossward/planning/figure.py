"""The plan as a picture: expected AUC by epsilon, with the band of the recommended method."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from crossward.errors import InvalidSetting, StorageFailed
from crossward.planning.methods import METHODS
from crossward.planning.outlook import Outlook
from crossward.planning.power import AS_WRITTEN

COLOURS = dict(zip(METHODS, ("#7f7f7f", "#9467bd", "#1f77b4", "#2ca02c", "#ff7f0e"), strict=True))


def check_plot(path: Path | None) -> None:
    """Refuse a picture that could not be drawn, before minutes are spent on it."""
    if path is None:
        return
    if path.suffix not in (".png", ".svg"):
        raise InvalidSetting(f"{path} is neither PNG nor SVG.", "Name it plan.png or plan.svg.")
    if find_spec("matplotlib") is None:
        raise InvalidSetting(
            "Pictures need matplotlib, which is not installed.", 'In a checkout: pip install ".[plots]".'
        )
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise StorageFailed(f"{path} cannot be written.", "Name a file in a directory that exists and is yours.")


def draw(outlook: Outlook, path: Path) -> None:
    """Write the picture."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - optional
    from matplotlib.ticker import NullLocator  # noqa: PLC0415

    figure = Figure(figsize=(7.5, 4.8), layout="constrained")
    axes = figure.subplots()
    for method in outlook.methods:
        curve = outlook.curve(method)
        if not curve:
            continue
        epsilons, own = [row.epsilon for row in curve], method == outlook.recommended
        axes.plot(
            epsilons,
            [row.auc_mean for row in curve],
            marker="o",
            markersize=3,
            linewidth=2.5 if own else 1.2,
            linestyle=":" if method == AS_WRITTEN else "-",
            color=COLOURS.get(method, "black"),
            label=f"{method}, recommended" if own else method,
        )
        if own:
            low, high = [row.auc_low for row in curve], [row.auc_high for row in curve]
            axes.fill_between(epsilons, low, high, color=COLOURS[method], alpha=0.15, linewidth=0)
    axes.axhline(outlook.setting.assumed.nonprivate_auc, color="black", linewidth=0.8, linestyle="--")
    axes.annotate(
        "without noise (assumed)",
        (0.01, outlook.setting.assumed.nonprivate_auc),
        (2, 3),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        fontsize=8,
    )
    if outlook.enough is not None:
        axes.axhline(outlook.enough.auc, color="firebrick", linewidth=0.8, linestyle="-.", label="wanted")
    axes.axvline(outlook.epsilon, color="black", linewidth=0.5, alpha=0.5)
    axes.set_xscale("log")
    axes.set_xticks(outlook.tried)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.margins(y=0.08)
    axes.set_xlabel("epsilon of a target (the line: this study's)")
    axes.set_ylabel("AUC to expect at a target")
    axes.set_title(outlook.study.title, fontsize=10)
    if outlook.forecasts:
        axes.legend(fontsize=8, frameon=False)
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise StorageFailed(f"{path} cannot be written: {error.strerror}.", "Is there room on the disk?") from error
