"""Studies: check, create, list, start, cancel, watch."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated

import anyio
from anyio import to_thread
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from crossward.errors import Problem, StudyInvalid
from crossward.protocol.states import StudyState
from crossward.study import Study
from crossward_coordinator.access import (
    After,
    Body,
    Lead,
    Own,
    Person,
    Reader,
    Reading,
    StudyId,
    Times,
    Writing,
    engine_of,
    form,
    machine_of,
    sent,
    settings_of,
)
from crossward_coordinator.openapi import sends_form, sends_text
from crossward_coordinator.studies import events, public_sets, service
from crossward_coordinator.studies.events import Event
from crossward_coordinator.studies.public_sets import PublicSet
from crossward_coordinator.studies.tables import STUDY_STATES, find_study
from crossward_coordinator.studies.views import (
    CheckedView,
    EventView,
    PublicSetView,
    StudyPage,
    StudySummary,
    StudyView,
)
from crossward_service.db.engine import read
from crossward_service.http.views import Form

router = APIRouter(prefix="/v1/studies", tags=["studies"])

SILENCE_SECONDS = 15.0
"""After so long without an event, a watcher is told that we are still here."""

EVENTS_AT_ONCE = 200


class CancelBody(Form):
    """Why; everyone may read it."""

    reason: Annotated[str, Field(max_length=500, pattern=r"^[^\x00-\x1f]*$")] = ""


def _read(body: bytes) -> Study:
    try:
        return Study.from_yaml(body.decode("utf-8"))
    except UnicodeDecodeError:
        raise StudyInvalid([Problem(None, "", "The file is not UTF-8.", "Save it as UTF-8.")]) from None


def _public_set(request: Request, study: StudyId, body: Body) -> PublicSet:
    with read(engine_of(request)) as connection:
        return public_sets.check(connection, study, body)


@router.post("/check", openapi_extra=sends_text("application/yaml"))
def check(_: Person, study: Annotated[Study, sent(_read)]) -> CheckedView:
    """Check a study file; a refusal lists every problem with its line and field."""
    return CheckedView.of(study)


@router.post(
    "",
    status_code=201,
    openapi_extra=sends_text("application/yaml"),
    responses={200: {"model": StudySummary, "description": "It was here already."}},
)
def create(
    lead: Lead, study: Annotated[Study, sent(_read)], response: Response, times: Times, connection: Writing
) -> StudySummary:
    """Check and store a study. The same study again is the same; another under its id is refused."""
    if not service.create(connection, study, lead.name, times.time()):
        response.status_code = 200
    return StudySummary.of(find_study(connection, study.id))


@router.get("")
def list_studies(
    _: Reader,
    connection: Reading,
    after: After = "",
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> StudyPage:
    """All studies, in the order of their ids."""
    records = service.page(connection, after, limit)
    return StudyPage(
        items=[StudySummary.of(stored) for stored in records], next=records[-1].id if len(records) == limit else None
    )


@router.get("/{study}")
def show(study: StudyId, _: Reader, connection: Reading) -> StudyView:
    """State, cause, tasks, whom the study waits for and since when."""
    return StudyView.of_overview(service.overview(connection, study))


@router.get("/{study}/document")
def document(study: StudyId, _: Reader, connection: Reading) -> Response:
    """The study in its canonical form: its SHA-256 is the study's digest."""
    return Response(find_study(connection, study).document, media_type="application/json")


@router.put("/{study}/public-set", openapi_extra=sends_text("text/csv"))
def put_public_set(
    study: StudyId,
    _: Lead,
    public_set: Annotated[PublicSet, Depends(_public_set)],
    connection: Writing,
) -> PublicSetView:
    """The aggregator's public records (feature method), before the study starts."""
    public_sets.put(connection, study, public_set)
    return PublicSetView.of(public_set)


@router.post("/{study}/start")
def start(study: StudyId, _: Lead, times: Times, connection: Writing) -> StudyView:
    """Open the first tasks, if everybody the study names can take part."""
    service.start(connection, study, times.now(connection))
    return StudyView.of_overview(service.overview(connection, study))


@router.post("/{study}/cancel", openapi_extra=sends_form(CancelBody, required=False))
def cancel(
    study: StudyId,
    _: Lead,
    body: Annotated[CancelBody, sent(form(CancelBody, empty=b"{}"))],
    own: Own,
    times: Times,
    connection: Writing,
) -> StudyView:
    """End the study. Charges stand; results that come later are refused."""
    service.cancel(connection, own, study, body.reason, times.now(connection))
    return StudyView.of_overview(service.overview(connection, study))


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
    pause, elapsed = settings_of(request).poll_seconds, machine_of(request).elapsed
    silent = elapsed()
    while not request.app.state.stopping.is_set():
        state, new = await to_thread.run_sync(_look, request, study, last)
        for event in new:
            last = event.number
            yield _sse(event)
        if state in STUDY_STATES.ends and len(new) < EVENTS_AT_ONCE:
            return
        if new:
            silent = elapsed()
            continue
        if elapsed() - silent > SILENCE_SECONDS:
            silent = elapsed()
            yield ": alive\n\n"
        await anyio.sleep(pause)


def _look(request: Request, study: str, last: int) -> tuple[StudyState, list[Event]]:
    """State and events of one moment: no event can come after the one that ends the study."""
    with read(engine_of(request)) as connection:
        return find_study(connection, study).state, events.after(connection, study, last, EVENTS_AT_ONCE)


def _sse(event: Event) -> str:
    """An event as it is streamed: in ASCII, because some characters would end a line for whoever reads it."""
    data = json.dumps(EventView.of(event).model_dump(mode="json"))
    return f"id: {event.number}\nevent: {event.kind}\ndata: {data}\n\n"
