"""`crossward audit`: a progress bar while it runs, then what was claimed beside what was found."""

from __future__ import annotations

import json
import os

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from crossward_lab.audit import run
from crossward_lab.audit.measures.report import AuditReport


def show_audit(*, quick: bool, workers: int | None, seed: int | None, as_json: bool) -> bool:
    """Run, show, and say whether everything is as it should be."""
    with Progress(
        TextColumn("[bold]audit"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task("", total=None)

        def progress(name: str, done: int, total: int) -> None:
            bar.update(task, description=name, completed=done, total=total)

        report = run(full=not quick, seed=seed, progress=progress, workers=workers or os.cpu_count() or 1)
    if as_json:
        print(json.dumps(report.describe(), indent=2))
    else:
        _tables(report, Console())
    return report.passed


def _tables(report: AuditReport, console: Console) -> None:
    mechanisms = Table(title="Mechanisms: is the largest loss found within the claim?", title_justify="left")
    for heading in ("mechanism", "claimed eps", "largest loss", "how", "verdict"):
        mechanisms.add_column(heading, justify="right" if heading in ("claimed eps", "largest loss") else "left")
    for m in report.mechanisms:
        colour = "green" if m.verdict == "clear" else "bold red"
        mechanisms.add_row(
            m.name, f"{m.claimed_epsilon:.4g}", f"{m.largest_loss:.4f}", m.method, f"[{colour}]{m.verdict}[/]"
        )
    console.print(mechanisms)

    mutants = Table(title="Planted faults: would the audit notice?", title_justify="left")
    for heading in ("mutant", "claimed eps", "largest loss", "how", "caught"):
        mutants.add_column(heading, justify="right" if heading in ("claimed eps", "largest loss") else "left")
    for f in report.mutants:
        caught = "[green]caught[/]" if f.caught else "[bold red]MISSED[/]"
        mutants.add_row(f.name, f"{f.claimed_epsilon:.4g}", f"{f.largest_loss:.4g}", f.method, caught)
    console.print(mutants)

    if report.peers:
        peers = Table(title="Public libraries' formulas under the same audit", title_justify="left")
        for heading in ("library", "claimed eps", "largest loss"):
            peers.add_column(heading, justify="left" if heading == "library" else "right")
        for p in report.peers:
            peers.add_row(p.name, f"{p.claimed_epsilon:.4g}", f"[red]{p.largest_loss:.4g}[/]")
        console.print(peers)

    bad = [m.name for m in report.mechanisms if m.verdict != "clear"]
    missed = [f.name for f in report.mutants if not f.caught]
    if report.passed:
        console.print(
            f"[green]passed[/]: {len(report.mechanisms)} mechanisms clear, {len(report.mutants)} planted faults caught."
        )
    else:
        console.print(f"[bold red]failed[/]: violations {bad or 'none'}; missed faults {missed or 'none'}.")
