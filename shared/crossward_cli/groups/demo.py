"""`crossward demo`: a whole federation to look at, on this machine or in containers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crossward_cli.groups.options import LOOPBACK_COORDINATOR, Ca, Coordinator, Json

group = typer.Typer(
    help="A coordinator and hospitals as real services: a study from file to predictions.",
    invoke_without_command=True,
)
Method = Annotated[str, typer.Option(help="How branches learn from the main hospital: auto, simcomb or pst-h.")]
Epsilon = Annotated[float, typer.Option(help="What each study costs each patient.")]
Seed = Annotated[int, typer.Option(help="Which hospitals are simulated; the noise is always fresh.")]


@group.callback()
def demo(
    context: typer.Context,
    json: Json = False,
    branches: Annotated[int, typer.Option(min=1, max=16, help="How many branch hospitals take part.")] = 4,
    everyone: Annotated[bool, typer.Option("--all", help="All 16 branches.")] = False,
    method: Method = "auto",
    epsilon: Epsilon = 0.03,
    seed: Seed = 0,
    folder: Annotated[Path | None, typer.Option("--dir", help="Keep everything in this folder.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the services running until Ctrl-C.")] = False,
) -> None:
    """A coordinator and hospitals as real services on this machine: a study from file to predictions."""
    if context.invoked_subcommand is not None:
        return
    from crossward_cli.demo import show_demo

    show_demo(
        branches=16 if everyone else branches,
        method=method,
        epsilon=epsilon,
        seed=seed,
        folder=folder,
        keep=keep,
        as_json=json,
    )


@group.command()
def records(
    hospital: Annotated[str, typer.Argument(help="main, or branch-1 to branch-16.")],
    file: Annotated[Path, typer.Argument(help="The CSV to write; one that is there stays.")],
    seed: Seed = 0,
) -> None:
    """Write the records of one simulated hospital. None of the patients is real."""
    from crossward_cli.demo import write_records

    write_records(hospital, file, seed)


@group.command()
def study(
    sites: Annotated[list[str], typer.Argument(help="NAME=ADDRESS of each hospital's service; main is the source.")],
    tokens: Annotated[Path, typer.Option(help="The tokens: coordinator/operator, lead, auditor; NAME/steward.")],
    records: Annotated[Path, typer.Option(help="The hospital's records, as its own service sees them.")],
    coordinator: Coordinator = LOOPBACK_COORDINATOR,
    ca: Ca = None,
    method: Method = "auto",
    epsilon: Epsilon = 0.03,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Invite, join, connect and run the demonstration's studies where the services run already; prints the table."""
    from crossward_cli.demo import play_study

    play_study(
        sites,
        coordinator=coordinator,
        tokens=tokens,
        records=records,
        ca=ca,
        method=method,
        epsilon=epsilon,
        seed=seed,
        as_json=json,
    )
