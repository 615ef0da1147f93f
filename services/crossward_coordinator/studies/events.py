"""What a lead watches. Whoever notes an event holds the study's lock, so numbers follow the order of commits."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, insert, select, update

from crossward_coordinator.studies.tables import EventKind, events, studies

_NEXT = (
    update(studies)
    .where(studies.c.id == bindparam("study"))
    .values(events=studies.c.events + 1)
    .returning(studies.c.events)
)
_NEW = insert(events)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in a study, to one of its parties or (party "") to all of it."""

    study: str
    number: int
    time: float
    kind: EventKind
    party: str
    text: str


def note(connection: Connection, study: str, kind: EventKind, text: str, *, now: float, party: str = "") -> None:
    """Add an event to a study."""
    number = connection.execute(_NEXT, {"study": study}).scalar_one()
    row = {"study": study, "number": number, "time": now, "kind": kind, "party": party, "text": text}
    connection.execute(_NEW, row)


def after(connection: Connection, study: str, number: int, limit: int) -> list[Event]:
    """The events of a study after this one."""
    query = select(events).where(events.c.study == study, events.c.number > number)
    return [Event(**row._asdict()) for row in connection.execute(query.order_by(events.c.number).limit(limit))]
