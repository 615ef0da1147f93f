"""`crossward simulate` and `crossward audit`, which need the laboratory."""

from __future__ import annotations

import os
from dataclasses import asdict
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from crossward.errors import InvalidSetting
from crossward_cli.options import Json, Workers
from crossward_cli.output import clock_bar, print_json, say

if TYPE_CHECKING:
    from crossward_lab.audit.report import AuditReport
    from crossward_lab.simulate.comparison import MethodResult

EPSILONS = (0.1, 0.3, 1.0, 3.0)


# -- simulate -------------------------------------------------------------------------------------------------------
def simulate(
    json: Json = False,
    branches: Annotated[int, typer.Option(min=1, max=16, help="How many branch hospitals take part.")] = 4,
    repeats: Annotated[int, typer.Option(min=1, max=50, help="Average over this many runs.")] = 3,
    seed: Annotated[int | None, typer.Option(help="Repeat exactly; the releases are then marked as seeded.")] = None,
) -> None:
    """The library alone on simulated hospitals: every method side by side, at a few epsilons."""
    from crossward.privacy.noise import as_randomness
    from crossward_lab.simulate.comparison import compare
    from crossward_lab.simulate.hospitals import Federation

    with clock_bar() as bar:
        task = bar.add_task("simulating hospitals", total=None)
        federation = Federation.simulate(branches=branches, seed=seed or 0)
        bar.update(task, description="learning")
        results = compare(
            federation,
            EPSILONS,
            repeats,
            randomness=as_randomness(seed),
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    if json:
        print_json({"seeded": seed is not None, "repeats": repeats, "rows": [asdict(result) for result in results]})
        return
    sizes = ", ".join(f"{len(site.labels):,}" for site in federation.branches)
    say(
        f"A main hospital of {len(federation.main.labels):,} simulated patients, {branches} branches of {sizes}.\n"
        "They share no records: the main hospital publishes noisy weights, a branch learns from them.\n"
    )
    console = Console()
    console.print(_by_method(results))
    console.print(_by_branch(results))
    noise = "a seeded generator" if seed is not None else "the operating system: run it again"
    say(
        f"AUC on held-out patients, mean of {repeats} runs; fresh noise from {noise}.\n"
        "At each epsilon every hospital pays that epsilon once per method."
    )


def _by_method(results: list[MethodResult]) -> Table:
    from crossward.planning.methods import METHODS

    table = Table(title="Mean AUC over the branches", title_justify="left")
    table.add_column("how a branch learns", no_wrap=True)
    for epsilon in EPSILONS:
        table.add_column(f"eps {epsilon:g}", justify="right")
    table.add_column("non-private", justify="right")
    for method, name in METHODS.items():
        cells = [_shade(_mean_auc(results, method, epsilon)) for epsilon in EPSILONS]
        table.add_row(name, *cells, f"{_mean_auc(results, method, None):.3f}")
    return table


def _by_branch(results: list[MethodResult]) -> Table:
    table = Table(title="Each branch at eps 1", title_justify="left")
    table.add_column("hospital")
    for heading in ("records", "alone", "transfer", "both", "non-private"):
        table.add_column(heading, justify="right")
    for branch, records in dict.fromkeys((result.branch, result.records) for result in results):
        cells = [_shade(_mean_auc(results, method, 1.0, branch)) for method in ("Direct", "SimComb", "PST-H (W)")]
        table.add_row(branch, f"{records:,}", *cells, f"{_mean_auc(results, 'SimComb', None, branch):.3f}")
    return table


def _mean_auc(results: list[MethodResult], method: str, epsilon: float | None, branch: str | None = None) -> float:
    return fmean(r.auc for r in results if (r.method, r.epsilon) == (method, epsilon) and branch in (None, r.branch))


def _shade(auc: float) -> str:
    colour = "green" if auc >= 0.74 else "yellow" if auc >= 0.65 else "red"
    return f"[{colour}]{auc:.3f}[/]"


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
