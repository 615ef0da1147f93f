"""`crossward simulate`: the library on simulated hospitals, and the services in simulated disasters."""

from __future__ import annotations

import os
from dataclasses import asdict
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from crossward_cli.options import Json, Workers
from crossward_cli.output import clock_bar, print_json, progress_bar, say

if TYPE_CHECKING:
    from crossward_lab.disasters.history import Outcome
    from crossward_lab.simulate.comparison import MethodResult

EPSILONS = (0.1, 0.3, 1.0, 3.0)

group = typer.Typer(
    help="Simulated hospitals: every method side by side; or the services, in thousands of disasters.",
    invoke_without_command=True,
)


@group.callback()
def simulate(
    context: typer.Context,
    json: Json = False,
    branches: Annotated[int, typer.Option(min=1, max=16, help="How many branch hospitals take part.")] = 4,
    repeats: Annotated[int, typer.Option(min=1, max=50, help="Average over this many runs.")] = 3,
    seed: Annotated[int | None, typer.Option(help="Repeat exactly; the releases are then marked as seeded.")] = None,
) -> None:
    """The library alone on simulated hospitals: every method side by side, at a few epsilons."""
    if context.invoked_subcommand is not None:
        return
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


# -- disasters --------------------------------------------------------------------------------------------------------
@group.command()
def disasters(
    json: Json = False,
    histories: Annotated[int, typer.Option(min=1, max=10_000_000, help="How many, one per seed.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 1,
    replay: Annotated[bool, typer.Option("--replay", help="Tell the history of --seed alone, line by line.")] = False,
    planted: Annotated[str | None, typer.Option(help="Plant a fault first, by name: it must be found.")] = None,
    workers: Workers = None,
) -> None:
    """The real services in simulated disasters: one seed is one history, and a seed that fails replays exactly."""
    from crossward_lab.disasters.campaign import campaign, tell

    if replay:
        _show_history(tell(seed, planted), as_json=json)
        return
    failed: list[Outcome] = []
    steps = releases = 0
    with progress_bar() as bar:
        task = bar.add_task("histories", total=histories)
        told = campaign(range(seed, seed + histories), workers or os.cpu_count() or 1, planted)
        for done, outcome in enumerate(told, 1):
            steps, releases = steps + outcome.steps, releases + outcome.releases
            if not outcome.passed:
                failed.append(outcome)
            bar.update(task, advance=1, description=f"histories, {len(failed)} failed" if failed else "histories")
            if not bar.console.is_terminal and 10 * done // histories > 10 * (done - 1) // histories:
                text = f"{done:,} of {histories:,} histories, {len(failed):,} failed"
                bar.console.print(text, highlight=False, soft_wrap=True)
    if json:
        found = [{"seed": one.seed, "violations": list(one.violations), "disasters": list(one.kinds)} for one in failed]
        totals = {"commits": steps, "releases": releases, "planted": planted}
        print_json({"histories": histories, "first_seed": seed, **totals, "failed": found})
    else:
        _show_campaign(failed, histories, seed, steps, releases, planted)
    if failed:
        raise typer.Exit(1)


def _show_campaign(
    failed: list[Outcome], histories: int, seed: int, steps: int, releases: int, planted: str | None
) -> None:
    for outcome in failed[:10]:
        say(f"[bold red]seed {outcome.seed}[/]: {outcome.violations[0].splitlines()[-1]}", wrap=False)
    if len(failed) > 10:
        say(f"... and {len(failed) - 10} more")
    colour = "bold red" if failed else "green"
    say(
        f"{histories:,} histories from seed {seed}: {steps:,} commits, {releases:,} releases, "
        f"[{colour}]{len(failed):,} failed[/]."
    )
    if failed:
        with_fault = f" --planted {planted}" if planted else ""
        say(f"Replay one: crossward simulate disasters --replay --seed {failed[0].seed}{with_fault}", wrap=False)


def _show_history(outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(outcome) | {"trace": outcome.trace})
    else:
        print("\n".join(outcome.story))
        ended = ", ".join(f"{count} {state}" for state, count in outcome.studies.items()) or "none started"
        verdict = "[green]passed[/]" if outcome.passed else f"[bold red]{outcome.violations[0].splitlines()[-1]}[/]"
        say(
            f"\nseed {outcome.seed}: {verdict}\nStudies: {ended}; {outcome.steps:,} commits, "
            f"{outcome.releases} releases, {outcome.seconds:,.0f} simulated seconds; trace {outcome.trace[:16]}."
        )
    if not outcome.passed:
        raise typer.Exit(1)
