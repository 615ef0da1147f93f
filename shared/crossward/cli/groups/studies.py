"""`crossward study`: from a file to an ended study (lead)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crossward.cli.groups.options import LOOPBACK_COORDINATOR, Ca, Coordinator, Json, Token

group = typer.Typer(help="Studies: check a file, create, start, watch, cancel.", no_args_is_help=True)
File = Annotated[Path, typer.Argument(help="A study file (YAML).")]
Study = Annotated[str, typer.Argument(help="The study's id.")]


@group.command("check")
def check(file: File, json: Json = False) -> None:
    """Check a study file; every problem at once, each with its line and field. Needs no coordinator."""
    from crossward.cli.study import show_check

    show_check(file, as_json=json)


@group.command("example")
def example(
    data: Annotated[
        Path | None, typer.Option(help="Write a study with records of simulated hospitals into this folder.")
    ] = None,
) -> None:
    """Print a study to start from, or write one with simulated records to try it on."""
    from crossward.cli.study import show_example, write_example

    if data is None:
        show_example()
    else:
        write_example(data)


@group.command("create")
def create(file: File, token: Token, coordinator: Coordinator = LOOPBACK_COORDINATOR, ca: Ca = None) -> None:
    """Check a study file and store it at the coordinator."""
    from crossward.cli.people import at_coordinator
    from crossward.cli.study import read_study

    study = read_study(file)
    with at_coordinator(coordinator, token, ca) as client:
        made = client.create(study.to_yaml())
    print(f"{made['id']} is {made['state']}, digest {made['digest']}.")


@group.command("list")
def list_studies(
    token: Token, coordinator: Coordinator = LOOPBACK_COORDINATOR, ca: Ca = None, json: Json = False
) -> None:
    """Every study, with its state."""
    from crossward.cli.people import at_coordinator, show_studies

    with at_coordinator(coordinator, token, ca) as client:
        show_studies(client, as_json=json)


@group.command("show")
def show(
    study: Study, token: Token, coordinator: Coordinator = LOOPBACK_COORDINATOR, ca: Ca = None, json: Json = False
) -> None:
    """A study's state, its tasks, and whom it waits for."""
    from crossward.cli.people import at_coordinator, show_study

    with at_coordinator(coordinator, token, ca) as client:
        show_study(client, study, as_json=json)


@group.command("start")
def start(study: Study, token: Token, coordinator: Coordinator = LOOPBACK_COORDINATOR, ca: Ca = None) -> None:
    """Give the parties their tasks."""
    from crossward.cli.people import at_coordinator

    with at_coordinator(coordinator, token, ca) as client:
        started = client.start(study)
    print(f"{started['id']} is {started['state']}; watch it with: crossward study watch {study}")


@group.command("watch")
def watch(
    study: Study, token: Token, coordinator: Coordinator = LOOPBACK_COORDINATOR, ca: Ca = None, json: Json = False
) -> None:
    """Follow a study until it ends."""
    from crossward.cli.people import at_coordinator, watch_study

    with at_coordinator(coordinator, token, ca) as client:
        watch_study(client, study, as_json=json)


@group.command("cancel")
def cancel(
    study: Study,
    token: Token,
    reason: Annotated[str, typer.Option(help="Everyone may read it.")] = "",
    coordinator: Coordinator = LOOPBACK_COORDINATOR,
    ca: Ca = None,
) -> None:
    """End a study. Charges stand; what comes later is refused."""
    from crossward.cli.people import at_coordinator

    with at_coordinator(coordinator, token, ca) as client:
        print(f"{study} is {client.cancel(study, reason)['state']}.")


@group.command("certificate")
def certificate(
    study: Study, token: Token, coordinator: Coordinator = LOOPBACK_COORDINATOR, ca: Ca = None, json: Json = False
) -> None:
    """The privacy certificate of a study that has ended: a text, or signed JSON."""
    from crossward.cli.people import at_coordinator
    from crossward.cli.render import print_json

    with at_coordinator(coordinator, token, ca) as client:
        if json:
            print_json(client.certificate(study))
        else:
            print(client.certificate_text(study))
