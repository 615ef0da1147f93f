"""Studies as they are stored, with their events and public sets; the states of a study and the steps between them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Column, Connection, Float, ForeignKey, Integer, String, Table, Text, bindparam, select

from crossward.errors import NotFound
from crossward.protocol.states import StudyState
from crossward.study import Study
from crossward.study.wire import read_study
from crossward_coordinator.database import metadata
from crossward_coordinator.times import Moment
from crossward_service.db.lifecycle import Lifecycle, enum_column

STUDY_STATES = Lifecycle(
    StudyState,
    {
        StudyState.DRAFT: (StudyState.SOURCES, StudyState.TARGETS, StudyState.CANCELLED),
        StudyState.SOURCES: (StudyState.TARGETS, StudyState.FAILED, StudyState.CANCELLED),
        StudyState.TARGETS: (StudyState.COMPLETE, StudyState.FAILED, StudyState.CANCELLED),
    },
)
"""What takes a study from the state on the left to the one above (`crossward_coordinator.studies.advance` decides):

             sources   targets              complete                failed                               cancelled
    draft    start     start (no sources)   -                       -                                    its lead
    sources  -         quorum (aggregated)  -                       deadline, or quorum out of reach,    its lead
                                                                    or the aggregate failed
    targets  -         -                    all ended or deadline,  all ended or deadline, none is done  its lead
                                            at least one is done

`complete`, `failed` and `cancelled` are for good.
"""
RUNNING = (StudyState.SOURCES, StudyState.TARGETS)


class EventKind(StrEnum):
    """What can happen in a study, as its lead sees it."""

    STUDY_CREATED = "study-created"
    STUDY_STARTED = "study-started"
    SOURCES = "sources"
    QUORUM = "quorum"
    TARGETS = "targets"
    TASK_TAKEN = "task-taken"
    PROGRESS = "progress"
    LEASE_EXPIRED = "lease-expired"
    TASK_DONE = "task-done"
    TASK_LATE = "task-late"
    TASK_DECLINED = "task-declined"
    TASK_FAILED = "task-failed"
    PARTY_STOPPED = "party-stopped"
    PARTY_LEFT = "party-left"
    STUDY_COMPLETE = "study-complete"
    STUDY_FAILED = "study-failed"
    STUDY_CANCELLED = "study-cancelled"


studies = Table(
    "studies",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("document", Text, nullable=False),
    Column("lead", String(64), nullable=False),
    STUDY_STATES.column(index=True),
    Column("cause", Text, nullable=False),
    Column("created", Float, nullable=False),
    Column("started", Float),
    Column("deadline", Float),
    Column("due", Float),
    Column("ended", Float),
    Column("events", Integer, nullable=False),
)

public_sets = Table(
    "public_sets",
    metadata,
    Column("study", String(64), ForeignKey("studies.id"), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("records", Integer, nullable=False),
    Column("document", Text, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("study", String(64), ForeignKey("studies.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("time", Float, nullable=False),
    enum_column("kind", EventKind),
    Column("party", String(64), nullable=False),
    Column("text", Text, nullable=False),
)
"""What a lead watches, counted from 1 within a study in the order of commits."""


@dataclass(frozen=True, slots=True)
class StoredStudy:
    """A study as it is stored: its file in canonical form, and how far it is. `events`: how many it has.

    `due` is the coordinator's age at which its phase ends; `deadline` is when that will be, for people."""

    id: str
    digest: str
    document: str
    lead: str
    state: StudyState
    cause: str
    created: float
    started: float | None
    deadline: float | None
    due: float | None
    ended: float | None
    events: int

    @property
    def study(self) -> Study:
        """The checked study file."""
        return read_study(self.document)

    def is_due(self, now: Moment) -> bool:
        """Whether the deadline of its phase has passed."""
        return self.due is not None and self.due <= now.age


_ONE = select(studies).where(studies.c.id == bindparam("study"))
_LOCKED = _ONE.with_for_update(key_share=True)


def find_study(connection: Connection, study: str, *, lock: bool = False) -> StoredStudy:
    """A study, or `NotFound`; locked, it changes for nobody else until this transaction ends."""
    row = connection.execute(_LOCKED if lock else _ONE, {"study": study}).one_or_none()
    if row is None:
        raise NotFound(f"There is no study {study}.", "GET /v1/studies lists them.")
    return StoredStudy(**row._asdict())
