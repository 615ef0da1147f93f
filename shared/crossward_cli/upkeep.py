"""`crossward doctor`, `crossward ROLE backup|restore`: what they show of the services, which are loaded by name."""

from __future__ import annotations

import importlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from crossward.errors import InvalidSetting
from crossward_cli.render import print_json
from crossward_cli.services import SETTINGS, settings_of
from crossward_service.ops import backup
from crossward_service.ops.backup import Manifest
from crossward_service.ops.findings import Finding, Findings

COLOURS = {"ok": "green", "warning": "yellow", "fault": "bold red"}


def show_examination(role: str | None, data_dir: Path | None, coordinator: str | None, *, as_json: bool) -> bool:
    """Examine a service and show what was found; True if there is no fault."""
    with Console(stderr=True).status("examining"):
        findings = _examined(role, data_dir, coordinator)
    if as_json:
        print_json([finding.to_dict() for finding in findings.items])
    else:
        _table(findings.items)
    return not findings.faulty


def _examined(role: str | None, data_dir: Path | None, coordinator: str | None) -> Findings:
    findings = Findings()
    with findings.looking_at("settings") as note:
        chosen = role or _guessed(data_dir)
        settings = settings_of(chosen, data_dir=data_dir)
        note.ok(f"A {chosen}, by the variables CROSSWARD_* and {os.environ.get('CROSSWARD_CONFIG', 'no file')}.")
        found = (
            importlib.import_module("crossward_coordinator.doctor").examine(settings)
            if chosen == "coordinator"
            else importlib.import_module("crossward_site.doctor").examine(settings, coordinator)
        )
        findings.items += found.items
    return findings


def _guessed(data_dir: Path | None) -> str:
    """The service that lives in the data directory, by its database or key."""
    homes = {role: settings_of(role, data_dir=data_dir) for role in SETTINGS}
    found = [
        role
        for role, home in homes.items()
        if (home.data_dir / home.database_name).exists() or (home.data_dir / f"{role}.key").exists()
    ]
    if len(found) != 1:
        raise InvalidSetting(
            f"Which service is meant cannot be seen from {homes['source'].data_dir}.",
            f"Say which: crossward doctor {' | '.join(SETTINGS)}, and set CROSSWARD_DATA_DIR.",
        )
    return found[0]


def _table(findings: list[Finding]) -> None:
    table = Table("check", "", "found", "what to do")
    for item in findings:
        verdict = f"[{COLOURS[item.verdict]}]{item.verdict}[/]"
        table.add_row(escape(item.check), verdict, escape(item.observation), escape(item.fix))
    Console().print(table)


def make_backup(role: str, data_dir: Path | None, file: Path, *, as_json: bool) -> None:
    """Back a service up and say what the file holds."""
    settings = settings_of(role, data_dir=data_dir)
    made = backup.backup(_kind(role, settings), settings, file)
    _say(made, f"{file}: {made.summary}. It holds private keys: keep it encrypted.", as_json and file != backup.PIPE)


def restore_backup(role: str, data_dir: Path | None, file: Path, *, as_json: bool) -> None:
    """Restore a service and say what it is now."""
    settings = settings_of(role, data_dir=data_dir)
    made = backup.restore(_kind(role, settings), settings, file)
    said = f"{settings.data_dir}: {made.summary}, as of {made.created}. Start it with: crossward {role} serve"
    _say(made, said, as_json)


def _say(made: Manifest, words: str, as_json: bool) -> None:
    """For people on standard error: a backup may be on standard output."""
    if as_json:
        print(json.dumps(asdict(made)))
    else:
        Console(stderr=True).print(escape(words), highlight=False, soft_wrap=True)


def _kind(role: str, settings: Any) -> backup.Kind:
    if role == "coordinator":
        made: backup.Kind = importlib.import_module("crossward_coordinator.backup").kind(settings)
        return made
    return importlib.import_module("crossward_site.backup").kind(settings)  # type: ignore[no-any-return]
