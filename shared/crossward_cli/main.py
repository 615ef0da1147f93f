"""`crossward`: wires the commands.

A command's module is loaded when the command is called, and help is plain text, so that it comes at once.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from crossward.errors import CrosswardError
from crossward.version import __version__
from crossward_cli.extras import REFUSED, missing_part, print_missing
from crossward_cli.output import print_error, print_error_json, tell

SECTIONS = {
    "Studies, for a lead or an auditor": {
        "study": "Studies: check a file, create, start, watch, cancel.",
        "plan": (
            "A power analysis: the AUC to expect of each method and epsilon, from the study file and public counts "
            "alone."
        ),
        "party": "Who takes part: invite, list, revoke.",
        "ledger": "Ledgers: export, read, and verify them offline.",
    },
    "A hospital's own site, for its steward": {
        "site": "Your own site: join, data, policy, approvals, status.",
        "predict": "Predict with a target's model, for its own patients.",
        "evaluate": "How well a target's model does on its own holdout. It stays at the site.",
        "release-auc": "Release a target's AUC on its holdout with noise, paid for: this number may leave the house.",
    },
    "Services, for an operator": {
        "coordinator": "Run a coordinator.",
        "source": "Run a source.",
        "target": "Run a target.",
        "doctor": (
            "Examine a service on its own machine, running or not: what is wrong, and what to fix. It changes nothing."
        ),
        "tls": "Make a private certificate authority and a certificate for each service; what is still good stays.",
        "secret": "Put a new random secret into a file, such as a database's password; one that is there stays.",
    },
    "The laboratory": {
        "demo": "A coordinator and hospitals as real services: a study from file to predictions.",
        "simulate": "Simulated hospitals: every method side by side; or the services, in thousands of disasters.",
        "audit": "Put every mechanism to the test, and the test itself: planted faults must be caught.",
        "bench": "Measure Crossward: its accuracy on the papers' data, and its speed.",
    },
    "This program": {"version": "Print the version."},
}
"""Every command with its help as its own module says it, which a test compares; in the order of the page."""

HELP = {name: words for section in SECTIONS.values() for name, words in section.items()}


def load(name: str) -> Any:  # noqa: PLR0912 - a branch for each command
    """A command, or a group of them: its module is imported now, and not before."""
    found: Any
    match name:
        case "study":
            from crossward_cli.studies import group as found
        case "plan":
            from crossward_cli.planning import plan as found
        case "party":
            from crossward_cli.parties import group as found
        case "ledger":
            from crossward_cli.ledger import group as found
        case "site":
            from crossward_cli.site import group as found
        case "predict":
            from crossward_cli.models import predict as found
        case "evaluate":
            from crossward_cli.models import evaluate as found
        case "release-auc":
            from crossward_cli.models import release_auc as found
        case "coordinator":
            from crossward_cli.services import coordinator as found
        case "source":
            from crossward_cli.services import source as found
        case "target":
            from crossward_cli.services import target as found
        case "doctor":
            from crossward_cli.services import doctor as found
        case "tls":
            from crossward_cli.setup import tls as found
        case "secret":
            from crossward_cli.setup import secret as found
        case "demo":
            from crossward_cli.demo import group as found
        case "simulate":
            from crossward_cli.simulate import group as found
        case "audit":
            from crossward_cli.lab import audit as found
        case "bench":
            from crossward_cli.bench import group as found
        case "version":
            found = show_version
        case _:
            return None
    if isinstance(found, typer.Typer):
        command: Any = get_group(found)
    else:
        alone = typer.Typer(add_completion=False)
        alone.command()(found)
        command = get_command(alone)
    command.name = name
    return command


class Commands(TyperGroup):
    """The commands by name, each loaded when it is called. `Any` stands for what typer keeps to itself."""

    def __init__(self, **settings: Any) -> None:
        names: Any = dict.fromkeys(HELP)  # for the order, and for who mistypes one
        super().__init__(**settings | {"commands": names})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Without arguments there is help, and nothing was done."""
        if not args:
            print(ctx.get_help())
            raise typer.Exit(REFUSED)
        return super().parse_args(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command, loaded now."""
        return load(cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Usage, options, and the commands by section, all in one column."""
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        self.format_options(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The commands from the table: nothing is loaded."""
        width = max(map(len, HELP))
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), words) for name, words in section.items()])


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
