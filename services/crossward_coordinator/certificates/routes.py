"""Certificates: what a study released, signed by the coordinator; and the program that verifies them."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from crossward.client.bundle import verifier
from crossward.protocol.certificate import SignedCertificate
from crossward_coordinator.access import Reader, Reading, StudyId
from crossward_coordinator.certificates import service
from crossward_coordinator.openapi import answers

router = APIRouter(prefix="/v1", tags=["certificates"])


@router.get(
    "/studies/{study}/certificate",
    response_class=Response,
    responses=answers(SignedCertificate, "The signed certificate; as text, what it says."),
)
def show(
    study: StudyId, _: Reader, connection: Reading, form: Annotated[Literal["signed", "text"], Query()] = "signed"
) -> Response:
    """The privacy certificate of a study that has ended: signed, or as a text for people."""
    signed = service.find(connection, study)
    if form == "text":
        return Response(signed.content().text(), media_type="text/plain; charset=utf-8")
    return Response(signed.canonical(), media_type="application/json")


@router.get("/verifier", response_class=Response)
def show_verifier() -> Response:
    """The verifier of certificates, releases, receipts and ledgers: one Python file that imports nothing of ours."""
    return Response(verifier(), media_type="text/x-python; charset=utf-8")
