"""`crossward ledger`: export a ledger, and read and verify an exported one offline, as anyone can."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crossward.errors import InvalidSetting
from crossward_cli.connections import at_coordinator, at_site
from crossward_cli.options import (
    LOOPBACK_COORDINATOR,
    LOOPBACK_TARGET,
    Ca,
    Coordinator,
    Json,
    SiteToken,
    SiteUrl,
    Token,
)
from crossward_cli.output import print_json, print_table, say, tell

if TYPE_CHECKING:
    from crossward.protocol.ledger.lines import Head, Line

group = typer.Typer(help="Ledgers: export, read, and verify them offline.", no_args_is_help=True)
File = Annotated[Path, typer.Argument(help="An exported ledger.")]
NewFile = Annotated[Path, typer.Argument(help="Where to write it.")]


@group.command("export")
def export(
    file: NewFile, site_token: SiteToken, site: SiteUrl = LOOPBACK_TARGET, ca: Ca = None, json: Json = False
) -> None:
    """Write your site's ledger to a file that anyone can verify."""
    with at_site(site, site_token, ca) as client:
        _write(client.ledger(), file, as_json=json)


@group.command("mirror")
def mirror(
    party: Annotated[str, typer.Argument(help="Whose ledger.")],
    file: NewFile,
    token: Token,
    coordinator: Coordinator = LOOPBACK_COORDINATOR,
    ca: Ca = None,
    json: Json = False,
) -> None:
    """Write the coordinator's mirror of a party's ledger to a file that anyone can verify (auditor)."""
    with at_coordinator(coordinator, token, ca) as client:
        _write(client.ledger(party), file, as_json=json)


def _write(lines: list[Line], file: Path, *, as_json: bool) -> None:
    from crossward.protocol.ledger.export import export_file

    head = export_file(lines, file)
    value = {"lines": head.sequence, "head": head.hash}
    tell(value, f"{file}: {head.sequence} lines, head {head.sequence}:{head.hash}", as_json=as_json)


@group.command("show")
def show(file: File, json: Json = False) -> None:
    """Every line of an exported ledger."""
    from crossward.protocol.ledger.export import read_file
    from crossward.protocol.times import moment

    lines = list(read_file(file))
    if json:
        print_json([{**line.values, "hash": line.hash} for line in lines])
        return
    times = [moment(line.time / 1000).strftime("%Y-%m-%d %H:%M:%S") for line in lines]
    print_table(
        ("line", "when (UTC)", "kind", "what", "epsilon", "hash"),
        (
            (line.sequence, time, line.kind, *_content(line), line.hash[:8])
            for line, time in zip(lines, times, strict=True)
        ),
    )


def _content(line: Line) -> tuple[str, str]:
    """What a line says, and the epsilon in it."""
    from crossward.privacy.budget import NANO
    from crossward.protocol.ledger.lines import OpenBody, RecoverBody, ReleaseBody, ReserveBody, SeatsBody

    match line.body:
        case OpenBody() as body:
            what = f"budget of a person, version {body.version}: {body.cells} cells, {body.filter}"
            return what, f"{body.nano_epsilon / 10**NANO:g}"
        case SeatsBody() as body:
            return f"who sits in which cell, version {body.version}: {body.commitment[:12]}...", ""
        case ReserveBody() as body:
            return f"study {body.study}, {len(body.cells)} cells", f"{body.nano_epsilon / 10**NANO:g}"
        case ReleaseBody() as body:
            return f"{body.digest[:12]}... of the task reserved before", ""
        case RecoverBody() as body:
            return f"the seats were lost, {body.number}: every cell has spent the largest spend", ""


@group.command("verify")
def verify(
    file: File,
    head: Annotated[str | None, typer.Option(help="The head it must end at, NUMBER:HASH, from a receipt.")] = None,
    json: Json = False,
) -> None:
    """Verify an exported ledger offline: every hash, rule and balance; names the first line that is wrong."""
    from crossward.privacy.budget import NANO
    from crossward.protocol.ledger.export import verify_file

    verified = verify_file(file, None if head is None else _head(head))
    end = verified.head
    balance = verified.state.balance
    spent, budget = (
        (None, None)
        if balance is None
        else (balance.spend.nano_epsilon / 10**NANO, balance.opened.nano_epsilon / 10**NANO)
    )
    if json:
        print_json({"lines": end.sequence, "head": end.hash, "epsilon_spent": spent, "epsilon_budget": budget})
        return
    say(f"[green]verified[/]: {end.sequence} lines, head {end.sequence}:{end.hash}", wrap=False)
    if balance is not None:
        say(f"  a person's budget: epsilon {budget:g}, of which {spent:g} is spent")


def _head(text: str) -> Head:
    from crossward.protocol.ledger.lines import Head

    sequence, _, digest = text.partition(":")
    if not (sequence.isdigit() and len(digest) == 64):
        raise InvalidSetting(f"A head is NUMBER:HASH, not {text!r}.", "Copy it from a receipt or from the other side.")
    return Head(int(sequence), digest)
