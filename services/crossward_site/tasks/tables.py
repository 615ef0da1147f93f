"""What a site stores of its tasks, and of what it released."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import Column, Float, ForeignKey, Integer, String, Table, Text

from crossward.protocol.constants import DeclineReason, TaskKind
from crossward_service.db.lifecycle import Lifecycle, enum_column
from crossward_site.tables import metadata


class TaskState(StrEnum):
    """How far a task has come."""

    TAKEN = "taken"
    """Stored, nothing decided."""
    WAITING = "waiting"
    """The steward is asked."""
    APPROVED = "approved"
    """It may be charged."""
    HELD = "held"
    """The data do not fit, or a step keeps failing: the steward must act."""
    RESERVED = "reserved"
    """Charged: train, as often as it takes."""
    STORED = "stored"
    """Released: these bytes and no others are published."""
    DECLINING = "declining"
    """A refusal on its way."""
    SETTLED = "settled"
    """Published, with a receipt."""
    DECLINED = "declined"
    """Refused, and the coordinator knows."""
    CANCELLED = "cancelled"
    """Wanted no more before anything was released."""
    REFUSED = "refused"
    """Released, and the coordinator would not take it."""


S = TaskState

TASK_STATES = Lifecycle(
    TaskState,
    {
        S.TAKEN: (S.WAITING, S.APPROVED, S.HELD, S.DECLINING, S.CANCELLED),
        S.WAITING: (S.APPROVED, S.RESERVED, S.DECLINING, S.CANCELLED),
        S.HELD: (S.APPROVED, S.RESERVED, S.DECLINING, S.CANCELLED),
        S.APPROVED: (S.RESERVED, S.HELD, S.DECLINING, S.CANCELLED),
        # What was charged is neither declined nor cancelled by itself: it is finished, and its release is kept.
        S.RESERVED: (S.STORED, S.HELD),
        S.STORED: (S.SETTLED, S.REFUSED),
        S.DECLINING: (S.DECLINED,),
        # What has ended here and is offered again goes on where it was: what was done under the old lease counts.
        S.SETTLED: (S.STORED,),
        S.REFUSED: (S.STORED,),
        S.DECLINED: (S.DECLINING,),
        S.CANCELLED: (S.TAKEN, S.RESERVED),
    },
)

tasks = Table(
    "tasks",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("study", String(64), nullable=False, index=True),
    Column("study_hash", String(64), nullable=False),
    enum_column("kind", TaskKind),
    Column("message", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("lease_seconds", Float, nullable=False),
    TASK_STATES.column(index=True),
    Column("dataset", String(64)),
    Column("version", Integer),
    enum_column("reason", DeclineReason, nullable=True),
    Column("cause", Text, nullable=False),
    Column("held", Text),
    Column("trouble", Text, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("progress", Float, nullable=False),
    Column("begun", Integer, nullable=False),
    Column("begun_by", String(64)),
    Column("number", Integer, nullable=False, unique=True),
    Column("taken", Float, nullable=False),
    Column("updated", Float, nullable=False),
)
"""`version` is that of the dataset when the task was charged: the release is made from it, whatever comes later.
`number` is the order in which tasks came. `begun` counts the processes that began to work on the task, one after the
other, and did not come to an end with it; `begun_by` is the last of them. `cause` may be sent when the task is
declined; `held`, why the steward must act, stays until the steward has, also when the task is cancelled meanwhile, and
is never sent; `trouble`, why a step last failed here, stays here too. `failures` counts those of the state."""

outbox = Table(
    "outbox",
    metadata,
    Column("task", String(128), ForeignKey("tasks.id"), primary_key=True),
    Column("release", Text),
    Column("digest", String(64)),
    Column("receipt", Text),
    Column("stored", Float, nullable=False),
    Column("settled", Float),
)
"""A finished task: the signed release (none where nothing leaves the site), and the receipt it got."""
