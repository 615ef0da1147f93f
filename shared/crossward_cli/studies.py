"""`crossward study`: from a file to an ended study and its certificate (lead, auditor)."""

from __future__ import annotations

import json as json_text
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from crossward.errors import CrosswardError
from crossward.protocol.states import StudyState, TaskState
from crossward_cli.connections import at_coordinator
from crossward_cli.files import read_bytes, read_study, writing
from crossward_cli.options import LOOPBACK_COORDINATOR, Ca, Coordinator, Json, Study, Token
from crossward_cli.output import print_json, print_pairs, print_table, say, tell
from crossward_cli.parties import last_seen

if TYPE_CHECKING:
    from crossward import study as studies
    from crossward.client import Client

group = typer.Typer(help="Studies: check a file, create, start, watch, cancel.", no_args_is_help=True)
File = Annotated[Path, typer.Argument(help="A study file (YAML).")]


class StudyEnded(CrosswardError):
    """A study that was watched did not end well."""


# -- files, without a coordinator -----------------------------------------------------------------------------------
@group.command("check")
def check(file: File, json: Json = False) -> None:
    """Check a study file; every problem at once, each with its line and field. Needs no coordinator."""
    study = read_study(file)
    if json:
        print_json({"id": study.id, "digest": study.digest, "study": json_text.loads(study.canonical())})
        return
    pairs = {
        "study": f"{study.id}: {study.title}",
        "method": study.method.name if study.chosen is None else f"{study.method.name}, chosen by auto",
        "in words": escape(f"{study.method.title}: {study.method.explanation}"),
        **_choice(study),
        "features": f"{len(study.features)}, {len(study.schema.columns)} columns once encoded",
        "sources": ", ".join(study.sources) or "none",
        "targets": ", ".join(study.targets),
        "epsilon": f"source {study.epsilon.source or 'none'}, target {study.epsilon.target or 'none'}",
        "cells": f"level0 {study.cells.level0}, level1 {study.cells.level1}, holdout {study.cells.holdout}",
        "digest": study.digest,
    }
    print_pairs(pairs.items())
    say("[green]sound[/]: every message about this study will name this digest.")


def _choice(study: studies.Study) -> dict[str, str]:
    """Why auto chose the method, and the numbers that every party approves with it."""
    if study.chosen is None:
        return {}
    method, encoding = study.method.model_dump(exclude={"name"}), study.encoding
    ball = encoding.model_dump(include={"radius", "intercept", "offset"}, exclude_none=True)
    dropped = [column for column in study.schema.columns if column not in (encoding.columns or {})]
    start = 0 if encoding.start is None else len(encoding.start.columns)
    columns = f"{len(study.schema.columns) - len(dropped)} kept, {start} start from a declared direction"
    return {
        "why": escape(study.chosen.why),
        "settings": escape(", ".join(f"{name} {_setting(value)}" for name, value in (method | ball).items())),
        "columns": escape(columns + (f"; left out: {', '.join(dropped)}" if dropped else "")),
    }


def _setting(value: object) -> str:
    if isinstance(value, dict) and "power" in value:
        return f"{value['value']:g} at {value['records']:,} records (power {value['power']:g})"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_setting(inner)}" for name, inner in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


@group.command("example")
def example(
    data: Annotated[
        Path | None, typer.Option(help="Write a study with records of simulated hospitals into this folder.")
    ] = None,
    json: Json = False,
) -> None:
    """Print a study to start from, or write one with simulated records to try it on."""
    if data is None:
        _print_example(as_json=json)
    else:
        _write_example(data, as_json=json)


def _print_example(*, as_json: bool) -> None:
    import yaml

    from crossward.study import example

    text = example()
    if as_json:
        print_json(yaml.safe_load(text))
    else:
        print(text, end="")


