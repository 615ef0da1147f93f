"""A party asks for work, says that it is at it, or will not do it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, select, update

from crossward.errors import Conflict, InvalidMessage, TaskEnded
from crossward.protocol.messages import DeclineMessage, HeartbeatMessage, TaskMessage
from crossward_coordinator.identity import Identity
from crossward_coordinator.tables import tasks
from crossward_coordinator.workflows import events, parties
from crossward_coordinator.workflows.advance import advance
from crossward_coordinator.workflows.late import is_late, is_paid
from crossward_coordinator.workflows.rows import OPEN, inputs_of, lock_task, read_study, study_row, tasks_of

LONGEST_NOTE = 200


@dataclass(frozen=True, slots=True)
class Pulse:
    """The answer to a heartbeat. `cancelled`: stop, nobody waits for this any more."""

    state: str
    cancelled: bool
    cause: str
    lease_seconds: float


def is_waiting(connection: Connection, party: str, now: float) -> bool:
    """Whether a party has a task to take, and may take it; raises if it is stopped."""
    known = parties.find(connection, party)
    if known is not None:
        parties.check_active(known)
    return connection.execute(_waiting(party, now).limit(1)).first() is not None


def take(connection: Connection, party: str, *, now: float, lasts: float) -> TaskMessage | None:
    """Lease the task that has waited longest; None if there is none."""
    parties.check_active(parties.lock_signer(connection, party))
    return lease(connection, party, now=now, lasts=lasts)


def lease(connection: Connection, party: str, *, now: float, lasts: float) -> TaskMessage | None:
    """Lease a task, for the coordinator itself too. Nobody else may have it until the lease ends."""
    for waiting in connection.execute(_waiting(party, now).limit(20)).all():
        row = study_row(connection, waiting.study, lock=True)
        study = read_study(row.document)
        query = select(tasks).where(tasks.c.id == waiting.id).with_for_update()
        task = connection.execute(query).one()
        if task.state != "ready" or task.available > now:
            continue  # another worker was faster
        values = {"state": "leased", "attempt": task.attempt + 1, "lease_until": now + lasts, "updated": now}
        connection.execute(update(tasks).where(tasks.c.id == task.id).values(progress=0.0, note="", **values))
        events.note(connection, study.id, "task-taken", f"Attempt {task.attempt + 1}.", party=party, now=now)
        return TaskMessage.of(
            study,
            id=task.id,
            kind=task.kind,
            lease_seconds=lasts,
            inputs=inputs_of(connection, study, task.kind),
            attempt=task.attempt + 1,
            lead=row.lead,
        )
    return None


def heartbeat(
    connection: Connection, party: str, task_id: str, message: HeartbeatMessage, *, now: float, lasts: float
) -> Pulse:
    """Extend a lease, also one that has just expired and that nobody else has taken."""
    _check_names(task_id, message.task)
    parties.check_active(parties.lock_signer(connection, party))
    task, study = lock_task(connection, party, task_id)
    if task.state not in OPEN:
        finish = is_late(study, task, tasks_of(connection, study.id)) and is_paid(connection, task)
        return Pulse(task.state, not finish, task.cause, lasts if finish else 0.0)
    if message.attempt != task.attempt:
        raise Conflict(
            f"Attempt {task.attempt} of the task is under way, not {message.attempt}.", "Leave it to whoever took it."
        )
    values = {"state": "leased", "lease_until": now + lasts, "updated": now}
    note = message.note[:LONGEST_NOTE]
    values |= {"progress": max(message.progress, task.progress), "note": note}
    connection.execute(update(tasks).where(tasks.c.id == task_id).values(**values))
    if int(10 * message.progress) > int(10 * task.progress):  # a lead sees ten steps, not every heartbeat
        text = f"{message.progress:.0%} {note}".strip()
        events.note(connection, study.id, "progress", text, party=party, now=now)
    return Pulse("leased", False, "", lasts)


def decline(
    connection: Connection, own: Identity, party: str, task_id: str, message: DeclineMessage, now: float
) -> None:
    """The party will not do it; its study goes on without. To decline what has ended changes nothing."""
    _check_names(task_id, message.task)
    parties.lock_signer(connection, party)
    task, study = lock_task(connection, party, task_id)
    if task.state in ("done", "late"):
        raise TaskEnded("The task is done.", "What was released cannot be taken back.")
    if task.state not in OPEN:
        return
    cause = f"{message.reason}{': ' if message.text else ''}{message.text}"
    values = {"state": "declined", "cause": cause, "lease_until": None, "updated": now}
    connection.execute(update(tasks).where(tasks.c.id == task_id).values(**values))
    events.note(connection, study.id, "task-declined", cause, party=party, now=now)
    advance(connection, own, study.id, now)


def _waiting(party: str, now: float) -> Select[Any]:
    query = select(tasks.c.id, tasks.c.study)
    query = query.where(tasks.c.party == party, tasks.c.state == "ready", tasks.c.available <= now)
    return query.order_by(tasks.c.available, tasks.c.id)


def _check_names(asked: str, named: str) -> None:
    if asked != named:
        raise InvalidMessage("The message names another task than the address.", "Send it to its own task.")
