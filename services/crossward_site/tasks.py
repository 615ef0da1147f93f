"""The tasks a site took, and how far each has come. Every step is written down before the next begins.

taken      stored, nothing decided                waiting    the steward is asked
approved   may be charged                         held       the data do not fit; the steward must act
reserved   charged: train, as often as it takes   stored     released: these bytes and no others are published
declining  a refusal on its way                   settled, declined, cancelled, refused   the end
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sqlalchemy import Connection, func, insert, select, update

from crossward.errors import InvalidMessage, NotFound
from crossward.protocol.messages import DeclineReason, TaskMessage
from crossward.study import Study
from crossward.study.learners import Role
from crossward_site.site import Site
from crossward_site.tables import outbox, tasks

WORKABLE = ("taken", "approved", "reserved", "stored", "declining")
ASKING = ("waiting", "held")
OPEN = (*WORKABLE, *ASKING)
CHARGED = ("reserved", "stored")
UNRELEASED = ("taken", "approved", "reserved")


@dataclass(frozen=True)
class Task:
    """A task as it was last written down."""

    id: str
    study_id: str
    kind: str
    document: str
    attempt: int
    lease_seconds: float
    state: str
    dataset: str | None
    reason: str | None
    cause: str
    progress: float
    taken: float
    updated: float
    trouble: str
    failures: int

    @cached_property
    def message(self) -> TaskMessage:
        """The task as the coordinator sent it."""
        return TaskMessage.from_json(self.document)

    @cached_property
    def study(self) -> Study:
        """Its study."""
        return self.message.open_study()

    @property
    def role(self) -> Role:
        """What the site is in this task."""
        return "source" if self.kind == "train-source" else "target"


_COLUMNS = (
    tasks.c.id,
    tasks.c.study,
    tasks.c.kind,
    tasks.c.message,
    tasks.c.attempt,
    tasks.c.lease_seconds,
    tasks.c.state,
    tasks.c.dataset,
    tasks.c.reason,
    tasks.c.cause,
    tasks.c.progress,
    tasks.c.taken,
    tasks.c.updated,
    tasks.c.trouble,
    tasks.c.failures,
)

_WELL = {"trouble": "", "failures": 0}


def find(connection: Connection, task: str) -> Task:
    """A task by its id."""
    row = connection.execute(select(*_COLUMNS).where(tasks.c.id == task)).one_or_none()
    if row is None:
        raise NotFound(f"There is no task {task!r} here.", "GET /v1/tasks lists them.")
    return Task(*tuple(row))


def listed(connection: Connection, states: tuple[str, ...] | None = None) -> list[Task]:
    """Tasks in the order they came."""
    query = select(*_COLUMNS).order_by(tasks.c.taken, tasks.c.id)
    if states is not None:
        query = query.where(tasks.c.state.in_(states))
    return [Task(*tuple(row)) for row in connection.execute(query)]


def move(connection: Connection, task: Task, state: str, now: float, **values: object) -> bool:
    """Write down that a task has come to a state; False, and nothing is, if it has moved on since it was read.

    A task may be cancelled, or done by another worker, while this one is busy with it.
    """
    still = update(tasks).where(tasks.c.id == task.id, tasks.c.state == task.state)
    well = {} if state == task.state else _WELL
    return connection.execute(still.values(state=state, updated=now, **well, **values)).rowcount == 1


def decline(connection: Connection, task: Task, reason: DeclineReason, words: str, now: float) -> None:
    """Write down that the task is refused; `words` are public."""
    move(connection, task, "declining", now, reason=reason, cause=words)


def take(site: Site, connection: Connection, message: TaskMessage) -> Task:
    """Store a task, or its new lease if it is known: what was done under the old lease still counts."""
    study, now = message.open_study(), site.clock()
    row = connection.execute(select(tasks).where(tasks.c.id == message.id).with_for_update()).one_or_none()
    lease = {"attempt": message.attempt, "lease_seconds": message.lease_seconds, "updated": now}
    if row is None:
        connection.execute(
            insert(tasks).values(
                id=message.id,
                study=study.id,
                study_hash=message.study_hash,
                kind=message.kind,
                message=message.canonical().decode(),
                state="taken",
                cause="",
                progress=0.0,
                taken=now,
                **_WELL,
                **lease,
            )
        )
        return find(connection, message.id)
    if (row.study_hash, row.kind) != (message.study_hash, message.kind):
        raise InvalidMessage(f"Task {message.id} was another task before.", "The coordinator must not change tasks.")
    state = row.state if row.state in OPEN else _resumed(site, connection, message.id, row.state)
    # Once charged, the inputs are fixed: they are part of what the reservation describes.
    document = row.message if state in CHARGED else message.canonical().decode()
    values = {"state": state, "message": document, **lease, **({} if state == row.state else _WELL)}
    connection.execute(update(tasks).where(tasks.c.id == message.id).values(**values))
    return find(connection, message.id)


def _resumed(site: Site, connection: Connection, task: str, ended: str) -> str:
    """Where a task goes on that had ended here and is offered again."""
    if connection.execute(select(outbox.c.task).where(outbox.c.task == task)).first() is not None:
        return "stored"
    if ended == "declined":
        return "declining"
    return "reserved" if site.ledger.find(connection, "reserve", task) is not None else "taken"


def claim(connection: Connection, worker: str, now: float, seconds: float) -> Task | None:
    """The next task that no other worker is busy with, for so many seconds.

    Those never put off come first, then those that have waited longest: one that fails again and again keeps none back.
    """
    free = tasks.c.busy_until.is_(None) | (tasks.c.busy_until < now) | (tasks.c.worker == worker)
    turn = (func.coalesce(tasks.c.busy_until, 0.0), tasks.c.taken, tasks.c.id)
    query = select(tasks.c.id).where(tasks.c.state.in_(WORKABLE), free).order_by(*turn)
    found = connection.execute(query.limit(1).with_for_update(skip_locked=True)).scalar_one_or_none()
    if found is None:
        return None
    connection.execute(update(tasks).where(tasks.c.id == found).values(worker=worker, busy_until=now + seconds))
    return find(connection, found)


def postpone(connection: Connection, task: str, until: float, trouble: str, failures: int) -> None:
    """Leave a task alone until later: nobody is busy with it, and nobody should be. `trouble` is never sent."""
    values = {"worker": None, "busy_until": until, "trouble": trouble, "failures": failures}
    connection.execute(update(tasks).where(tasks.c.id == task).values(**values))


def hold(connection: Connection, task: Task, cause: str, now: float) -> bool:
    """Leave a task to the steward; the coordinator hears no more of it than of one that waits for an approval."""
    return move(connection, task, "held", now, cause=cause, worker=None, busy_until=None)


def keep(connection: Connection, worker: str, until: float) -> None:
    """A worker is still busy with what it claimed."""
    mine = (tasks.c.worker == worker) & tasks.c.state.in_(WORKABLE)
    connection.execute(update(tasks).where(mine).values(busy_until=until))


def free(connection: Connection, task: str) -> None:
    """A worker is done with a task for now."""
    connection.execute(update(tasks).where(tasks.c.id == task).values(worker=None, busy_until=None))
