"""Releases: what has left a site, by its digest, with the signature of the party that made it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response
from sqlalchemy import Column, Connection, select

from crossward.errors import NotFound
from crossward.protocol.messages import SignedReceipt, SignedRelease
from crossward_coordinator.openapi import answers
from crossward_coordinator.routers.access import Reader, Reading
from crossward_coordinator.tables import results

router = APIRouter(prefix="/v1/releases", tags=["releases"])

Digest = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]


@router.get("/{digest}", response_class=Response, responses=answers(SignedRelease, "A signed release."))
def show(digest: Digest, _: Reader, connection: Reading) -> Response:
    """A signed release. Whoever fetches it checks digest and signature."""
    return _of(connection, digest, results.c.document)


@router.get("/{digest}/receipt", response_class=Response, responses=answers(SignedReceipt, "The receipt of a release."))
def receipt(digest: Digest, _: Reader, connection: Reading) -> Response:
    """When a release was accepted, countersigned: it counts if that was before its key was revoked."""
    return _of(connection, digest, results.c.receipt)


def _of(connection: Connection, digest: str, column: Column[str]) -> Response:
    document = connection.execute(select(column).where(results.c.digest == digest)).scalar_one_or_none()
    if document is None:
        raise NotFound(f"Nothing with the digest {digest} was released here.", "Studies list their releases' digests.")
    return Response(document, media_type="application/json")
