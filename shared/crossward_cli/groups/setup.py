"""`crossward tls` and `crossward secret`: what a deployment without a CA or a vault of its own begins with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def tls(
    services: Annotated[
        list[str], typer.Argument(help="NAME=FOLDER of each service; several names: coordinator,study.example.org=tls")
    ],
    ca: Annotated[Path, typer.Option("--ca", help="The authority's own folder; nobody else needs its key.")],
    trust: Annotated[Path | None, typer.Option(help="A folder for ca.pem alone, for those who only call.")] = None,
    group: Annotated[bool, typer.Option("--group", help="Let the folder's group read the keys.")] = False,
) -> None:
    """Make a private certificate authority and a certificate for each service; what is still good stays."""
    from crossward_cli.setup import make_certificates

    make_certificates(ca, services, trust=trust, mode=0o640 if group else 0o600)


def secret(
    file: Annotated[Path, typer.Argument(help="Where to put it.")],
    group: Annotated[bool, typer.Option("--group", help="Let the file's group read it.")] = False,
) -> None:
    """Put a new random secret into a file, such as a database's password; one that is there stays."""
    from crossward_cli.setup import make_secret

    make_secret(file, mode=0o640 if group else 0o600)
