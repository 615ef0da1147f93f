"""`crossward`: wires the commands. A command loads what it needs when it is called, so that help comes at once."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from crossward.errors import CrosswardError
from crossward.version import __version__
from crossward_cli import bench, demo, lab, ledger, models, parties, planning, services, setup, site, studies
from crossward_cli.options import Json
from crossward_cli.output import print_error, print_error_json, tell

REFUSED = 2
"""The exit code where something was refused: by us, or by whoever reads the options."""

commands = typer.Typer(
    help="Hospitals learn from one another under differential privacy.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
)
for name in ("coordinator", "source", "target"):
    commands.add_typer(services.group_of(services.SERVICES[name]), name=name)
services.add_commands(site.group, services.SERVICES["site"])
commands.command("doctor")(services.doctor)
commands.add_typer(parties.group, name="party")
commands.add_typer(studies.group, name="study")
commands.command("plan")(planning.plan)
commands.add_typer(site.group, name="site")
commands.command("predict")(models.predict)
commands.command("evaluate")(models.evaluate)
commands.command("release-auc")(models.release_auc)
commands.add_typer(ledger.group, name="ledger")
commands.command("tls")(setup.tls)
commands.command("secret")(setup.secret)
commands.add_typer(demo.group, name="demo")
commands.command("simulate")(lab.simulate)
commands.command("audit")(lab.audit)
commands.add_typer(bench.group, name="bench")


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


@commands.command("version")
def show_version(json: Json = False) -> None:
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
    except typer.Abort:
        code = 1
    except typer.TyperException as error:
        print_error_json("UsageError", error.format_message(), "Every command takes --help.")
        code = REFUSED
    sys.exit(code)
