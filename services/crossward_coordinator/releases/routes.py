"""Releases: what has left a site, by its digest, with the signature of the party that made it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from crossward.protocol import messages
from crossward.protocol.envelopes import SignedReceipt, SignedRelease
from crossward_coordinator.access import Reader, Reading
from crossward_coordinator.openapi import answers
from crossward_coordinator.releases import service

router = APIRouter(prefix="/v1/releases", tags=["releases"])

Digest = Annotated[messages.Digest, Path()]


@router.get("/{digest}", response_class=Response, responses=answers(SignedRelease, "A signed release."))
def show(digest: Digest, _: Reader, connection: Reading) -> Response:
    """A signed release. Whoever fetches it checks digest and signature."""
    return Response(service.release(connection, digest), media_type="application/json")


@router.get("/{digest}/receipt", response_class=Response, responses=answers(SignedReceipt, "The receipt of a release."))
def show_receipt(digest: Digest, _: Reader, connection: Reading) -> Response:
    """When a release was accepted, countersigned: it counts if that was before its key was revoked."""
    return Response(service.receipt(connection, digest), media_type="application/json")
