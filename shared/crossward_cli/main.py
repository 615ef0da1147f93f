"""`crossward`: wires the commands.

A command's module is loaded when the command is called, and help is plain text, so that it comes at once.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from crossward.errors import CrosswardError
from crossward.version import __version__
from crossward_cli.extras import REFUSED, missing_part, print_missing
from crossward_cli.output import print_error, print_error_json, tell


class Entry(NamedTuple):
    """A command: where it is, and its help as its own module says it, which a test compares."""

    module: str
    name: str
    help: str

    def load(self, called: str) -> Any:
        """The command itself: a group of commands, or a function."""
        found = getattr(import_module(f"crossward_cli.{self.module}"), self.name)
        if isinstance(found, typer.Typer):
            command: Any = get_group(found)
        else:
            alone = typer.Typer(add_completion=False)
            alone.command()(found)
            command = get_command(alone)
        command.name = called
        return command


SECTIONS = {
    "Studies, for a lead or an auditor": {
        "study": Entry("studies", "group", "Studies: check a file, create, start, watch, cancel."),
        "plan": Entry(
            "planning",
            "plan",
            "A power analysis: the AUC to expect of each method and epsilon, from the study file and public counts "
            "alone.",
        ),
        "party": Entry("parties", "group", "Who takes part: invite, list, revoke."),
        "ledger": Entry("ledger", "group", "Ledgers: export, read, and verify them offline."),
    },
    "A hospital's own site, for its steward": {
        "site": Entry("site", "group", "Your own site: join, data, policy, approvals, status."),
        "predict": Entry("models", "predict", "Predict with a target's model, for its own patients."),
        "evaluate": Entry(
            "models", "evaluate", "How well a target's model does on its own holdout. It stays at the site."
        ),
        "release-auc": Entry(
            "models",
            "release_auc",
            "Release a target's AUC on its holdout with noise, paid for: this number may leave the house.",
        ),
    },
    "Services, for an operator": {
        "coordinator": Entry("services", "coordinator", "Run a coordinator."),
        "source": Entry("services", "source", "Run a source."),
        "target": Entry("services", "target", "Run a target."),
        "doctor": Entry(
            "services",
            "doctor",
            "Examine a service on its own machine, running or not: what is wrong, and what to fix. It changes nothing.",
        ),
        "tls": Entry(
            "setup",
            "tls",
            "Make a private certificate authority and a certificate for each service; what is still good stays.",
        ),
        "secret": Entry(
            "setup",
            "secret",
            "Put a new random secret into a file, such as a database's password; one that is there stays.",
        ),
    },
    "The laboratory": {
        "demo": Entry(
            "demo", "group", "A coordinator and hospitals as real services: a study from file to predictions."
        ),
        "simulate": Entry(
            "lab",
            "simulate",
            "The library alone on simulated hospitals: every method side by side, at a few epsilons.",
        ),
        "audit": Entry(
            "lab", "audit", "Put every mechanism to the test, and the test itself: planted faults must be caught."
        ),
        "bench": Entry("bench", "group", "Measure Crossward: its accuracy on the papers' data, and its speed."),
    },
    "This program": {"version": Entry("main", "show_version", "Print the version.")},
}
"""Every command, in the order of the help."""

ENTRIES = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


class Commands(TyperGroup):
    """The commands by name, each loaded when it is called. `Any` stands for what typer keeps to itself."""

    def __init__(self, **settings: Any) -> None:
        names: Any = dict.fromkeys(ENTRIES)  # for the order, and for who mistypes one
        super().__init__(**settings | {"commands": names})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Without arguments there is help, and nothing was done."""
        if not args:
            print(ctx.get_help())
            raise typer.Exit(REFUSED)
        return super().parse_args(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command, loaded now."""
        return ENTRIES[cmd_name].load(cmd_name) if cmd_name in ENTRIES else None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Usage, options, and the commands by section, all in one column."""
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        self.format_options(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The commands from the table: nothing is loaded."""
        width = max(map(len, ENTRIES))
        for title, entries in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), entry.help) for name, entry in entries.items()])


commands = typer.Typer(
    cls=Commands,
    help="Hospitals learn from one another under differential privacy.",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@commands.callback()
def crossward(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Every command takes --help."""


def show_version(
    json: Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of tables.")] = False,
) -> None:
    """Print the version."""
    tell({"version": __version__}, __version__, as_json=json)


def app() -> None:
    """The entry point: our own errors become one line and exit code 2, everything else is a bug and shows itself.

    With --json errors are JSON too, on standard error, and so is a command line that cannot be read.
    """
    as_json = "--json" in sys.argv[1:]
    try:
        code = commands(standalone_mode=not as_json)  # for people typer itself shows what is wrong with the options
    except CrosswardError as error:
        print_error(error, as_json=as_json)
        code = REFUSED
    except ModuleNotFoundError as error:
        print_missing(missing_part(error), as_json=as_json)
        code = REFUSED
    except typer.Abort:
        code = 1
    except typer.TyperException as error:
        print_error_json("UsageError", error.format_message(), "Every command takes --help.")
        code = REFUSED
    sys.exit(code)
