"""`crossward party`: who takes part (operator)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from crossward_cli.groups.options import LOOPBACK_COORDINATOR, Ca, Coordinator, Json, Token

group = typer.Typer(help="Who takes part: invite, list, revoke.", no_args_is_help=True)
Party = Annotated[str, typer.Argument(help="The party's id, such as branch-1.")]


class Role(StrEnum):
    """What a party does."""

    source = "source"
    target = "target"


@group.command("invite")
def invite(
    party: Party,
    role: Annotated[Role, typer.Option(help="What it will be.")],
    token: Token,
    coordinator: Coordinator = LOOPBACK_COORDINATOR,
    ca: Ca = None,
    json: Json = False,
) -> None:
    """A one-time code for a hospital to join with; pass it on by phone or letter."""
    from crossward_cli.people import at_coordinator, show_invite

    with at_coordinator(coordinator, token, ca) as client:
        show_invite(client, party, role.value, as_json=json)


@group.command("list")
def list_parties(
    token: Token, coordinator: Coordinator = LOOPBACK_COORDINATOR, ca: Ca = None, json: Json = False
) -> None:
    """Everyone, with state, cause and when they were last heard of."""
    from crossward_cli.people import at_coordinator, show_parties

    with at_coordinator(coordinator, token, ca) as client:
        show_parties(client, as_json=json)


@group.command("revoke")
def revoke(
    party: Party, token: Token, coordinator: Coordinator = LOOPBACK_COORDINATOR, ca: Ca = None, json: Json = False
) -> None:
    """End a party's part: its keys no longer count, studies go on without it."""
    from crossward_cli.people import at_coordinator, say_state

    with at_coordinator(coordinator, token, ca) as client:
        say_state(client.revoke(party), as_json=json)


@group.command("reconcile")
def reconcile(
    party: Party, token: Token, coordinator: Coordinator = LOOPBACK_COORDINATOR, ca: Ca = None, json: Json = False
) -> None:
    """Let a stopped party go on, once its ledger extends the mirror again."""
    from crossward_cli.people import at_coordinator, say_state

    with at_coordinator(coordinator, token, ca) as client:
        say_state(client.reconcile(party), as_json=json)
