"""`crossward ledger show` and `verify`, from an exported ledger: anyone can check one offline."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from crossward.errors import InvalidSetting
from crossward.privacy.budget import NANO
from crossward.protocol.ledger.export import read_file, verify_file
from crossward.protocol.ledger.lines import Head, Line, OpenBody, ReserveBody


def show_lines(path: Path, *, as_json: bool) -> None:
    """Every line of an export."""
    lines = list(read_file(path))
    if as_json:
        print(json.dumps([line.to_dict() for line in lines], indent=2))
        return
    table = Table("line", "when (UTC)", "kind", "what", "epsilon", "hash")
    for line in lines:
        when = datetime.fromtimestamp(line.time / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        table.add_row(str(line.sequence), when, line.kind, *_what(line), line.hash[:8])
    Console().print(table)


def _what(line: Line) -> tuple[str, str]:
    body = line.body
    if isinstance(body, OpenBody):
        return f"{body.dataset}: {body.cells} cells, {body.filter}", f"{body.nano_epsilon / 10**NANO:g}"
    if isinstance(body, ReserveBody):
        return f"study {body.study}, {len(body.cells)} cells of {body.dataset}", f"{body.nano_epsilon / 10**NANO:g}"
    return f"{body.digest[:12]}... of the task reserved before", ""


def _head(text: str) -> Head:
    sequence, _, digest = text.partition(":")
    if not (sequence.isdigit() and len(digest) == 64):
        raise InvalidSetting(f"A head is NUMBER:HASH, not {text!r}.", "Copy it from a receipt or from the other side.")
    return Head(int(sequence), digest)


def show_verified(path: Path, head: str | None, *, as_json: bool) -> None:
    """Verify an export: every hash, every rule, every balance, and the head where one is given."""
    verified = verify_file(path, None if head is None else _head(head))
    found = verified.head
    spent = {name: balance.spend.nano_epsilon / 10**NANO for name, balance in verified.state.balances.items()}
    if as_json:
        print(json.dumps({"lines": found.sequence, "head": found.hash, "epsilon_spent": spent}))
        return
    console = Console()
    head_text = f"{found.sequence}:{found.hash}"
    console.print(f"[green]verified[/]: {found.sequence} lines, head {head_text}", highlight=False, soft_wrap=True)
    for name, epsilon in spent.items():
        console.print(f"  dataset {name}: epsilon {epsilon:g} spent", highlight=False)
