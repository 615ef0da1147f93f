"""What a lead watches. Whoever notes an event holds the study's lock, so numbers follow the order of commits."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from crossward_coordinator.tables import events, studies


def note(connection: Connection, study: str, kind: str, text: str, *, now: float, party: str = "") -> None:
    """Add an event to a study."""
    number = connection.execute(
        update(studies).where(studies.c.id == study).values(events=studies.c.events + 1).returning(studies.c.events)
    ).scalar_one()
    row = {"study": study, "number": number, "time": now, "kind": kind, "party": party, "text": text}
    connection.execute(insert(events).values(row))


def after(connection: Connection, study: str, number: int, limit: int) -> list[Row[Any]]:
    """The events of a study after this one."""
    query = select(events).where(events.c.study == study, events.c.number > number)
    return list(connection.execute(query.order_by(events.c.number).limit(limit)))
