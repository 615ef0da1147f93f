"""A party asks for work, says that it is at it, or will not do it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import BindParameter, Connection, Select, bindparam, case, or_, select

from crossward.errors import Conflict, InvalidMessage, TaskEnded
from crossward.protocol.constants import COORDINATOR
from crossward.protocol.states import TaskState
from crossward.protocol.tasks import DeclineMessage, HeartbeatMessage, TaskMessage
from crossward.study.wire import task_message
from crossward_coordinator.identity import Identity
from crossward_coordinator.ledger.service import charge
from crossward_coordinator.parties import service as parties
from crossward_coordinator.releases import service as releases
from crossward_coordinator.studies import events
from crossward_coordinator.studies.advance import advance, is_late
from crossward_coordinator.studies.tables import EventKind, StoredStudy
from crossward_coordinator.tasks.tables import OPEN, StoredTask, lock_task, move_tasks, tasks, tasks_of
from crossward_coordinator.times import Moment

LONGEST_NOTE = 200
AT_ONCE = 20
"""Tasks that are looked at, at most, to find one that nobody else has just taken."""


@dataclass(frozen=True, slots=True)
class Pulse:
    """The answer to a heartbeat. `cancelled`: stop, nobody waits for this any more."""

    state: TaskState
    cancelled: bool
    cause: str
    lease_seconds: float


def is_waiting(connection: Connection, party: str, now: Moment) -> bool:
    """Whether a party has a task to take."""
    return connection.execute(_ONE_WAITING, {"party": party, "age": now.age}).first() is not None


def take(connection: Connection, party: str, *, now: Moment, lasts: float) -> TaskMessage | None:
    """Lease the task that has waited longest; None if there is none."""
    parties.check_active(parties.lock_signer(connection, party))
    return lease(connection, party, now=now, lasts=lasts)


def lease(connection: Connection, party: str, *, now: Moment, lasts: float) -> TaskMessage | None:
    """Lease a task, for the coordinator itself too. Nobody else may have it until the lease ends.

    One that the party was given and has not said to have comes first: the answer was lost. It is under the same lease,
    which is not extended: a party that cannot take a task in loses it in the end, and gets its others.
    """
    for waiting in connection.execute(_SOME_WAITING, {"party": party, "age": now.age}).all():
        task, stored = lock_task(connection, party, waiting.id)
        if task.is_lost(now):
            return _message(connection, task, stored, task.attempt, lasts)
        if task.state is TaskState.READY and task.available <= now.age:  # else another worker was faster
            attempt = task.attempt + 1
            _hold(connection, task, lasts, now, attempt=attempt, progress=0.0, note="", heard=False)
            events.note(connection, stored.id, EventKind.TASK_TAKEN, f"Attempt {attempt}.", party=party, now=now.time)
            return _message(connection, task, stored, attempt, lasts)
    return None


def _message(connection: Connection, task: StoredTask, stored: StoredStudy, attempt: int, lasts: float) -> TaskMessage:
    study = stored.study
    return task_message(
        study,
        id=task.id,
        kind=task.kind,
        lease_seconds=lasts,
        inputs=releases.inputs(connection, study, task.kind),
        attempt=attempt,
        lead=stored.lead,
        version=parties.common_version(connection, (*study.sources, *study.targets)),
    )


def heartbeat(
    connection: Connection, party: str, task_id: str, message: HeartbeatMessage, *, now: Moment, lasts: float
) -> Pulse:
    """Extend a lease, also one that has just expired and that nobody else has taken."""
    _check_names(task_id, message.task)
    parties.check_active(parties.lock_signer(connection, party))
    task, stored = lock_task(connection, party, task_id)
    if not task.is_open:
        may_finish = is_late(stored, task, tasks_of(connection, stored.id)) and charge(connection, task) is not None
        return Pulse(task.state, not may_finish, task.cause, lasts if may_finish else 0.0)
    if message.attempt != task.attempt:
        raise Conflict(
            f"Attempt {task.attempt} of the task is under way, not {message.attempt}.", "Leave it to whoever took it."
        )
    note, progress = message.note[:LONGEST_NOTE], max(message.progress, task.progress)
    _hold(connection, task, lasts, now, progress=progress, note=note, heard=True)
    if int(10 * message.progress) > int(10 * task.progress):  # a lead sees ten steps, not every heartbeat
        text = f"{message.progress:.0%} {note}".strip()
        events.note(connection, stored.id, EventKind.PROGRESS, text, party=party, now=now.time)
    return Pulse(TaskState.LEASED, False, "", lasts)


def decline(
    connection: Connection, own: Identity, party: str, task_id: str, message: DeclineMessage, now: Moment
) -> None:
    """The party will not do it; its study goes on without. To decline what has ended changes nothing."""
    _check_names(task_id, message.task)
    parties.lock_signer(connection, party)
    task, stored = lock_task(connection, party, task_id)
    if task.state in (TaskState.DONE, TaskState.LATE):
        raise TaskEnded("The task is done.", "What was released cannot be taken back.")
    if not task.is_open:
        return
    cause = f"{message.reason}{': ' if message.text else ''}{message.text}"
    move_tasks(connection, tasks.c.id == task_id, TaskState.DECLINED, of=OPEN, now=now.time, cause=cause)
    events.note(connection, stored.id, EventKind.TASK_DECLINED, cause, party=party, now=now.time)
    advance(connection, own, stored.id, now)


def _hold(connection: Connection, task: StoredTask, lasts: float, now: Moment, **values: Any) -> None:
    """Lease an open task, or keep its lease."""
    until = now.age + lasts
    move_tasks(connection, tasks.c.id == task.id, TaskState.LEASED, of=OPEN, now=now.time, lease_until=until, **values)


def _waiting() -> Select[Any]:
    """What a party may be given: what it was given and did not get, then what is ready, the oldest first."""
    age: BindParameter[float] = bindparam("age")
    ready = (tasks.c.state == TaskState.READY) & (tasks.c.available <= age)
    lost = (tasks.c.state == TaskState.LEASED) & (tasks.c.party != COORDINATOR)
    lost &= tasks.c.heard.is_(False) & (tasks.c.lease_until > age)
    query = select(tasks.c.id).where(tasks.c.party == bindparam("party"), or_(ready, lost))
    return query.order_by(case((lost, 0), else_=1), tasks.c.available, tasks.c.id)


_ONE_WAITING, _SOME_WAITING = _waiting().limit(1), _waiting().limit(AT_ONCE)


def _check_names(asked: str, named: str) -> None:
    if asked != named:
        raise InvalidMessage("The message names another task than the address.", "Send it to its own task.")
