"""What commands print: tables and sentences for people, JSON for machines, and how far a long one is.

rich is loaded by what prints with it: plain texts and JSON come without.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from crossward.errors import CrosswardError, StudyInvalid

if TYPE_CHECKING:
    from rich.progress import Progress

    from crossward.client.site import Heard


def print_json(value: Any) -> None:
    """A value for machines."""
    print(json.dumps(value, indent=2))


def tell(value: Any, text: str, *, as_json: bool) -> None:
    """What came of a command: a sentence for people, all of it for machines."""
    if as_json:
        print_json(value)
    else:
        print(text)


def say(text: str, *, wrap: bool = True) -> None:
    """A text with markup for people; without `wrap` its lines stay as they are, to be copied."""
    from rich.console import Console

    Console().print(text, highlight=False, soft_wrap=not wrap)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table of plain values: nothing in them is read as markup."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(*headings)
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    Console().print(table)


def print_pairs(pairs: Iterable[tuple[str, str]]) -> None:
    """Names and values, which may hold markup, one below the other."""
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in pairs:
        table.add_row(f"[bold]{name}[/]", value)
    Console().print(table)


def progress_bar() -> Progress:
    """How far something is that goes on in steps; it leaves nothing behind."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("[bold]{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    return Progress(*columns, console=Console(stderr=True), transient=True)


def clock_bar() -> Progress:
    """How far something is whose steps tell nobody anything; it leaves nothing behind."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("[bold]{task.description}"), BarColumn(), TimeElapsedColumn()
    return Progress(*columns, console=Console(stderr=True), transient=True)


def print_error(error: CrosswardError, *, as_json: bool) -> None:
    """One of our own errors, on standard error: what is wrong and what to do about it."""
    if as_json:
        print_error_json(type(error).__name__, error.cause, error.fix)
        return
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True)
    console.print(f"[bold red]error[/] {type(error).__name__}: {escape(error.cause)}", highlight=False)
    if isinstance(error, StudyInvalid):
        for problem in error.problems:
            console.print(f"  {escape(str(problem))}", highlight=False)
    elif error.fix:
        console.print(f"  [bold]fix[/] {escape(error.fix)}", highlight=False)


def print_error_json(kind: str, cause: str, fix: str) -> None:
    """An error for machines, on one line: something may stand above it."""
    print(json.dumps({"error": kind, "cause": cause, "fix": fix}), file=sys.stderr)


@contextmanager
def following(json: bool) -> Iterator[Heard]:
    """Shows how far a job is while it goes on, where somebody looks; whoever stops looking is told that it goes on."""
    last: dict[str, Any] = {}
    try:
        if json or not sys.stderr.isatty():
            yield last.update
            return
        with clock_bar() as bar:
            task = bar.add_task("waiting", total=1.0)

            def show(job: dict[str, Any]) -> None:
                last.update(job)
                bar.update(task, completed=job["progress"], description=job["step"] or job["state"])

            yield show
    except KeyboardInterrupt:
        if last:
            number, ours = last["number"], "crossward site data"
            cause = f"Job {number} goes on at the site."
            fix = f"`{ours} follow {number}` waits for it, `{ours} cancel {number}` ends it."
            if json:
                print_error_json("Interrupted", cause, fix)
            else:
                print(cause, fix, file=sys.stderr)
        raise
