"""`crossward tls` and `crossward secret`: what a deployment without a CA or a vault of its own begins with."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated

import typer

from crossward.errors import InvalidSetting, StorageFailed
from crossward_cli.options import Json
from crossward_cli.output import print_json, tell
from crossward_service.ops.files import write_file

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
OWNER_ONLY, OWNER_AND_GROUP = 0o600, 0o640


def tls(
    services: Annotated[
        list[str], typer.Argument(help="NAME=FOLDER of each service; several names: coordinator,study.example.org=tls")
    ],
    ca: Annotated[Path, typer.Option("--ca", help="The authority's own folder; nobody else needs its key.")],
    trust: Annotated[Path | None, typer.Option(help="A folder for ca.pem alone, for those who only call.")] = None,
    group: Annotated[bool, typer.Option("--group", help="Let the folder's group read the keys.")] = False,
    json: Json = False,
) -> None:
    """Make a private certificate authority and a certificate for each service; what is still good stays."""
    from crossward_service.http.tls import Authority

    authority = Authority.open(ca)
    if trust is not None:
        authority.publish(trust)
    certificates = []
    for service in services:
        names, equals, folder = service.rpartition("=")
        if not (equals and names and folder):
            raise InvalidSetting(f"{service!r} is not NAME=FOLDER.", "Write coordinator=tls/coordinator.")
        mode = OWNER_AND_GROUP if group else OWNER_ONLY
        is_new = authority.serve(Path(folder), (*names.split(","), *LOOPBACK_NAMES), mode)
        certificates.append({"names": names.split(","), "folder": folder, "new": is_new})
        if not json:
            print(f"{names}: {'made' if is_new else 'still good'}, in {folder}")
    if json:
        print_json(certificates)


def secret(
    file: Annotated[Path, typer.Argument(help="Where to put it.")],
    group: Annotated[bool, typer.Option("--group", help="Let the file's group read it.")] = False,
    json: Json = False,
) -> None:
    """Put a new random secret into a file, such as a database's password; one that is there stays."""
    if file.exists():
        tell({"file": str(file), "new": False}, f"{file} is there and stays.", as_json=json)
        return
    if not file.absolute().parent.is_dir():  # a mistyped path would hide the secret in a new folder
        raise StorageFailed(f"The folder {file.parent} is not there.", "Make it first, or correct the path.")
    write_file(file, secrets.token_urlsafe(32).encode(), OWNER_AND_GROUP if group else OWNER_ONLY)
    tell({"file": str(file), "new": True}, f"{file}: made.", as_json=json)
