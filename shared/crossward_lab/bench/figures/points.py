"""A dot per part: ways to combine level-0 models, or single sites."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from crossward_lab.bench.figures.style import BLACK, GREY, LOOK, colour, save
from crossward_lab.bench.rows import Row

SHOWN = (("SimComb", "default"), ("Direct", "default"), ("PST-H (W)", "default"), ("PST-H (W)", "paper"))


def draw_combiners(found: list[Row], place: Path) -> Path:
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


def draw_sites(found: list[Row], place: Path) -> Path:
    """Each target at epsilon 1: what it reaches alone, with the source, and what the papers print."""
    sites = list(dict.fromkeys(row.site for row in found))
    with plt.rc_context(LOOK | {"axes.grid.axis": "x"}):
        figure, axes = plt.subplots(figsize=(7.2, 0.27 * len(sites) + 1.3), layout="constrained")
        for method, preset in SHOWN:
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
