"""`crossward`: wires the commands. Arguments are in groups/; what a command does it loads when it is called."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape

from crossward.errors import CrosswardError, StudyInvalid
from crossward.version import __version__
from crossward_cli.groups import benchmarks, demo, parties, planning, services, setup, site, studies
from crossward_cli.groups.options import (
    LOOPBACK_COORDINATOR,
    LOOPBACK_TARGET,
    Ca,
    Coordinator,
    DataDir,
    Json,
    SiteToken,
    SiteUrl,
    Token,
)

commands = typer.Typer(
    help="Hospitals learn from one another under differential privacy.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
)
ledger = typer.Typer(help="Ledgers: export, read, and verify them offline.", no_args_is_help=True)
for role in ("coordinator", "source", "target"):
    commands.add_typer(services.service(role), name=role)
commands.add_typer(demo.group, name="demo")
commands.add_typer(parties.group, name="party")
commands.add_typer(studies.group, name="study")
commands.add_typer(site.group, name="site")
commands.add_typer(ledger, name="ledger")
commands.add_typer(benchmarks.group, name="bench")
commands.command()(planning.plan)
benchmarks.group.command()(planning.forecast)
commands.command()(setup.tls)
commands.command()(setup.secret)

Seed = Annotated[int | None, typer.Option(help="Repeat exactly; the releases are then marked as seeded.")]
Study = Annotated[str, typer.Argument(help="The study's id.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@commands.callback()
def crossward(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Every command takes --help."""


@commands.command()
def version() -> None:
    """Print the version."""
    print(__version__)


@commands.command()
def simulate(
    json: Json = False,
    branches: Annotated[int, typer.Option(min=1, max=16, help="How many branch hospitals take part.")] = 4,
    repeats: Annotated[int, typer.Option(min=1, max=50, help="Average over this many runs.")] = 3,
    seed: Seed = None,
) -> None:
    """The library alone on simulated hospitals: every method side by side, at a few epsilons."""
    from crossward_cli.simulate import show_simulation

    show_simulation(branches=branches, repeats=repeats, seed=seed, as_json=json)


@commands.command()
def audit(
    json: Json = False,
    quick: Annotated[bool, typer.Option("--quick", help="The short version, under a minute.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes to use; all cores by default.")] = None,
    seed: Annotated[int | None, typer.Option(help="Repeat the same audit.")] = None,
) -> None:
    """Put every mechanism to the test, and the test itself: planted faults must be caught."""
    from crossward_cli.audit import show_audit

    if not show_audit(quick=quick, workers=workers, seed=seed, as_json=json):
        raise typer.Exit(1)


@commands.command()
def doctor(
    role: Annotated[
        Literal["coordinator", "source", "target"] | None,
        typer.Argument(help="Which service; by default the one whose data directory it is."),
    ] = None,
    data_dir: DataDir = None,
    coordinator: Annotated[
        str | None,
        typer.Option(envvar="CROSSWARD_COORDINATOR", help="Where to look for one before the site has joined."),
    ] = None,
    json: Json = False,
) -> None:
    """Examine a service on its own machine, running or not: what is wrong, and what to fix. It changes nothing."""
    from crossward_cli.upkeep import show_examination

    if not show_examination(role, data_dir, coordinator, as_json=json):
        raise typer.Exit(1)


@commands.command()
def predict(
    study: Study,
    file: Annotated[Path, typer.Argument(help="Records in the study's units: CSV, or JSON (one or a list).")],
    site_token: SiteToken,
    site: SiteUrl = LOOPBACK_TARGET,
    ca: Ca = None,
    json: Json = False,
) -> None:
    """Predict with a target's model, for its own patients."""
    from crossward_cli.steward import at_site, show_predictions

    with at_site(site, site_token, ca) as client:
        show_predictions(client, study, file, as_json=json)


@commands.command()
def evaluate(
    study: Study, site_token: SiteToken, site: SiteUrl = LOOPBACK_TARGET, ca: Ca = None, json: Json = False
) -> None:
    """How well a target's model does on its own holdout. It stays at the site."""
    from crossward_cli.steward import at_site, show_evaluation

    with at_site(site, site_token, ca) as client:
        show_evaluation(client, study, as_json=json)


@commands.command("release-auc")
def release_auc(
    study: Study,
    epsilon: Annotated[float, typer.Option(help="What each person of the holdout pays for it.")],
    site_token: SiteToken,
    site: SiteUrl = LOOPBACK_TARGET,
    ca: Ca = None,
    json: Json = False,
) -> None:
    """Release a target's AUC on its holdout with noise, paid for: this number may leave the house."""
    from crossward_cli.render import tell
    from crossward_cli.steward import at_site

    with at_site(site, site_token, ca) as client:
        paid = client.release_auc(study, epsilon)
    noise = f"give or take {paid['deviation']:.3f} of noise"
    line = f"AUC {paid['auc']:.3f}, {noise}. Paid with epsilon {epsilon:g}: it may leave the house."
    tell(paid, line, as_json=json)


@ledger.command("export")
def ledger_export(
    file: Annotated[Path, typer.Argument(help="Where to write it.")],
    site_token: SiteToken,
    site: SiteUrl = LOOPBACK_TARGET,
    ca: Ca = None,
) -> None:
    """Write your site's ledger to a file that anyone can verify."""
    from crossward_cli.steward import at_site, export_ledger

    with at_site(site, site_token, ca) as client:
        export_ledger(client, file)


@ledger.command("mirror")
def ledger_mirror(
    party: Annotated[str, typer.Argument(help="Whose ledger.")],
    file: Annotated[Path, typer.Argument(help="Where to write it.")],
    token: Token,
    coordinator: Coordinator = LOOPBACK_COORDINATOR,
    ca: Ca = None,
    json: Json = False,
) -> None:
    """Write the coordinator's mirror of a party's ledger to a file that anyone can verify (auditor)."""
    from crossward_cli.people import at_coordinator, export_mirror

    with at_coordinator(coordinator, token, ca) as client:
        export_mirror(client, party, file, as_json=json)


@ledger.command("show")
def ledger_show(file: Annotated[Path, typer.Argument(help="An exported ledger.")], json: Json = False) -> None:
    """Every line of an exported ledger."""
    from crossward_cli.ledger import show_lines

    show_lines(file, as_json=json)


@ledger.command("verify")
def ledger_verify(
    file: Annotated[Path, typer.Argument(help="An exported ledger.")],
    head: Annotated[str | None, typer.Option(help="The head it must end at, NUMBER:HASH, from a receipt.")] = None,
    json: Json = False,
) -> None:
    """Verify an exported ledger offline: every hash, rule and balance; names the first line that is wrong."""
    from crossward_cli.ledger import show_verified

    show_verified(file, head, as_json=json)


def app() -> None:
    """The entry point: our own errors become one line and exit code 2, everything else is a bug and shows itself."""
    try:
        commands()
    except CrosswardError as error:
        console = Console(stderr=True)
        console.print(f"[bold red]error[/] {type(error).__name__}: {escape(error.cause)}", highlight=False)
        if isinstance(error, StudyInvalid):
            for problem in error.problems:
                console.print(f"  {escape(str(problem))}", highlight=False)
        elif error.fix:
            console.print(f"  [bold]fix[/] {escape(error.fix)}", highlight=False)
        sys.exit(2)
