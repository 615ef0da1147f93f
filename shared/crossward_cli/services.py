"""`crossward coordinator|source|target`: the services live in packages of their own, loaded by name."""

from __future__ import annotations

import importlib
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from sqlalchemy import Engine

from crossward.errors import NotReady
from crossward_service.db.engine import connect, read, write
from crossward_service.ops.files import write_file

ROLES = {"coordinator": ("operator", "lead", "auditor"), "source": ("steward",), "target": ("steward",)}
SETTINGS = {"coordinator": "CoordinatorSettings", "source": "SourceSettings", "target": "TargetSettings"}


def settings_of(role: str, **overrides: Any) -> Any:
    """The settings of a service, options before variables before the file."""
    kind = getattr(importlib.import_module(f"crossward_{role}.settings"), SETTINGS[role])
    return kind.load(**{name: value for name, value in overrides.items() if value is not None})


def _main(role: str) -> Any:
    return importlib.import_module("crossward_coordinator.main" if role == "coordinator" else "crossward_site.main")


def initialise(role: str, data_dir: Path | None, *, as_json: bool) -> None:
    """Initialise a service and print its first tokens."""
    settings = settings_of(role, data_dir=data_dir)
    made = _main(role).init(settings)
    tokens = dict(made.tokens) if role == "coordinator" else {} if made is None else {"steward": made}
    if as_json:
        print(json.dumps({"data_dir": str(settings.data_dir), "tokens": tokens}))
        return
    console = Console()
    console.print(f"The {role} is ready in {settings.data_dir}.", highlight=False)
    if tokens:
        console.print("Tokens, shown now and never again:", highlight=False)
        for name, token in tokens.items():
            console.print(f"  {name:9} {token}", highlight=False, soft_wrap=True)
    else:
        console.print(f"It was there already; make another token with: crossward {role} token", highlight=False)
    console.print(f"Start it with: crossward {role} serve", highlight=False)


def initialise_quietly(role: str, data_dir: Path | None, folder: Path) -> None:
    """Initialise a service and leave a token of each role in a file; a file that is there stays.

    Killed between the database and the files, the next call finds tokens without files and makes others: those whose
    hash alone is left can open nothing.
    """
    settings = settings_of(role, data_dir=data_dir)
    made = _main(role).init(settings)
    first = dict(made.tokens) if role == "coordinator" else {"steward": made}
    for kind in ROLES[role]:
        path = folder / kind
        if not path.exists():
            secret = first.get(kind) or _issue(role, settings, kind, f"{kind} {secrets.token_hex(4)}")
            write_file(path, f"{secret}\n".encode())


def new_token(role: str, data_dir: Path | None, kind: str, name: str) -> None:
    """Make one more token and print it."""
    print(_issue(role, settings_of(role, data_dir=data_dir), kind, name))


def show_tokens(role: str, data_dir: Path | None, *, as_json: bool) -> None:
    """Who holds a token, as what, since when. Nobody can show the tokens themselves: their hashes alone are kept."""
    settings = settings_of(role, data_dir=data_dir)
    if role == "coordinator":
        with _database(settings) as engine, read(engine) as connection:
            held = _coordinators_tokens().held(connection)
    else:
        held = _site_commands().held_tokens(settings)
        held = [(token.name, token.role, token.created) for token in held]
    rows = [(name, kind, datetime.fromtimestamp(made, UTC).isoformat(timespec="seconds")) for name, kind, made in held]
    if as_json:
        print(json.dumps([dict(zip(("name", "role", "since"), row, strict=True)) for row in rows], indent=2))
        return
    table = Table("name", "role", "since")
    for row in rows:
        table.add_row(*(escape(text) for text in row))
    Console().print(table)


def revoke_token(role: str, data_dir: Path | None, name: str, *, as_json: bool) -> None:
    """Make a token worthless; a running service looks at every request's token anew."""
    settings = settings_of(role, data_dir=data_dir)
    if role == "coordinator":
        with _database(settings) as engine, write(engine) as connection:
            _coordinators_tokens().revoke(connection, name)
    else:
        _site_commands().revoke_token(settings, name)
    print(json.dumps({"revoked": name}) if as_json else f"The token of {name} opens nothing any more.")


def _issue(role: str, settings: Any, kind: str, name: str) -> str:
    if role == "coordinator":
        _check_there(settings)
        made = _main(role).issue_token(settings, kind, name)
    else:
        made = _site_commands().new_token(settings, kind, name)
    return str(made)


def _site_commands() -> Any:
    return importlib.import_module("crossward_site.main")


def _coordinators_tokens() -> Any:
    return importlib.import_module("crossward_coordinator.workflows.tokens")


def _check_there(settings: Any) -> None:
    """Refuse a data directory without a database, which SQLite would make."""
    database = settings.sqlite_file
    if database is not None and not database.is_file():
        raise NotReady(f"The database {database} is not there.", "Is this the right data directory?")


@contextmanager
def _database(settings: Any) -> Iterator[Engine]:
    _check_there(settings)
    engine = connect(settings.database_url)
    try:
        yield engine
    finally:
        engine.dispose()


def run(role: str, data_dir: Path | None, host: str | None, port: int | None) -> None:
    """Serve until stopped."""
    _main(role).serve(settings_of(role, data_dir=data_dir, host=host, port=port))
