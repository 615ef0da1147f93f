"""`crossward study`: from a file to an ended study (lead)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crossward_cli.groups.options import LOOPBACK_COORDINATOR, Ca, Coordinator, Json, Token

group = typer.Typer(help="Studies: check a file, create, start, watch, cancel.", no_args_is_help=True)
File = Annotated[Path, typer.Argument(help="A study file (YAML).")]
Study = Annotated[str, typer.Argument(help="The study's id.")]


@group.command("check")
def check(file: File, json: Json = False) -> None:
    """Check a study file; every problem at once, each with its line and field. Needs no coordinator."""
    from crossward_cli.study import show_check

    show_check(file, as_json=json)


@group.command("example")
def example(
    data: Annotated[
        Path | None, typer.Option(help="Write a study with records of simulated hospitals into this folder.")
    ] = None,
) -> None:
    """Print a study to start from, or write one with simulated records to try it on."""
    from crossward_cli.study import show_example, write_example

    if data is None:
        show_example()
    else:
        write_example(data)


@group.command("create")
def create(
    file: File, token: Token, coordinator: Coordinator = LOOPBACK_COORDINATOR, ca: Ca = None, json: Json = False
) -> None:
    """Check a study file and store it at the coordinator."""
    from crossward_cli.people import at_coordinator
    from crossward_cli.render import tell
    from crossward_cli.study import read_study

    study = read_study(file)
    with at_coordinator(coordinator, token, ca) as client:
        made = client.create(study.to_yaml())
    tell(made, f"{made['id']} is {made['state']}, digest {made['digest']}.", as_json=json)


@group.command("list")
def list_studies(
    token: Token, coordinator: Coordinator = LOOPBACK_COORDINATOR, ca: Ca = None, json: Json = False
) -> None:
    """Every study, with its state."""
    from crossward_cli.people import at_coordinator, show_studies

    with at_coordinator(coordinator, token, ca) as client:
        show_studies(client, as_json=json)


@group.command("show")
def show(
    study: Study, token: Token, coordinator: Coordinator = LOOPBACK_COORDINATOR, ca: Ca = None, json: Json = False
) -> None:
    """A study's state, its tasks, and whom it waits for."""
    from crossward_cli.people import at_coordinator, show_study

    with at_coordinator(coordinator, token, ca) as client:
        show_study(client, study, as_json=json)


@group.command("public-set")
def public_set(
    study: Study,
    file: Annotated[Path, typer.Argument(help="CSV: the study's features, and its label.")],
    token: Token,
    coordinator: Coordinator = LOOPBACK_COORDINATOR,
    ca: Ca = None,
    json: Json = False,
) -> None:
    """Give the public records that a study with the feature method learns from, before it starts."""
    from crossward_cli.people import at_coordinator, put_public_set

    with at_coordinator(coordinator, token, ca) as client:
        put_public_set(client, study, file, as_json=json)


@group.command("start")
def start(
    study: Study, token: Token, coordinator: Coordinator = LOOPBACK_COORDINATOR, ca: Ca = None, json: Json = False
) -> None:
    """Give the parties their tasks."""
    from crossward_cli.people import at_coordinator
    from crossward_cli.render import tell

    with at_coordinator(coordinator, token, ca) as client:
        started = client.start(study)
    line = f"{started['id']} is {started['state']}; watch it with: crossward study watch {study}"
    tell(started, line, as_json=json)


@group.command("watch")
def watch(
    study: Study, token: Token, coordinator: Coordinator = LOOPBACK_COORDINATOR, ca: Ca = None, json: Json = False
) -> None:
    """Follow a study until it ends."""
    from crossward_cli.people import at_coordinator, watch_study

    with at_coordinator(coordinator, token, ca) as client:
        watch_study(client, study, as_json=json)


@group.command("cancel")
def cancel(
    study: Study,
    token: Token,
    reason: Annotated[str, typer.Option(help="Everyone may read it.")] = "",
    coordinator: Coordinator = LOOPBACK_COORDINATOR,
    ca: Ca = None,
    json: Json = False,
) -> None:
    """End a study. Charges stand; what comes later is refused."""
    from crossward_cli.people import at_coordinator
    from crossward_cli.render import tell

    with at_coordinator(coordinator, token, ca) as client:
        ended = client.cancel(study, reason)
    tell(ended, f"{study} is {ended['state']}.", as_json=json)


@group.command("certificate")
def certificate(
    study: Study, token: Token, coordinator: Coordinator = LOOPBACK_COORDINATOR, ca: Ca = None, json: Json = False
) -> None:
    """The privacy certificate of a study that has ended: a text, or signed JSON."""
    from crossward_cli.people import at_coordinator
    from crossward_cli.render import print_json

    with at_coordinator(coordinator, token, ca) as client:
        if json:
            print_json(client.certificate(study))
        else:
            print(client.certificate_text(study))


@group.command("verify")
def verify(
    file: Annotated[Path, typer.Argument(help="A certificate, as `crossward study certificate --json` printed it.")],
    key: Annotated[str, typer.Option("--key", help="The coordinator's public key, learned from its operator.")],
) -> None:
    """Verify a certificate offline, and print what it says."""
    from crossward_cli.people import verify_certificate

    verify_certificate(file, key)


@group.command("release")
def release(
    digest: Annotated[str, typer.Argument(help="The release's digest, from a certificate.")],
    token: Token,
    receipt: Annotated[bool, typer.Option("--receipt", help="The coordinator's receipt for it instead.")] = False,
    coordinator: Coordinator = LOOPBACK_COORDINATOR,
    ca: Ca = None,
) -> None:
    """Print what left a site, byte for byte as it was signed."""
    from crossward_cli.people import at_coordinator

    with at_coordinator(coordinator, token, ca) as client:
        print(client.receipt(digest) if receipt else client.release(digest))
