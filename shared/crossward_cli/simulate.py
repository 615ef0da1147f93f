"""`crossward simulate`: the library alone on simulated hospitals, every method side by side."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from crossward.planning.methods import METHODS
from crossward.privacy.noise import as_randomness
from crossward_lab.simulate.comparison import Row, compare
from crossward_lab.simulate.hospitals import Federation

EPSILONS = (0.1, 0.3, 1.0, 3.0)


def show_simulation(*, branches: int, repeats: int, seed: int | None, as_json: bool) -> None:
    """Simulate, compare, show."""
    with Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task("simulating hospitals", total=None)
        federation = Federation.simulate(branches=branches, seed=seed or 0)
        bar.update(task, description="learning")
        rows = compare(
            federation,
            EPSILONS,
            repeats,
            randomness=as_randomness(seed),
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    if as_json:
        print(json.dumps({"seeded": seed is not None, "repeats": repeats, "rows": [asdict(row) for row in rows]}))
        return
    console = Console()
    sizes = ", ".join(f"{len(site.labels):,}" for site in federation.branches)
    console.print(
        f"A main hospital of {len(federation.main.labels):,} simulated patients, {branches} branches of {sizes}.\n"
        "They share no records: the main hospital publishes noisy weights, a branch learns from them.\n",
        highlight=False,
    )
    console.print(_by_method(rows))
    console.print(_by_branch(rows))
    noise = "a seeded generator" if seed is not None else "the operating system: run it again"
    console.print(
        f"AUC on held-out patients, mean of {repeats} runs; fresh noise from {noise}.\n"
        "At each epsilon every hospital pays that epsilon once per method.",
        highlight=False,
    )


def _auc(rows: list[Row], method: str, epsilon: float | None, branch: str | None = None) -> float:
    found = [r.auc for r in rows if r.method == method and r.epsilon == epsilon and branch in (None, r.branch)]
    return float(np.mean(found))


def _by_method(rows: list[Row]) -> Table:
    table = Table(title="Mean AUC over the branches", title_justify="left")
    table.add_column("how a branch learns", no_wrap=True)
    for epsilon in EPSILONS:
        table.add_column(f"eps {epsilon:g}", justify="right")
    table.add_column("non-private", justify="right")
    for method, name in METHODS.items():
        cells = [_shade(_auc(rows, method, epsilon)) for epsilon in EPSILONS]
        table.add_row(name, *cells, f"{_auc(rows, method, None):.3f}")
    return table


def _by_branch(rows: list[Row]) -> Table:
    table = Table(title="Each branch at eps 1", title_justify="left")
    table.add_column("hospital")
    for heading in ("records", "alone", "transfer", "both", "non-private"):
        table.add_column(heading, justify="right")
    for branch, records in dict.fromkeys((r.branch, r.records) for r in rows):
        cells = [_shade(_auc(rows, method, 1.0, branch)) for method in ("Direct", "SimComb", "PST-H (W)")]
        table.add_row(branch, f"{records:,}", *cells, f"{_auc(rows, 'SimComb', None, branch):.3f}")
    return table


def _shade(auc: float) -> str:
    colour = "green" if auc >= 0.74 else "yellow" if auc >= 0.65 else "red"
    return f"[{colour}]{auc:.3f}[/]"
