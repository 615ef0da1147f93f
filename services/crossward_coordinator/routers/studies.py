"""Studies: check, create, list, start, cancel, watch."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

import anyio
from anyio import to_thread
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection, Row

from crossward.errors import Problem, StudyInvalid
from crossward.study import Study
from crossward_coordinator.openapi import sends_form, sends_text
from crossward_coordinator.routers.access import (
    After,
    Body,
    Lead,
    Own,
    Person,
    Reader,
    Reading,
    StudyId,
    Writing,
    engine_of,
    form,
    sent,
    settings_of,
)
from crossward_coordinator.views import (
    CheckedView,
    PublicSetView,
    StudyPage,
    StudySummary,
    StudyView,
    study_view,
    summary,
)
from crossward_coordinator.workflows import events, public_sets, studies
from crossward_coordinator.workflows.rows import ENDED, moment, study_row
from crossward_service.db.engine import read

router = APIRouter(prefix="/v1/studies", tags=["studies"])

ALIVE = 15.0  # seconds of silence after which a watcher is told that we are still here
PAGE = 200


class CancelBody(BaseModel):
    """Why; everyone may read it."""

    model_config = ConfigDict(extra="forbid")

    reason: Annotated[str, Field(max_length=500, pattern=r"^[^\x00-\x1f]*$")] = ""


def _read(body: bytes) -> Study:
    try:
        return Study.from_yaml(body.decode("utf-8"))
    except UnicodeDecodeError:
        raise StudyInvalid([Problem(None, "", "The file is not UTF-8.", "Save it as UTF-8.")]) from None


def _public_set(request: Request, study: StudyId, body: Body) -> public_sets.PublicSet:
    with read(engine_of(request)) as connection:
        return public_sets.check(connection, study, body)


@router.post("/check", openapi_extra=sends_text("application/yaml"))
def check(_: Person, study: Annotated[Study, sent(_read)]) -> CheckedView:
    """Check a study file; a refusal lists every problem with its line and field."""
    return CheckedView(
        id=study.id,
        digest=study.digest,
        method=study.method.name,
        sources=list(study.sources),
        targets=list(study.targets),
    )


@router.post(
    "",
    status_code=201,
    openapi_extra=sends_text("application/yaml"),
    responses={200: {"model": StudySummary, "description": "It was here already."}},
)
def create(lead: Lead, study: Annotated[Study, sent(_read)], response: Response, connection: Writing) -> StudySummary:
    """Check and store a study. The same study again is the same; another under its id is refused."""
    if not studies.create(connection, study, lead.name, time.time()):
        response.status_code = 200
    return summary(study_row(connection, study.id))


@router.get("")
def list_studies(
    _: Reader,
    connection: Reading,
    after: After = "",
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> StudyPage:
    """All studies, in the order of their ids."""
    rows = studies.page(connection, after, limit)
    return StudyPage(items=[summary(row) for row in rows], next=rows[-1].id if len(rows) == limit else None)


@router.get("/{study}")
def show(study: StudyId, _: Reader, connection: Reading) -> StudyView:
    """State, cause, tasks, whom the study waits for and since when."""
    return study_view(studies.overview(connection, study))


@router.get("/{study}/document")
def document(study: StudyId, _: Reader, connection: Reading) -> Response:
    """The study in its canonical form: its SHA-256 is the study's digest."""
    return Response(study_row(connection, study).document, media_type="application/json")


@router.put("/{study}/public-set", openapi_extra=sends_text("text/csv"))
def put_public_set(
    study: StudyId,
    _: Lead,
    given: Annotated[public_sets.PublicSet, Depends(_public_set)],
    connection: Writing,
) -> PublicSetView:
    """The aggregator's public records (feature method), before the study starts."""
    public_sets.put(connection, study, given)
    return PublicSetView(digest=given.digest, records=given.records)


@router.post("/{study}/start")
def start(study: StudyId, _: Lead, connection: Writing) -> StudyView:
    """Open the first tasks, if everybody the study names can take part."""
    studies.start(connection, study, time.time())
    return study_view(studies.overview(connection, study))


@router.post("/{study}/cancel", openapi_extra=sends_form(CancelBody, required=False))
def cancel(
    study: StudyId,
    _: Lead,
    body: Annotated[CancelBody, sent(form(CancelBody, empty=b"{}"))],
    own: Own,
    connection: Writing,
) -> StudyView:
    """End the study. Charges stand; results that come later are refused."""
    studies.cancel(connection, own, study, body.reason, time.time())
    return study_view(studies.overview(connection, study))


@router.get("/{study}/events", response_class=StreamingResponse)
async def watch(
    request: Request, study: StudyId, _: Reader, after: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0
) -> StreamingResponse:
    """Server-sent events, those after number `after` (or Last-Event-ID) first; ends when the study has ended."""
    last = request.headers.get("last-event-id", "")
    first = int(last) if last.isascii() and last.isdigit() and len(last) < 10 else after
    await to_thread.run_sync(_look, request, study, first)  # an unknown study is refused before the stream begins
    return StreamingResponse(_stream(request, study, first), media_type="text/event-stream")


async def _stream(request: Request, study: str, last: int) -> AsyncIterator[str]:
    pause, silent = settings_of(request).poll_seconds, time.monotonic()
    while not request.app.state.stopping.is_set():
        state, found = await to_thread.run_sync(_look, request, study, last)
        for event in found:
            last = event.number
            yield _event(event)
        if state in ENDED and len(found) < PAGE:
            return
        if found:
            silent = time.monotonic()
            continue
        if time.monotonic() - silent > ALIVE:
            silent = time.monotonic()
            yield ": alive\n\n"
        await anyio.sleep(pause)


def _look(request: Request, study: str, last: int) -> tuple[str, list[Row[Any]]]:
    """State and events of one moment: no event can come after the one that ends the study."""
    with read(engine_of(request)) as connection:
        return _state(connection, study), events.after(connection, study, last, PAGE)


def _state(connection: Connection, study: str) -> str:
    return str(study_row(connection, study).state)


def _event(row: Row[Any]) -> str:
    data = {
        "number": row.number,
        "time": moment(row.time).isoformat(),
        "kind": row.kind,
        "party": row.party,
        "text": row.text,
    }
    return f"id: {row.number}\nevent: {row.kind}\ndata: {json.dumps(data)}\n\n"