def _write_example(folder: Path, *, as_json: bool) -> None:
    """A study and the records of a simulated main hospital and a branch, to run it on."""
    from crossward.study import study_for
    from crossward.study.auto import AUTO
    from crossward_lab.demo.records import OUTCOME, first_record, write_csv
    from crossward_lab.simulate.hospitals import PREVALENCE, Federation

    hospitals = Federation.simulate(branches=1)
    study = study_for(
        hospitals.schema,
        id="first-study",
        title="A branch learns from the main hospital",
        label={"name": OUTCOME, "positive": True, "positive_rate": PREVALENCE},
        method=AUTO,
        records={"main": len(hospitals.main.labels), "branch-1": len(hospitals.branches[0].labels)},
    )
    question = {"study": study.id, "record": first_record(hospitals.branches[0])}
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "study.yaml").write_text(study.to_yaml(), encoding="utf-8")
        for name, hospital in (("main", hospitals.main), ("branch-1", hospitals.branches[0])):
            write_csv(hospital, folder / f"{name}.csv")
        (folder / "patient.json").write_text(json_text.dumps(question, indent=2), encoding="utf-8")
    files = ["study.yaml", "main.csv", "branch-1.csv", "patient.json"]
    text = f"Wrote {', '.join(files[:-1])} and {files[-1]} to {folder}. None of the patients is real."
    tell({"folder": str(folder), "files": files}, text, as_json=as_json)


# -- at the coordinator ---------------------------------------------------------------------------------------------
@group.command("create")
def create(
    file: File, token: Token, coordinator: Coordinator = LOOPBACK_COORDINATOR, ca: Ca = None, json: Json = False
) -> None:
    """Check a study file and store it at the coordinator."""
    study = read_study(file)
    with at_coordinator(coordinator, token, ca) as client:
        stored = client.create(study.to_yaml())
    tell(stored, f"{stored['id']} is {stored['state']}, digest {stored['digest']}.", as_json=json)


@group.command("list")
def list_studies(
    token: Token, coordinator: Coordinator = LOOPBACK_COORDINATOR, ca: Ca = None, json: Json = False
) -> None:
    """Every study, with its state."""
    with at_coordinator(coordinator, token, ca) as client:
        studies = client.studies()
    if json:
        print_json(studies)
        return
    keys = ("id", "method", "state", "cause", "title")
    print_table(("study", "method", "state", "why", "title"), ([study[key] for key in keys] for study in studies))


@group.command("show")
def show(
    study: Study, token: Token, coordinator: Coordinator = LOOPBACK_COORDINATOR, ca: Ca = None, json: Json = False
) -> None:
    """A study's state, its tasks, and whom it waits for."""
    with at_coordinator(coordinator, token, ca) as client:
        state = client.study(study)
    if json:
        print_json(state)
        return
    say(f"[bold]{state['id']}[/] {state['state']} {escape(state['cause'])}")
    if state["chosen"]:
        say(f"auto chose {state['method']}: {escape(state['chosen'])}")
    print_table(
        ("party", "task", "state", "progress", "why"),
        ((t["party"], t["kind"], t["state"], f"{t['progress']:.0%}", t["cause"]) for t in state["tasks"]),
    )
    for party in state["waiting_for"]:
        say(f"waiting for {party['party']} ({party['party_state']}), last seen {last_seen(party['last_seen'])}")


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
    with at_coordinator(coordinator, token, ca) as client:
        stored = client.put_public_set(study, read_bytes(file))
    text = f"{study} has its public set: {stored['records']} records, digest {stored['digest']}."
    tell(stored, text, as_json=json)


@group.command("start")
def start(
    study: Study, token: Token, coordinator: Coordinator = LOOPBACK_COORDINATOR, ca: Ca = None, json: Json = False
) -> None:
    """Give the parties their tasks."""
    with at_coordinator(coordinator, token, ca) as client:
        started = client.start(study)
    text = f"{started['id']} is {started['state']}; watch it with: crossward study watch {study}"
    tell(started, text, as_json=json)


@group.command("watch")
def watch(
    study: Study, token: Token, coordinator: Coordinator = LOOPBACK_COORDINATOR, ca: Ca = None, json: Json = False
) -> None:
    """Follow a study until it ends; fails if the study does."""
    with at_coordinator(coordinator, token, ca) as client:
        if json:
            for event in client.watch(study):
                print(json_text.dumps(asdict(event)), flush=True)
        else:
            _show_bars(client, study)
        end = client.study(study)
    if end["state"] != StudyState.COMPLETE:
        raise StudyEnded(f"The study is {end['state']}: {end['cause']}", f"crossward study show {study}")


