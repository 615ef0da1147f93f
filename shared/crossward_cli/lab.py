"""`crossward audit`, which needs the laboratory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from crossward.errors import InvalidSetting
from crossward_cli.options import Json, Workers
from crossward_cli.output import print_json

if TYPE_CHECKING:
    from crossward_lab.audit.report import AuditReport

EPSILONS = (0.1, 0.3, 1.0, 3.0)


# -- audit ----------------------------------------------------------------------------------------------------------
def audit(
    json: Json = False,
    quick: Annotated[bool, typer.Option("--quick", help="The short version, under a minute.")] = False,
    workers: Workers = None,
    seed: Annotated[int | None, typer.Option(help="Repeat the same audit.")] = None,
    only: Annotated[list[str] | None, typer.Option("--only", help="Only these, as the report names them.")] = None,
) -> None:
    """Put every mechanism to the test, and the test itself: planted faults must be caught."""
    from crossward_lab.audit import run
    from crossward_lab.audit.run import CATALOGUE

    if unknown := [name for name in only or () if name not in CATALOGUE]:
        raise InvalidSetting(f"Nothing called {unknown[0]!r} is audited.", f"Known are {', '.join(CATALOGUE)}.")

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

        cores = workers or os.cpu_count() or 1
        report = run(full=not quick, seed=seed, progress=progress, workers=cores, only=only)
    if json:
        print_json(report.describe())
    else:
        _show_audit(report, Console())
    if not report.passed:
        raise typer.Exit(1)


def _show_audit(report: AuditReport, console: Console) -> None:
    """What was claimed beside what was found."""
    mechanisms = _losses("Mechanisms: is the largest loss found within the claim?", "mechanism", "how", "verdict")
    for m in report.mechanisms:
        colour = "green" if m.verdict == "clear" else "bold red"
        mechanisms.add_row(
            m.name, f"{m.claimed_epsilon:.4g}", f"{m.largest_loss:.4f}", m.method, f"[{colour}]{m.verdict}[/]"
        )
    console.print(mechanisms)

    mutants = _losses("Planted faults: would the audit notice?", "mutant", "how", "caught")
    for f in report.mutants:
        caught = "[green]caught[/]" if f.caught else "[bold red]MISSED[/]"
        mutants.add_row(f.name, f"{f.claimed_epsilon:.4g}", f"{f.largest_loss:.4g}", f.method, caught)
    console.print(mutants)

    if report.peers:
        peers = _losses("Public libraries' formulas under the same audit", "library")
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


def _losses(title: str, first: str, *last: str) -> Table:
    """A table of claims and losses, without its rows."""
    table = Table(title=title, title_justify="left")
    for heading in (first, "claimed eps", "largest loss", *last):
        table.add_column(heading, justify="right" if heading in ("claimed eps", "largest loss") else "left")
    return table
