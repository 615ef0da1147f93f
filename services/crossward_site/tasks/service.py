"""The tasks a site took, and how far each has come. Every step is written down before the next begins.

Which state may follow which is the table `TASK_STATES`; every write of a state goes through it. All but `known_study`
work inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, select, update

from crossward.errors import InvalidMessage, NotFound
from crossward.protocol.constants import DeclineReason, Role, TaskKind
from crossward.protocol.ledger.lines import LineKind
from crossward.protocol.tasks import TaskMessage
from crossward.study import Study
from crossward.study.wire import open_study
from crossward_service.db.engine import read
from crossward_site.site import Site
from crossward_site.tasks.tables import TASK_STATES, TaskState, tasks

WORKABLE = (TaskState.TAKEN, TaskState.APPROVED, TaskState.RESERVED, TaskState.STORED, TaskState.DECLINING)
ASKING = (TaskState.WAITING, TaskState.HELD)
OPEN = (*WORKABLE, *ASKING)
CHARGED = (TaskState.RESERVED, TaskState.STORED)
GIVEN_UP = (TaskState.TAKEN, TaskState.APPROVED, *ASKING)
"""Where a task that nobody wants any more is given up, unless it was charged."""
UNRELEASED = (TaskState.TAKEN, TaskState.APPROVED, TaskState.RESERVED)

CRASH_POINTS = (
    "after-take",
    "after-reserve",
    "during-train",
    "before-store",
    "after-store",
    "after-publish",
    "before-settle",
)
"""Where a fault test may kill a site, in the order in which a task comes by."""


@dataclass(frozen=True)
class Task:
    """A task as it was last written down."""

    id: str
    study_id: str
    kind: TaskKind
    document: str
    attempt: int
    lease_seconds: float
    state: TaskState
    dataset: str | None
    version: int | None
    reason: DeclineReason | None
    cause: str
    held: str | None
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
        return open_study(self.message)

    @property
    def role(self) -> Role:
        """What the site is in this task."""
        return self.kind.role


_COLUMNS = (
    tasks.c.id,
    tasks.c.study,
    tasks.c.kind,
    tasks.c.message,
    tasks.c.attempt,
    tasks.c.lease_seconds,
    tasks.c.state,
    tasks.c.dataset,
    tasks.c.version,
    tasks.c.reason,
    tasks.c.cause,
    tasks.c.held,
    tasks.c.progress,
    tasks.c.taken,
    tasks.c.updated,
    tasks.c.trouble,
    tasks.c.failures,
)

_ONE = select(*_COLUMNS).where(tasks.c.id == bindparam("task"))
_IN_STATES = select(*_COLUMNS).where(tasks.c.state.in_(bindparam("states", expanding=True))).order_by(tasks.c.number)

_FIRST_HASH = select(tasks.c.study_hash).where(tasks.c.study == bindparam("study")).order_by(tasks.c.number).limit(1)
_BEGUN = select(tasks.c.begun, tasks.c.begun_by).where(tasks.c.id == bindparam("task")).with_for_update()
_THIS = update(tasks).where(tasks.c.id == bindparam("task"))

_WELL: dict[str, Any] = {"trouble": "", "failures": 0}
_IDLE: dict[str, Any] = {"begun": 0, "begun_by": None}


# -- looking --------------------------------------------------------------------------------------------------------
def find(connection: Connection, task: str) -> Task:
    """A task by its id."""
    row = connection.execute(_ONE, {"task": task}).one_or_none()
    if row is None:
        raise NotFound(f"There is no task {task!r} here.", "GET /v1/tasks lists them.")
    return Task(*tuple(row))


def listed(connection: Connection, states: Collection[TaskState] | None = None) -> list[Task]:
    """Tasks in the order they came."""
    among = list(TaskState if states is None else states)
    return [Task(*tuple(row)) for row in connection.execute(_IN_STATES, {"states": among})]


def ended_while_held(connection: Connection) -> list[Task]:
    """Tasks that were cancelled before the steward had looked at why they were held."""
    query = select(*_COLUMNS).where(tasks.c.state == TaskState.CANCELLED, tasks.c.held.is_not(None))
    return [Task(*tuple(row)) for row in connection.execute(query.order_by(tasks.c.number))]


def first_hash(connection: Connection, study: str) -> str | None:
    """The hash of the study that the site first had a task of by this id."""
    return connection.execute(_FIRST_HASH, {"study": study}).scalar_one_or_none()


def known_study(site: Site, study: str) -> Study:
    """The study of this id that the site first had a task of."""
    query = select(*_COLUMNS).where(tasks.c.study == study).order_by(tasks.c.number).limit(1)
    with read(site.engine) as connection:
        row = connection.execute(query).one_or_none()
    if row is None:
        raise NotFound(f"This site has no task of a study {study!r}.", "Give the study's file with the data instead.")
    return Task(*tuple(row)).study


# -- moving on ------------------------------------------------------------------------------------------------------
def move(connection: Connection, task: Task, state: TaskState, now: float, **values: Any) -> bool:
    """Write down that a task has come to a state; False, and nothing is, if it has moved on since it was read.

    A task may be cancelled while the worker is busy with it.
    """
    well: dict[str, Any] = {} if state is task.state else _WELL
    rows = tasks.c.id == task.id
    return TASK_STATES.move(connection, tasks, rows, state, of=task.state, updated=now, **well, **values) == 1


def decline(connection: Connection, task: Task, reason: DeclineReason, words: str, now: float) -> None:
    """Write down that the task is refused; `words` are public."""
    move(connection, task, TaskState.DECLINING, now, reason=reason, cause=words)


def hold(connection: Connection, task: Task, cause: str, now: float) -> bool:
    """Leave a task to the steward; the coordinator hears no more of it than of one that waits for an approval."""
    return move(connection, task, TaskState.HELD, now, cause=cause, held=cause, **_IDLE)


def forget_held(connection: Connection, task: str) -> None:
    """The steward has looked at why a task was held."""
    connection.execute(update(tasks).where(tasks.c.id == task).values(held=None))


def take(site: Site, connection: Connection, message: TaskMessage) -> Task:
    """Store a task, or its new lease if it is known: what was done under the old lease still counts."""
    study, now = open_study(message), site.clock()
    row = connection.execute(select(tasks).where(tasks.c.id == message.id).with_for_update()).one_or_none()
    lease = {"attempt": message.attempt, "lease_seconds": message.lease_seconds, "updated": now}
    if row is None:
        connection.execute(
            insert(tasks).values(
                id=message.id,
                study=study.id,
                study_hash=message.study_hash,
                kind=TaskKind(message.kind),
                message=message.canonical().decode(),
                state=TaskState.TAKEN,
                cause="",
                progress=0.0,
                number=_next_number(connection),
                taken=now,
                **_IDLE,
                **_WELL,
                **lease,
            )
        )
        return find(connection, message.id)
    if (row.study_hash, row.kind) != (message.study_hash, message.kind):
        raise InvalidMessage(f"Task {message.id} was another task before.", "The coordinator must not change tasks.")
    state = _resumed(site, connection, message.id, row.state)
    # Once charged, the inputs are fixed: they are part of what the reservation describes.
    fixed = state in CHARGED or site.ledger.find(connection, LineKind.RESERVE, message.id) is not None  # or held
    document = row.message if fixed else message.canonical().decode()
    values: dict[str, Any] = {"message": document, **lease, **({} if state is row.state else _WELL)}
    TASK_STATES.move(connection, tasks, tasks.c.id == message.id, state, of=row.state, **values)
    return find(connection, message.id)


def _next_number(connection: Connection) -> int:
    """Tasks are counted as they come: a clock that was set back must not reorder them."""
    return (connection.execute(select(func.max(tasks.c.number))).scalar_one() or 0) + 1


def _resumed(site: Site, connection: Connection, task: str, state: TaskState) -> TaskState:
    """Where a task goes on that is offered again: one that has ended here too."""
    match state:
        case TaskState.SETTLED | TaskState.REFUSED:
            return TaskState.STORED
        case TaskState.DECLINED:
            return TaskState.DECLINING
        case TaskState.CANCELLED:
            charged = site.ledger.find(connection, LineKind.RESERVE, task) is not None
            return TaskState.RESERVED if charged else TaskState.TAKEN
        case _:
            return state


# -- at work ----------------------------------------------------------------------------------------------------------
def begin(connection: Connection, task: str, process: str) -> int:
    """Write down that a process begins to work on a task; gives how many have, and came to no end with it."""
    row = connection.execute(_BEGUN, {"task": task}).one()
    if row.begun_by == process:
        return int(row.begun)
    connection.execute(_THIS, {"task": task, "begun": row.begun + 1, "begun_by": process})
    return int(row.begun) + 1


def rest(connection: Connection, task: str) -> None:
    """A process has come to an end with a task for now."""
    connection.execute(_THIS, {"task": task, **_IDLE})


def rest_all(connection: Connection, process: str) -> None:
    """A process ends in order: what it was busy with did not kill it."""
    connection.execute(update(tasks).where(tasks.c.begun_by == process).values(**_IDLE))


def postpone(connection: Connection, task: str, trouble: str, failures: int) -> None:
    """A step of a task has failed, and is tried again. `trouble` is never sent."""
    connection.execute(_THIS, {"task": task, **_IDLE, "trouble": trouble, "failures": failures})
