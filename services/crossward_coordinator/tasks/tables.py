"""Tasks as they are stored; the states of a task and the steps between them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    bindparam,
    select,
)

from crossward.errors import NotFound
from crossward.protocol.constants import COORDINATOR, TaskKind
from crossward.protocol.states import TaskState
from crossward_coordinator.database import metadata
from crossward_coordinator.studies.tables import StoredStudy, find_study
from crossward_coordinator.times import Moment
from crossward_service.db.lifecycle import Lifecycle, enum_column

OPEN = (TaskState.READY, TaskState.LEASED)
_ENDINGS = (TaskState.DONE, TaskState.LATE, TaskState.DECLINED, TaskState.FAILED, TaskState.CANCELLED)

TASK_STATES = Lifecycle(
    TaskState,
    {
        TaskState.READY: (TaskState.LEASED, *_ENDINGS),
        TaskState.LEASED: (TaskState.READY, *_ENDINGS),
        # Until the quorum, a party that is revoked takes its release with it.
        TaskState.DONE: (TaskState.CANCELLED,),
        # A source that had paid may finish after the quorum was reached without it.
        TaskState.CANCELLED: (TaskState.LATE,),
    },
)
"""A result is welcome as long as a task is open, leased or not; a lease that ends makes it ready again."""

tasks = Table(
    "tasks",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("study", String(64), ForeignKey("studies.id"), nullable=False, index=True),
    Column("party", String(64), nullable=False),
    enum_column("kind", TaskKind),
    TASK_STATES.column(),
    Column("cause", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("heard", Boolean, nullable=False),
    Column("available", Float, nullable=False),
    Column("lease_until", Float),
    Column("progress", Float, nullable=False),
    Column("note", Text, nullable=False),
    Column("updated", Float, nullable=False),
    Index("tasks_waiting", "party", "state", "available"),
    Index("tasks_leased", "state", "lease_until"),
)
"""The party of `aggregate` is the coordinator."""

_PHASES = list(TaskKind)  # in the order in which a study needs them

_OF_STUDY = select(tasks).where(tasks.c.study == bindparam("study"))
_ONE = select(tasks).where(tasks.c.id == bindparam("task"), tasks.c.party == bindparam("party"))
_LOCKED = _ONE.with_for_update()


@dataclass(frozen=True, slots=True)
class StoredTask:
    """One party's work in a study. `attempt`: how often it was taken; `heard`: its party has said that it has it.

    `available`, from when it may be taken, and `lease_until` are ages of the coordinator.
    """

    id: str
    study: str
    party: str
    kind: TaskKind
    state: TaskState
    cause: str
    attempt: int
    heard: bool
    available: float
    lease_until: float | None
    progress: float
    note: str
    updated: float

    def is_lost(self, now: Moment) -> bool:
        """Whether its party was given it and has not said to have it: the answer may have been lost.

        The coordinator gives its own tasks to itself: no answer is lost on that way.
        """
        given = self.state is TaskState.LEASED and self.party != COORDINATOR and not self.heard
        return given and self.lease_until is not None and self.lease_until > now.age

    @property
    def is_open(self) -> bool:
        """Whether a result is waited for."""
        return self.state in OPEN


def move_tasks(
    connection: Connection,
    some: ColumnElement[bool],
    to: TaskState,
    *,
    of: TaskState | Collection[TaskState],
    now: float,
    lease_until: float | None = None,
    **values: Any,
) -> int:
    """Write a state into those tasks that are in a state `of`; how many they were. A lease ends unless renewed."""
    return TASK_STATES.move(connection, tasks, some, to, of=of, lease_until=lease_until, updated=now, **values)


def tasks_of(connection: Connection, study: str) -> list[StoredTask]:
    """All tasks of a study, sources first."""
    rows = connection.execute(_OF_STUDY, {"study": study})
    records = [StoredTask(**row._asdict()) for row in rows]
    return sorted(records, key=lambda task: (_PHASES.index(task.kind), task.party))


def lock_task(connection: Connection, party: str, task: str) -> tuple[StoredTask, StoredStudy]:
    """A party's own task and its study, both locked. Another's task is as unknown to it as none."""
    which = {"task": task, "party": party}
    row = connection.execute(_ONE, which).one_or_none()
    if row is None:
        raise NotFound(f"{party} has no task {task} here.", "Ask for tasks with POST /v1/tasks/next.")
    study = find_study(connection, row.study, lock=True)
    return StoredTask(**connection.execute(_LOCKED, which).one()._asdict()), study
