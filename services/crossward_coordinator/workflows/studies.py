"""A study's life as its lead sees it: check, create, start, cancel, look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select
from sqlalchemy.dialects import postgresql, sqlite

from crossward.errors import Conflict
from crossward.study import Study
from crossward_coordinator.crash import crash_point
from crossward_coordinator.identity import NAME, Identity
from crossward_coordinator.tables import parties, public_sets, results, studies
from crossward_coordinator.workflows import events
from crossward_coordinator.workflows.advance import begin, end
from crossward_coordinator.workflows.rows import ENDED, OPEN, RUNNING, read_study, study_row, tasks_of


@dataclass(frozen=True, slots=True)
class Overview:
    """A study, its tasks, its parties, and what was released."""

    row: Row[Any]
    study: Study
    tasks: list[Row[Any]]
    parties: dict[str, Row[Any]]
    releases: dict[str, str]
    public_set: str | None

    @property
    def late(self) -> list[Row[Any]]:
        """The tasks that the study waits for: those of its last phase. A source that may still finish is not one."""
        last = self.tasks[-1].kind if self.tasks else ""  # tasks come in the order of phases
        return [task for task in self.tasks if task.kind == last and task.state in OPEN]


def create(connection: Connection, study: Study, lead: str, now: float) -> bool:
    """Store a checked study; True if it is new. The same study again is the same; another under its id is refused."""
    if NAME in (*study.sources, *study.targets):
        raise Conflict(f"{NAME!r} is the coordinator itself.", "Name the hospitals that take part.")
    row = {
        "id": study.id,
        "digest": study.digest,
        "document": study.canonical().decode(),
        "lead": lead,
        "state": "draft",
        "cause": "",
        "created": now,
        "events": 0,
    }
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    added = dialect.insert(studies).values(row).on_conflict_do_nothing().returning(studies.c.id)
    if connection.execute(added).first() is None:  # it was there, or another request was faster
        if study_row(connection, study.id).digest != study.digest:
            raise Conflict(
                f"Another study has the id {study.id}.", "A study never changes: give the new one its own id."
            )
        return False
    events.note(connection, study.id, "study-created", f"By {lead}.", now=now)
    return True


def start(connection: Connection, study_id: str, now: float) -> None:
    """Open the first tasks, if everybody the study names can take part. Started again, nothing happens."""
    row = study_row(connection, study_id, lock=True)
    if row.state in RUNNING:
        return
    if row.state != "draft":
        raise Conflict(f"The study is {row.state}.", "Give a new study its own id.")
    study = read_study(row.document)
    if absent := _unable(connection, study):
        raise Conflict(
            f"These parties cannot take part: {'; '.join(absent)}.", "Invite, enrol or reconcile them, then start."
        )
    if study.method.name == "feature" and _public_set(connection, study_id) is None:
        raise Conflict(
            f"The public set {study.method.public_set!r} is not here.", "PUT it to /v1/studies/{id}/public-set first."
        )
    events.note(connection, study_id, "study-started", "", now=now)
    begin(connection, row, now)
    crash_point("study-started")


def cancel(connection: Connection, own: Identity, study_id: str, reason: str, now: float) -> None:
    """End a study at the lead's wish. Charges stand; results that come later are refused."""
    row = study_row(connection, study_id, lock=True)
    if row.state == "cancelled":
        return
    if row.state in ENDED:
        raise Conflict(f"The study is {row.state}.", "There is nothing to cancel.")
    end(connection, own, study_id, "cancelled", reason or "The lead cancelled it.", now)


def overview(connection: Connection, study_id: str) -> Overview:
    """All there is to see of a study."""
    row = study_row(connection, study_id)
    study = read_study(row.document)
    named = [*study.sources, *study.targets]
    known = connection.execute(select(parties).where(parties.c.id.in_(named)))
    released = select(results.c.task, results.c.digest).where(results.c.study == study_id)
    return Overview(
        row,
        study,
        tasks_of(connection, study_id),
        {party.id: party for party in known},
        {task: digest for task, digest in connection.execute(released) if digest is not None},
        _public_set(connection, study_id),
    )


def page(connection: Connection, after: str, limit: int) -> list[Row[Any]]:
    """Studies in the order of their ids."""
    query = select(studies).where(studies.c.id > after).order_by(studies.c.id).limit(limit)
    return list(connection.execute(query))


def _unable(connection: Connection, study: Study) -> list[str]:
    """Who cannot take part, and why."""
    wanted = dict.fromkeys(study.sources, "source") | dict.fromkeys(study.targets, "target")
    found = {row.id: row for row in connection.execute(select(parties).where(parties.c.id.in_(wanted)))}
    absent = []
    for party, role in wanted.items():
        row = found.get(party)
        if row is None:
            absent.append(f"{party} is not enrolled")
        elif row.state != "active":
            absent.append(f"{party} is {row.state}")
        elif row.role != role:
            absent.append(f"{party} is a {row.role}, not a {role}")
    return absent


def _public_set(connection: Connection, study_id: str) -> str | None:
    query = select(public_sets.c.digest).where(public_sets.c.study == study_id)
    return connection.execute(query).scalar_one_or_none()
