"""`crossward site`: a hospital's own service, as its data steward."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crossward_cli.groups.options import LOOPBACK_TARGET, Ca, Json, SiteToken, SiteUrl

group = typer.Typer(help="Your own site: join, data, policy, approvals, status.", no_args_is_help=True)
data = typer.Typer(help="The site's data.", no_args_is_help=True)
group.add_typer(data, name="data")
Task = Annotated[str, typer.Argument(help="The task, from `crossward site approvals`.")]
Party = Annotated[str, typer.Argument(help="The party.")]


@group.command("status")
def status(site_token: SiteToken, site: SiteUrl = LOOPBACK_TARGET, ca: Ca = None, json: Json = False) -> None:
    """The whole site at a glance: budgets, tasks, ledger, trouble."""
    from crossward_cli.steward import at_site, show_status

    with at_site(site, site_token, ca) as client:
        show_status(client, as_json=json)


@group.command("join")
def join(
    coordinator: Annotated[str, typer.Argument(help="The coordinator's address.")],
    code: Annotated[str, typer.Argument(help="The one-time code its operator gave you.")],
    site_token: SiteToken,
    site: SiteUrl = LOOPBACK_TARGET,
    ca: Ca = None,
) -> None:
    """Make a key at the site and enrol with it."""
    from crossward_cli.steward import at_site

    with at_site(site, site_token, ca) as client:
        joined = client.join(coordinator, code)
    print(f"Joined {joined['coordinator']} as {joined['party']} ({joined['role']}), key {joined['key_id']}.")


@group.command("rotate")
def rotate(site_token: SiteToken, site: SiteUrl = LOOPBACK_TARGET, ca: Ca = None, json: Json = False) -> None:
    """Change to a fresh key."""
    from crossward_cli.render import tell
    from crossward_cli.steward import at_site

    with at_site(site, site_token, ca) as client:
        made = client.rotate()
    tell(made, f"The key is now {made['key_id']}.", as_json=json)


@group.command("keys")
def keys(site_token: SiteToken, site: SiteUrl = LOOPBACK_TARGET, ca: Ca = None, json: Json = False) -> None:
    """This site's own key, to be told to others, and the keys of others that it trusts."""
    from crossward_cli.steward import at_site, show_keys

    with at_site(site, site_token, ca) as client:
        show_keys(client, as_json=json)


@group.command("pin")
def pin(
    party: Party,
    public_key: Annotated[str, typer.Argument(help="Its public key, learned from the party itself.")],
    site_token: SiteToken,
    site: SiteUrl = LOOPBACK_TARGET,
    ca: Ca = None,
    json: Json = False,
) -> None:
    """Trust a party's key, and from then on no other of its keys that is not pinned too."""
    from crossward_cli.render import tell
    from crossward_cli.steward import at_site

    with at_site(site, site_token, ca) as client:
        made = client.pin(party, public_key)
    line = f"Key {made['key_id']} of {party} is trusted. Compare this id with {party} on the telephone."
    tell(made, line, as_json=json)


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
    from crossward_cli.render import tell
    from crossward_cli.steward import at_site

    with at_site(site, site_token, ca) as client:
        keys = client.unpin(party, key_id)
    left = [key["key_id"] for key in keys["keys"] if key["party"] == party]
    line = f"Key {key_id} of {party} is trusted no longer; {', '.join(left) or 'none'} is left."
    if not left:
        line += "\nThe next key is believed from the coordinator, unless the policy says pinned_keys_only."
    tell(keys, line, as_json=json)


@group.command("reconcile")
def reconcile(site_token: SiteToken, site: SiteUrl = LOOPBACK_TARGET, ca: Ca = None, json: Json = False) -> None:
    """Take over what the coordinator's mirror has beyond this ledger, and go on if the two are one chain."""
    from crossward_cli.render import tell
    from crossward_cli.steward import at_site

    with at_site(site, site_token, ca) as client:
        agreed = client.reconcile()
    tell(agreed, f"Agreed at line {agreed['head']['sequence']}.", as_json=json)


