"""`crossward bench forecast`: what `crossward plan` would have said, beside what a benchmark measured."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from crossward.errors import InvalidSetting
from crossward_cli.plan import progress_bar
from crossward_cli.study import read_text
from crossward_lab.bench.forecasts import compare


def show_forecast(dataset: str, measured: Path, repeats: int, workers: int | None, *, as_json: bool) -> None:
    """Forecasts and measurements of a benchmark, side by side."""
    try:
        rows = json.loads(read_text(measured))
    except ValueError:
        raise InvalidSetting(f"{measured} is not JSON.", f"Make it: crossward bench {dataset} --json.") from None
    with progress_bar() as bar:
        task = bar.add_task("simulating hospitals", total=repeats)
        processes = workers or os.cpu_count() or 1
        found = compare(
            dataset,
            rows,
            repeats=repeats,
            workers=processes,
            progress=lambda done, total: bar.update(task, completed=done),
        )
    if as_json:
        plain = [asdict(row.forecast) | {"measured": row.measured, "within": row.within} for row in found]
        print(json.dumps(plain, indent=2))
        return
    table = Table("method", "epsilon", "expected", "band", "measured", "", box=SIMPLE_HEAD)
    for row in found:
        told = row.forecast
        verdict = "[green]within[/]" if row.within else "[yellow]above[/]"
        verdict = "[red]below[/]" if row.measured < told.auc_low else verdict
        band = f"{told.auc_low:.3f} to {told.auc_high:.3f}"
        table.add_row(told.method, f"{told.epsilon:g}", f"{told.auc_mean:.3f}", band, f"{row.measured:.3f}", verdict)
    console = Console()
    console.print(table)
    right = sum(row.within for row in found)
    console.print(f"{right} of {len(found)} measured means lie within the band of the forecast.", highlight=False)
