"""`crossward site`: a hospital's own service, as its data steward."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from crossward_cli.connections import at_site, wait_for_service
from crossward_cli.data import group as data
from crossward_cli.data import recover
from crossward_cli.files import read_mapping
from crossward_cli.options import LOOPBACK_TARGET, Ca, Json, SiteToken, SiteUrl
from crossward_cli.output import print_json, print_pairs, print_table, say, tell
from crossward_cli.services import SERVICES, add_commands

group = typer.Typer(help="Your own site: join, data, policy, approvals, status.", no_args_is_help=True)
group.add_typer(data, name="data")
Task = Annotated[str, typer.Argument(help="The task, from `crossward site approvals`.")]
Party = Annotated[str, typer.Argument(help="The party.")]
DASH = {"ignore_unknown_options": True}
"""Of commands that take a code or a key: one in sixty-four begins with a dash, and is no option."""


@group.command("status")
def status(site_token: SiteToken, site: SiteUrl = LOOPBACK_TARGET, ca: Ca = None, json: Json = False) -> None:
    """The whole site at a glance: budgets, tasks, ledger, trouble."""
    with at_site(site, site_token, ca) as client:
        state = client.status()
    if json:
        print_json(state)
        return
    who = state["identity"]
    name = f"{who['party']} ({who['role']}) at {who['coordinator']}" if who else "not joined yet"
    colour = "green" if state["health"] == "well" else "red"
    console = Console()
    console.print(
        f"[bold]{name}[/]: [{colour}]{state['health']}[/] {escape(state['stopped'] or state['trouble'] or '')}"
    )
    if budget := state["budget"]:
        spent, left = (f"{budget[key]:g}" for key in ("epsilon_spent", "epsilon_left"))
        console.print(f"each person: epsilon {budget['epsilon']:g} for life, {spent} spent, {left} left")
    print_table(
        ("dataset", "version", "rows", "persons", "from"),
        (
            (d["name"], d["version"], f"{d['rows']:,}", f"{d['persons']:,}", d["place"]["where"])
            for d in state["datasets"]
        ),
    )
    for job in state["jobs"]:
        console.print(f"job {job['number']}: {job['kind']} {job['dataset'] or ''}, {job['progress']:.0%} {job['step']}")
    if state["tasks"]:
        print_table(
            ("task", "study", "state", "progress", "why"),
            ((t["id"], t["study"], t["state"], f"{t['progress']:.0%}", t["cause"] or "") for t in state["tasks"]),
        )
    head, unconfirmed = state["ledger"]["head"], state["ledger"]["unconfirmed"]
    console.print(f"ledger: {head['sequence']} lines, {unconfirmed} not yet confirmed; outbox: {len(state['outbox'])}")


# -- identity and keys ----------------------------------------------------------------------------------------------
@group.command("join", context_settings=DASH)
def join(
    coordinator: Annotated[str, typer.Argument(help="The coordinator's address.")],
    code: Annotated[str, typer.Argument(help="The one-time code its operator gave you.")],
    site_token: SiteToken,
    site: SiteUrl = LOOPBACK_TARGET,
    ca: Ca = None,
    json: Json = False,
) -> None:
    """Make a key at the site and enrol with it."""
    wait_for_service(site, ca)  # a code must not be sent twice
    with at_site(site, site_token, ca) as client:
        identity = client.join(coordinator, code)
    text = "Joined {coordinator} as {party} ({role}), key {key_id}.".format_map(identity)
    tell(identity, text, as_json=json)


@group.command("rotate")
def rotate(site_token: SiteToken, site: SiteUrl = LOOPBACK_TARGET, ca: Ca = None, json: Json = False) -> None:
    """Change to a fresh key."""
    with at_site(site, site_token, ca) as client:
        key = client.rotate()
    tell(key, f"The key is now {key['key_id']}.", as_json=json)


@group.command("keys")
def keys(site_token: SiteToken, site: SiteUrl = LOOPBACK_TARGET, ca: Ca = None, json: Json = False) -> None:
    """This site's own key, to be told to others, and the keys of others that it trusts."""
    with at_site(site, site_token, ca) as client:
        known = client.keys()
    if json:
        print_json(known)
        return
    own = known["own"]
    print(f"This site signs with key {own['key_id']}: {own['public_key']}" if own else "This site has no key yet.")
    table = Table("party", "key", "public key", "trusted because of")
    for key in known["keys"]:
        table.add_row(key["party"], key["key_id"], key["public_key"], key["origin"])
    Console(width=120).print(table)  # a key that is broken cannot be compared


