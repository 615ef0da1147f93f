"""What an installation may leave out, and how a command that needs it says so.

`pip install crossward` is the library alone; the command line, the services and the laboratory are extras
(pyproject.toml). A hospital's image has all of them but the laboratory's own package.
"""

from __future__ import annotations

import sys

from crossward.errors import CrosswardError
from crossward_cli.output import print_error_json

REFUSED = 2
"""The exit code where something was refused: by us, or by whoever reads the options."""

EXTRAS = {
    "typer": "cli",
    "rich": "cli",
    "fastapi": "services",
    "starlette": "services",
    "anyio": "services",
    "uvicorn": "services",
    "sqlalchemy": "services",
    "alembic": "services",
    "psycopg": "services",
    "pydantic_settings": "services",
    "prometheus_client": "services",
    "pyarrow": "services",
    "matplotlib": "plots",
    "greenlet": "lab",
    "crossward_lab": "lab",
}
"""Which extra brings a module."""

PARTS = {
    "cli": "The command line",
    "services": "What runs a coordinator or a site",
    "plots": "What draws figures",
    "lab": "The laboratory (bench, audit, simulate, demo)",
}


class NotInstalled(CrosswardError):
    """A part of Crossward that this installation leaves out."""


def missing_part(error: ModuleNotFoundError) -> NotInstalled:
    """The error in our words if an extra brings the module; any other that is missing is a bug and shows itself."""
    extra = EXTRAS.get(error.name or "")
    if extra is None:
        raise error
    return NotInstalled(
        f"{PARTS[extra]} is not part of this installation.",
        f'It comes with the extra crossward[{extra}]: in a checkout, pip install ".[{extra}]".',
    )


def print_missing(missing: NotInstalled, *, as_json: bool) -> None:
    """One line on standard error, without rich, which may be what is missing."""
    if as_json:
        print_error_json(type(missing).__name__, missing.cause, missing.fix)
    else:
        print(f"error {type(missing).__name__}: {missing}", file=sys.stderr)
