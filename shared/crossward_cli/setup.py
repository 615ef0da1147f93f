"""What `crossward tls` and `crossward secret` do."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path

from crossward.errors import InvalidSetting, StorageFailed
from crossward_service.http.tls import Authority
from crossward_service.ops.files import write_file

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def make_certificates(ca: Path, services: Sequence[str], *, trust: Path | None, mode: int) -> None:
    """Certificates for services given as NAME[,NAME...]=FOLDER; the authority's, for callers, into `trust`."""
    authority = Authority.open(ca)
    if trust is not None:
        authority.publish(trust)
    for service in services:
        names, equals, folder = service.rpartition("=")
        if not (equals and names and folder):
            raise InvalidSetting(f"{service!r} is not NAME=FOLDER.", "Write coordinator=tls/coordinator.")
        made = authority.serve(Path(folder), (*names.split(","), *LOOPBACK), mode)
        print(f"{names}: {'made' if made else 'still good'}, in {folder}")


def make_secret(file: Path, *, mode: int) -> None:
    """A secret of 256 random bits."""
    if file.exists():
        print(f"{file} is there and stays.")
        return
    if not file.absolute().parent.is_dir():  # a mistyped path would hide the secret in a new folder
        raise StorageFailed(f"The folder {file.parent} is not there.", "Make it first, or correct the path.")
    write_file(file, secrets.token_urlsafe(32).encode(), mode)
    print(f"{file}: made.")