@group.command("pin", context_settings=DASH)
def pin(
    party: Party,
    public_key: Annotated[str, typer.Argument(help="Its public key, learned from the party itself.")],
    site_token: SiteToken,
    site: SiteUrl = LOOPBACK_TARGET,
    ca: Ca = None,
    json: Json = False,
) -> None:
    """Trust a party's key, and from then on no other of its keys that is not pinned too."""
    with at_site(site, site_token, ca) as client:
        key = client.pin(party, public_key)
    text = f"Key {key['key_id']} of {party} is trusted. Compare this id with {party} on the telephone."
    tell(key, text, as_json=json)


@group.command("unpin")
def unpin(
    party: Party,
    key_id: Annotated[str, typer.Argument(help="The key's id, from `crossward site keys`.")],
    site_token: SiteToken,
    site: SiteUrl = LOOPBACK_TARGET,
    ca: Ca = None,
    json: Json = False,
) -> None:
    """Trust a party's key no longer."""
    with at_site(site, site_token, ca) as client:
        known = client.unpin(party, key_id)
    left = [key["key_id"] for key in known["keys"] if key["party"] == party]
    text = f"Key {key_id} of {party} is trusted no longer; {', '.join(left) or 'none'} is left."
    if not left:
        text += "\nThe next key is believed from the coordinator, unless the policy says pinned_keys_only."
    tell(known, text, as_json=json)


@group.command("reconcile")
def reconcile(site_token: SiteToken, site: SiteUrl = LOOPBACK_TARGET, ca: Ca = None, json: Json = False) -> None:
    """Take over what the coordinator's mirror has beyond this ledger, and go on if the two are one chain."""
    with at_site(site, site_token, ca) as client:
        standing = client.reconcile()
    tell(standing, f"Agreed at line {standing['head']['sequence']}.", as_json=json)


group.command("recover")(recover)


# -- decisions ------------------------------------------------------------------------------------------------------
@group.command("policy")
def policy(
    site_token: SiteToken,
    file: Annotated[Path | None, typer.Argument(help="YAML with new rules; without it the rules are shown.")] = None,
    site: SiteUrl = LOOPBACK_TARGET,
    ca: Ca = None,
    json: Json = False,
) -> None:
    """Show the site's rules, or set them."""
    with at_site(site, site_token, ca) as client:
        rules = client.policy() if file is None else client.set_policy(read_mapping(file))
    if json:
        print_json(rules)
    else:
        print_pairs((name, escape(_rule(value))) for name, value in rules.items())


def _rule(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "no limit" if value is None else {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


@group.command("approvals")
def approvals(site_token: SiteToken, site: SiteUrl = LOOPBACK_TARGET, ca: Ca = None, json: Json = False) -> None:
    """What the steward is asked."""
    with at_site(site, site_token, ca) as client:
        waiting = client.approvals()
    if json:
        print_json(waiting)
    elif not waiting:
        print("Nothing waits for you.")
    for request in [] if json else waiting:
        _show_request(request)


def _show_request(request: dict[str, Any]) -> None:
    """One task that waits for the steward, with all that the answer rests on."""
    task, study, cause = (escape(request[key]) for key in ("task", "study", "cause"))
    say(f"[bold]{task}[/] ({request['state']}) study {study}, as a {request['role']}. {cause}")
    lead, taken = request["lead"] or "unknown", request["epsilon_taken_before"]
    why = f": {request['chosen']}" if request["chosen"] else ""
    pairs = {
        "title": request["title"],
        "purpose": request["purpose"],
        "method": f"{request['method']}{why}",
        **({"in words": request["explanation"]} if request.get("explanation") else {}),
        "lead": lead,
        "cost": f"epsilon {request['epsilon']:g}; paid already {request['epsilon_charged']:g}, before {taken:g}",
        "dataset": request["dataset"] or f"choose one: {', '.join(request['datasets']) or 'none fits'}",
    }
    print_pairs((name, escape(str(value))) for name, value in pairs.items())
    say(f"  crossward site approve {task} [--refuse]".replace("[", r"\["))


@group.command("approve")
def approve(
    task: Task,
    site_token: SiteToken,
    refuse: Annotated[bool, typer.Option("--refuse", help="Refuse instead.")] = False,
    words: Annotated[str, typer.Option(help="Why; it goes with a refusal and is public.")] = "",
    dataset: Annotated[str | None, typer.Option(help="Which dataset to use, where several fit.")] = None,
    site: SiteUrl = LOOPBACK_TARGET,
    ca: Ca = None,
    json: Json = False,
) -> None:
    """Approve a task, or refuse it."""
    with at_site(site, site_token, ca) as client:
        decision = client.decide(task, not refuse, dataset=dataset, words=words)
    tell(decision, f"Task {decision['id']} is {decision['state']}.", as_json=json)


# -- the service itself, as its operator ----------------------------------------------------------------------------
add_commands(group, SERVICES["site"])
