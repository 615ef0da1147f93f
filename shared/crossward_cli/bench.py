"""`crossward bench speed`: what is being fitted while it runs, then a table with ratios."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from crossward_lab.bench.speed import SpeedReport, speed


def show_speed(
    *, sizes: Sequence[int], features: int, repeats: int, threads: int | None, peers: bool, as_json: bool
) -> None:
    """Run and show."""
    with Console(stderr=True).status("starting") as status:
        report = speed(sizes, features, repeats, threads, peers, status.update)
    if as_json:
        print(json.dumps(report.describe(), indent=2))
    else:
        _table(report, Console())


def _table(report: SpeedReport, console: Console) -> None:
    table = Table(
        title=f"d = {report.features}, {report.threads} threads, median of {report.repeats} interleaved repeats",
        title_justify="left",
    )
    table.add_column("n", justify="right")
    table.add_column("fit")
    for heading in ("seconds", "x ours", "gradient", "memory/X", "floor"):
        table.add_column(heading, justify="right")
    last = None
    for row in report.rows:
        if last not in (None, row.n):
            table.add_section()
        table.add_row(
            f"{row.n:,}" if row.n != last else "",
            row.method + (" (private)" if row.private else ""),
            f"{row.seconds:.4f}",
            f"{row.times_ours:.2f}",
            f"{row.gradient:.1e}",
            f"{row.memory:.3f}",
            "" if row.floor is None else f"{row.floor:.4f}",
        )
        last = row.n
    console.print(table)
    console.print(
        "x ours: times the private fit with one group. gradient: norm where it stopped, of the sum over records.\n"
        "memory/X: peak beyond the records, as a share of them. floor: seconds to read them as often as we do.",
        highlight=False,
    )
    for note in report.notes:
        console.print(note, highlight=False)
