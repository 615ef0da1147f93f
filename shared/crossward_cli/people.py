"""What `crossward party` and `crossward study` show of a coordinator."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from crossward.client import Client
from crossward.errors import CrosswardError, InvalidSetting
from crossward.protocol import certificate
from crossward.protocol.ledger.export import export_file
from crossward_cli.render import tell


class StudyEnded(CrosswardError):
    """A study that was watched did not end well."""


def at_coordinator(url: str, token: str, ca: Path | None) -> Client:
    """The coordinator, as whoever holds the token."""
    return Client(url, token, ca=ca)


def show_invite(client: Client, party: str, role: Any, *, as_json: bool) -> None:
    """Invite and show the code."""
    made = client.invite(party, role)
    if as_json:
        print(json.dumps(made))
        return
    console = Console()
    console.print(f"[bold]{made['code']}[/]", highlight=False, soft_wrap=True)
    console.print(f"One use, until {made['expires']}. At {party}:", highlight=False)
    console.print(f"  crossward site join {client.url} CODE", highlight=False, soft_wrap=True)


def show_parties(client: Client, *, as_json: bool) -> None:
    """List parties."""
    found = client.parties()
    if as_json:
        print(json.dumps(found, indent=2))
        return
    table = Table("party", "role", "state", "last seen", "why")
    for party in found:
        colour = "green" if party["state"] == "active" else "red"
        state = f"[{colour}]{party['state']}[/]"
        table.add_row(party["party"], party["role"], state, _when(party["last_seen"]), party["cause"])
    Console().print(table)


def _when(time: str | None) -> str:
    return "never" if time is None else f"{time[:10]} {time[11:19]}"


def say_state(party: dict[str, Any], *, as_json: bool) -> None:
    """One line on a party."""
    tell(party, f"{party['party']} is {party['state']}. {party['cause']}".strip(), as_json=as_json)


def show_studies(client: Client, *, as_json: bool) -> None:
    """List studies."""
    found = client.studies()
    if as_json:
        print(json.dumps(found, indent=2))
        return
    table = Table("study", "method", "state", "why", "title")
    for study in found:
        table.add_row(study["id"], study["method"], study["state"], study["cause"], study["title"])
    Console().print(table)


def show_study(client: Client, study: str, *, as_json: bool) -> None:
    """One study with its tasks."""
    seen = client.study(study)
    if as_json:
        print(json.dumps(seen, indent=2))
        return
    console = Console()
    console.print(f"[bold]{seen['id']}[/] {seen['state']} {seen['cause']}", highlight=False)
    if seen["chosen"]:
        console.print(f"auto chose {seen['method']}: {escape(seen['chosen'])}", highlight=False)
    table = Table("party", "task", "state", "progress", "why")
    for task in seen["tasks"]:
        table.add_row(task["party"], task["kind"], task["state"], f"{task['progress']:.0%}", task["cause"])
    console.print(table)
    for late in seen["late"]:
        since = _when(late["last_seen"])
        console.print(f"waiting for {late['party']} ({late['party_state']}), last seen {since}", highlight=False)


def watch_study(client: Client, study: str, *, as_json: bool) -> None:
    """Follow a study until it ends: events as they come, a bar for each party. Fails if the study does."""
    if as_json:
        for event in client.watch(study):
            print(json.dumps(asdict(event)))
    else:
        _bars(client, study)
    ended = client.study(study)
    if ended["state"] != "complete":
        raise StudyEnded(f"The study is {ended['state']}: {ended['cause']}", f"crossward study show {study}")


def _bars(client: Client, study: str) -> None:
    bars: dict[str, TaskID] = {}
    columns = TextColumn("{task.description:20}"), BarColumn(), TextColumn("{task.fields[state]}"), TimeElapsedColumn()
    with Progress(*columns) as progress:
        for event in client.watch(study):
            said = " ".join(filter(None, (event.kind, event.party, event.text)))
            progress.console.print(f"{event.time[11:19]} {said}", highlight=False, soft_wrap=True)
            for task in client.study(study)["tasks"]:
                if task["party"] not in bars:
                    bars[task["party"]] = progress.add_task(task["party"], total=1.0, state=task["state"])
                done = 1.0 if task["state"] == "done" else task["progress"]
                progress.update(bars[task["party"]], completed=done, state=task["state"])


def put_public_set(client: Client, study: str, file: Path, *, as_json: bool) -> None:
    """Give a study the public records that its aggregation learns from."""
    made = client.put_public_set(study, _read(file))
    tell(made, f"{study} has its public set: {made['records']} records, digest {made['digest']}.", as_json=as_json)


def verify_certificate(file: Path, public_key: str) -> None:
    """Check offline that a coordinator signed this certificate; print it if so."""
    print(certificate.verify_certificate(_read(file), public_key).text())


def export_mirror(client: Client, party: str, file: Path, *, as_json: bool) -> None:
    """Write the coordinator's mirror of a party's ledger to a file that anyone can verify."""
    head = export_file(client.ledger(party), file)
    answer = {"lines": head.sequence, "head": head.hash}
    tell(answer, f"{file}: {head.sequence} lines, head {head.sequence}:{head.hash}", as_json=as_json)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InvalidSetting(f"{file} cannot be read: {error.strerror}.", "Give a file that is there.") from None
