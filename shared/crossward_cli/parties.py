"""`crossward party`: who takes part (operator)."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from crossward.protocol.constants import Role
from crossward.protocol.states import PartyState
from crossward_cli.connections import at_coordinator
from crossward_cli.options import LOOPBACK_COORDINATOR, Ca, Coordinator, Json, Token
from crossward_cli.output import print_json, say, tell

group = typer.Typer(help="Who takes part: invite, list, revoke.", no_args_is_help=True)
Party = Annotated[str, typer.Argument(help="The party's id, such as branch-1.")]


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
    with at_coordinator(coordinator, token, ca) as client:
        invitation = client.invite(party, role)
    if json:
        print_json(invitation)
        return
    say(f"[bold]{invitation['code']}[/]", wrap=False)
    say(f"One use, until {invitation['expires']}. At {party}:")
    say(f"  crossward site join {coordinator} CODE", wrap=False)


@group.command("list")
def list_parties(
    token: Token, coordinator: Coordinator = LOOPBACK_COORDINATOR, ca: Ca = None, json: Json = False
) -> None:
    """Everyone, with state, cause and when they were last heard of."""
    with at_coordinator(coordinator, token, ca) as client:
        parties = client.parties()
    if json:
        print_json(parties)
        return
    table = Table("party", "role", "state", "last seen", "why")
    for party in parties:
        colour = "green" if party["state"] == PartyState.ACTIVE else "red"
        state = f"[{colour}]{party['state']}[/]"
        table.add_row(party["party"], party["role"], state, last_seen(party["last_seen"]), party["cause"])
    Console().print(table)


@group.command("revoke")
def revoke(
    party: Party, token: Token, coordinator: Coordinator = LOOPBACK_COORDINATOR, ca: Ca = None, json: Json = False
) -> None:
    """End a party's part: its keys no longer count, studies go on without it."""
    with at_coordinator(coordinator, token, ca) as client:
        _tell_state(client.revoke(party), as_json=json)


@group.command("reconcile")
def reconcile(
    party: Party, token: Token, coordinator: Coordinator = LOOPBACK_COORDINATOR, ca: Ca = None, json: Json = False
) -> None:
    """Let a stopped party go on, once its ledger extends the mirror again."""
    with at_coordinator(coordinator, token, ca) as client:
        _tell_state(client.reconcile(party), as_json=json)


def _tell_state(party: dict[str, Any], *, as_json: bool) -> None:
    tell(party, f"{party['party']} is {party['state']}. {party['cause']}".strip(), as_json=as_json)


def last_seen(time: str | None) -> str:
    """A time of a coordinator's answer, for people."""
    return "never" if time is None else f"{time[:10]} {time[11:19]}"
