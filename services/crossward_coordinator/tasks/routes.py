"""Tasks: next, heartbeat, decline, result. All signed by the party whose tasks they are."""

from __future__ import annotations

from typing import Annotated

import anyio
from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request, Response

from crossward.protocol import messages
from crossward.protocol.envelopes import SignedReceipt
from crossward.protocol.tasks import DeclineMessage, HeartbeatMessage, ResultMessage, TaskMessage
from crossward_coordinator.access import (
    FromParty,
    Own,
    Protocol,
    Settings,
    Times,
    Writing,
    engine_of,
    machine_of,
    refuse,
    sent,
    settings_of,
    times_of,
)
from crossward_coordinator.ledger.service import Stopped
from crossward_coordinator.openapi import answers, sends
from crossward_coordinator.parties import service as parties
from crossward_coordinator.tasks import results, service
from crossward_coordinator.tasks.results import OpenedResult
from crossward_coordinator.tasks.views import PulseView
from crossward_service.db.engine import read, write
from crossward_service.ops.crash import crash_point

router = APIRouter(prefix="/v1/tasks", tags=["tasks"])

TaskId = Annotated[messages.TaskId, Path()]


@router.post(
    "/next",
    response_class=Response,
    responses={**answers(TaskMessage, "A task, leased."), 204: {"description": "There is none now."}},
)
async def next_task(
    request: Request,
    party: FromParty,
    settings: Settings,
    protocol: Annotated[Protocol, Query()],
    wait: Annotated[float, Query(ge=0, le=300)] = 0.0,
) -> Response:
    """Lease a task, waiting for one as long as `wait` seconds (30 at most). `protocol`: the party's newest version.

    The same task comes again until its first heartbeat: the answer may have been lost.
    """
    elapsed = machine_of(request).elapsed
    end = elapsed() + min(wait, settings.longest_wait)
    parties.agree(protocol)
    while True:
        task = await to_thread.run_sync(_take, request, party, protocol, limiter=request.app.state.polling)
        if task is not None:
            crash_point("lease-granted")  # committed, not answered
            return Response(task.canonical(), media_type="application/json")
        over = elapsed() >= end or request.app.state.stopping.is_set()
        if over or await request.is_disconnected():
            return Response(status_code=204)
        await anyio.sleep(settings.poll_seconds)


def _take(request: Request, party: str, protocol: int) -> TaskMessage | None:
    """Look first, which takes no lock: most polls find nothing, and no news of the party's version."""
    with read(engine_of(request)) as connection:
        known = parties.get(connection, party)
        waiting = service.is_waiting(connection, party, times_of(request).now(connection))
    if known.protocol != protocol:
        with write(engine_of(request)) as connection:
            parties.hear(connection, party, protocol)
    parties.check_active(known)
    if not waiting:
        return None
    with write(engine_of(request)) as connection:
        return service.take(
            connection, party, now=times_of(request).now(connection), lasts=settings_of(request).lease_seconds
        )


@router.post("/{task}/heartbeat", openapi_extra=sends(HeartbeatMessage))
def heartbeat(
    task: TaskId,
    party: FromParty,
    message: Annotated[HeartbeatMessage, sent(HeartbeatMessage.from_json)],
    settings: Settings,
    times: Times,
    connection: Writing,
) -> PulseView:
    """Extend a lease and hear whether the task was cancelled."""
    pulse = service.heartbeat(connection, party, task, message, now=times.now(connection), lasts=settings.lease_seconds)
    return PulseView.of(task, pulse)


@router.post("/{task}/decline", status_code=204, openapi_extra=sends(DeclineMessage))
def decline(
    task: TaskId,
    party: FromParty,
    message: Annotated[DeclineMessage, sent(DeclineMessage.from_json)],
    own: Own,
    times: Times,
    connection: Writing,
) -> None:
    """Refuse a task, with a reason; its study goes on without this party."""
    service.decline(connection, own, party, task, message, times.now(connection))


@router.post(
    "/{task}/result",
    response_class=Response,
    openapi_extra=sends(ResultMessage),
    responses=answers(SignedReceipt, "Stored: the countersigned receipt. The same bytes again get the same."),
)
def result(
    request: Request,
    task: TaskId,
    party: FromParty,
    opened: Annotated[OpenedResult, sent(OpenedResult.from_json)],
    own: Own,
    times: Times,
    connection: Writing,
) -> Response:
    """Publish a release with the ledger lines not yet confirmed."""
    outcome = results.take(connection, own, party, task, opened, times.now(connection))
    if isinstance(outcome, Stopped):
        return refuse(request, outcome)
    return Response(outcome.canonical(), media_type="application/json")
