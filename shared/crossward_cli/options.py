"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crossward_cli.connections import wait_for_file
from crossward_service.ops.files import secret_of


def _secret(context: typer.Context, given: str) -> str:
    """A token as it was given; `site join` often follows the site's very first start, which makes the token."""
    if context.info_name == "join" and given.startswith("@"):
        wait_for_file(Path(given[1:]))
    return secret_of(given)


Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of tables.")]
Coordinator = Annotated[
    str, typer.Option("--coordinator", envvar="CROSSWARD_COORDINATOR", help="The coordinator's address.")
]
Token = Annotated[
    str,
    typer.Option(
        "--token", envvar="CROSSWARD_TOKEN", callback=_secret, help="Your token at the coordinator, or @FILE."
    ),
]
SiteUrl = Annotated[str, typer.Option("--site", envvar="CROSSWARD_SITE", help="The address of your own site.")]
SiteToken = Annotated[
    str,
    typer.Option(
        "--site-token", envvar="CROSSWARD_SITE_TOKEN", callback=_secret, help="Your token at your site, or @FILE."
    ),
]
Ca = Annotated[
    Path | None, typer.Option("--ca", envvar="CROSSWARD_TLS_CA", help="Trust this CA bundle instead of the system's.")
]
Tokens = Annotated[
    Path | None,
    typer.Option("--tokens", help="Put the first tokens into files of this folder instead of printing them."),
]
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Where the service keeps everything; CROSSWARD_DATA_DIR otherwise.")
]

Workers = Annotated[int | None, typer.Option(min=1, help="Processes to use; all cores by default.")]
Study = Annotated[str, typer.Argument(help="The study's id.")]

LOOPBACK_COORDINATOR = "http://127.0.0.1:8400"
LOOPBACK_TARGET = "http://127.0.0.1:8402"