@data.command("add")
def add_data(
    name: Annotated[str, typer.Argument(help="A name for the dataset.")],
    epsilon: Annotated[float, typer.Option(help="The lifetime budget of each person in it. It is final.")],
    person: Annotated[str, typer.Option(help="The column that says whom a record is about.")],
    site_token: SiteToken,
    csv: Annotated[Path | None, typer.Option(help="A CSV file, as the site sees it.")] = None,
    parquet: Annotated[Path | None, typer.Option(help="A Parquet file, as the site sees it.")] = None,
    sql: Annotated[str | None, typer.Option(help="A SQLAlchemy URL, with --query.")] = None,
    query: Annotated[str | None, typer.Option(help="The SQL query.")] = None,
    mapping: Annotated[Path | None, typer.Option(help="YAML: columns, units and codes where they differ.")] = None,
    study: Annotated[Path | None, typer.Option(help="A study file to check the data against.")] = None,
    delta: Annotated[float, typer.Option(help="The lifetime delta of each person.")] = 0.0,
    zcdp: Annotated[bool, typer.Option("--zcdp", help="Keep the budget by zCDP; needs --delta.")] = False,
    records_per_person: Annotated[int, typer.Option(min=1, help="Keep at most so many of a person's records.")] = 1,
    site: SiteUrl = LOOPBACK_TARGET,
    ca: Ca = None,
    json: Json = False,
) -> None:
    """Connect data: a CSV or Parquet file, or a SQL query. They stay where they are."""
    from crossward_cli.steward import add_dataset, at_site, place_of

    place = place_of(csv, parquet, sql, query)
    with at_site(site, site_token, ca) as client:
        add_dataset(
            client,
            name,
            place,
            mapping,
            person,
            study,
            epsilon=epsilon,
            delta=delta,
            zcdp=zcdp,
            records_per_person=records_per_person,
            as_json=json,
        )


@data.command("update")
def update_data(
    name: Annotated[str, typer.Argument(help="The dataset.")],
    site_token: SiteToken,
    site: SiteUrl = LOOPBACK_TARGET,
    ca: Ca = None,
    json: Json = False,
) -> None:
    """Register the data as they are now: persons keep their places, and what is spent stays spent."""
    from crossward_cli.render import tell
    from crossward_cli.steward import at_site, in_two

    with at_site(site, site_token, ca) as client:
        made = client.add_version(name)
    line = f"{name} is at version {made['version']} with {made['rows']} rows."
    tell(made, line + in_two(made), as_json=json)


@data.command("report")
def report(
    name: Annotated[str, typer.Argument(help="The dataset.")],
    site_token: SiteToken,
    study: Annotated[str | None, typer.Option(help="How the data fit this study.")] = None,
    site: SiteUrl = LOOPBACK_TARGET,
    ca: Ca = None,
) -> None:
    """Rows, missing and clipped values. For the site's own eyes."""
    from crossward_cli.render import print_json
    from crossward_cli.steward import at_site

    with at_site(site, site_token, ca) as client:
        print_json(client.report(name, study))


@group.command("policy")
def policy(
    site_token: SiteToken,
    file: Annotated[Path | None, typer.Argument(help="YAML with new rules; without it the rules are shown.")] = None,
    site: SiteUrl = LOOPBACK_TARGET,
    ca: Ca = None,
) -> None:
    """Show the site's rules, or set them."""
    from crossward_cli.render import print_json
    from crossward_cli.steward import at_site, read_yaml

    with at_site(site, site_token, ca) as client:
        print_json(client.policy() if file is None else client.set_policy(read_yaml(file)))


@group.command("approvals")
def approvals(site_token: SiteToken, site: SiteUrl = LOOPBACK_TARGET, ca: Ca = None) -> None:
    """What the steward is asked."""
    from crossward_cli.render import print_json
    from crossward_cli.steward import at_site

    with at_site(site, site_token, ca) as client:
        print_json(client.approvals())


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
    from crossward_cli.render import tell
    from crossward_cli.steward import at_site

    with at_site(site, site_token, ca) as client:
        decided = client.decide(task, not refuse, dataset=dataset, words=words)
    tell(decided, f"Task {decided['id']} is {decided['state']}.", as_json=json)