def _show_bars(client: Client, study: str) -> None:
    """Events as they come, and a bar for each party."""
    bars: dict[str, TaskID] = {}
    columns = TextColumn("{task.description:20}"), BarColumn(), TextColumn("{task.fields[state]}"), TimeElapsedColumn()
    with Progress(*columns, console=Console()) as progress:
        for event in client.watch(study):
            text = " ".join(filter(None, (event.kind, event.party, event.text)))
            progress.console.print(f"{event.time[11:19]} {text}", highlight=False, soft_wrap=True)
            for task in client.study(study)["tasks"]:
                if task["party"] not in bars:
                    bars[task["party"]] = progress.add_task(task["party"], total=1.0, state=task["state"])
                done = 1.0 if task["state"] == TaskState.DONE else task["progress"]
                progress.update(bars[task["party"]], completed=done, state=task["state"])


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
    with at_coordinator(coordinator, token, ca) as client:
        cancelled = client.cancel(study, reason)
    tell(cancelled, f"{study} is {cancelled['state']}.", as_json=json)


# -- what is left of a study ----------------------------------------------------------------------------------------
@group.command("certificate")
def certificate(
    study: Study, token: Token, coordinator: Coordinator = LOOPBACK_COORDINATOR, ca: Ca = None, json: Json = False
) -> None:
    """The privacy certificate of a study that has ended: a text, or signed JSON."""
    with at_coordinator(coordinator, token, ca) as client:
        if json:
            print(client.certificate(study))
        else:
            print(client.certificate_text(study))


@group.command("bundle")
def bundle(
    study: Study,
    folder: Annotated[Path, typer.Argument(help="A new folder to write.")],
    token: Token,
    coordinator: Coordinator = LOOPBACK_COORDINATOR,
    ca: Ca = None,
    json: Json = False,
) -> None:
    """Write all that verifies an ended study offline: certificate, releases, receipts, ledgers, and the verifier."""
    from crossward.client.bundle import write_bundle

    with at_coordinator(coordinator, token, ca) as client:
        written = write_bundle(client, study, folder)
    value = {**asdict(written), "folder": str(written.folder)}
    counts = f"{written.releases} releases and their receipts, {written.ledgers} ledgers"
    tell(value, f"{folder}: {written.certificate}, {counts}. Verify it with:", as_json=json)
    if not json:
        say(f"  python {escape(str(folder / 'verify.py'))} bundle {escape(str(folder))} --key KEY", wrap=False)


@group.command("verify")
def verify(
    path: Annotated[
        Path, typer.Argument(help="A bundle, or a certificate as `crossward study certificate --json` printed it.")
    ],
    key: Annotated[str, typer.Option("--key", help="The coordinator's public key, learned from its operator.")],
    json: Json = False,
) -> None:
    """Verify a study offline: a whole bundle, check by check, or its certificate alone, and print what that says."""
    if path.is_dir():
        from crossward import verify as verifier

        raise typer.Exit(verifier.main(["bundle", str(path), "--key", key, *(["--json"] if json else [])]))
    from crossward.protocol.certificate import verify_certificate

    content = verify_certificate(read_bytes(path), key)
    if json:
        print_json(content.model_dump(mode="json"))
    else:
        print(content.text())


@group.command("release")
def release(
    digest: Annotated[str, typer.Argument(help="The release's digest, from a certificate.")],
    token: Token,
    receipt: Annotated[bool, typer.Option("--receipt", help="The coordinator's receipt for it instead.")] = False,
    coordinator: Coordinator = LOOPBACK_COORDINATOR,
    ca: Ca = None,
    json: Json = False,
) -> None:
    """Print what left a site, byte for byte as it was signed: JSON in any case."""
    del json
    with at_coordinator(coordinator, token, ca) as client:
        print(client.receipt(digest) if receipt else client.release(digest))
