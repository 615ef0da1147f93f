"""A study's life as its lead sees it: check, create, start, cancel, look at."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, select

from crossward.errors import Conflict
from crossward.protocol.constants import COORDINATOR, Role
from crossward.protocol.states import PartyState, StudyState
from crossward.study import Study
from crossward_coordinator.identity import Identity
from crossward_coordinator.parties import service as parties
from crossward_coordinator.parties.tables import Party
from crossward_coordinator.releases import service as releases
from crossward_coordinator.studies import events, public_sets
from crossward_coordinator.studies.advance import begin, end
from crossward_coordinator.studies.tables import RUNNING, STUDY_STATES, EventKind, StoredStudy, find_study, studies
from crossward_coordinator.tasks.tables import StoredTask, tasks_of
from crossward_coordinator.times import Moment
from crossward_service.db.engine import UnlessThere
from crossward_service.ops.crash import crash_point

_NEW_STUDY = UnlessThere(studies, studies.c.id)


@dataclass(frozen=True, slots=True)
class Overview:
    """A study, its tasks, its parties by name, and the digests of what was released, by task."""

    stored: StoredStudy
    tasks: list[StoredTask]
    parties: dict[str, Party]
    releases: dict[str, str]
    public_set: str | None

    @property
    def waiting(self) -> list[StoredTask]:
        """The tasks that the study waits for: those of its last phase. A source that may still finish is not one."""
        if not self.tasks:
            return []
        last = self.tasks[-1].kind  # tasks come in the order of phases
        return [task for task in self.tasks if task.kind is last and task.is_open]


def create(connection: Connection, study: Study, lead: str, now: float) -> bool:
    """Store a checked study; True if it is new. The same study again is the same; another under its id is refused."""
    if COORDINATOR in (*study.sources, *study.targets):
        raise Conflict(f"{COORDINATOR!r} is the coordinator itself.", "Name the hospitals that take part.")
    row = {
        "id": study.id,
        "digest": study.digest,
        "document": study.canonical().decode(),
        "lead": lead,
        "state": StudyState.DRAFT,
        "cause": "",
        "created": now,
        "events": 0,
    }
    if not _NEW_STUDY.insert(connection, row):  # it was there, or another request was faster
        if find_study(connection, study.id).digest != study.digest:
            raise Conflict(
                f"Another study has the id {study.id}.", "A study never changes: give the new one its own id."
            )
        return False
    events.note(connection, study.id, EventKind.STUDY_CREATED, f"By {lead}.", now=now)
    return True


def start(connection: Connection, study_id: str, now: Moment) -> None:
    """Open the first tasks, if everybody the study names can take part. Started again, nothing happens."""
    stored = find_study(connection, study_id, lock=True)
    if stored.state in RUNNING:
        return
    if stored.state is not StudyState.DRAFT:
        raise Conflict(f"The study is {stored.state}.", "Give a new study its own id.")
    study = stored.study
    if absent := _unable(connection, study):
        raise Conflict(
            f"These parties cannot take part: {'; '.join(absent)}.", "Invite, enrol or reconcile them, then start."
        )
    if (name := study.method.public_set_name) is not None and public_sets.digest(connection, study_id) is None:
        raise Conflict(f"The public set {name!r} is not here.", "PUT it to /v1/studies/{id}/public-set first.")
    events.note(connection, study_id, EventKind.STUDY_STARTED, "", now=now.time)
    begin(connection, stored, now)
    crash_point("study-started")  # tasks are written, not committed


def cancel(connection: Connection, own: Identity, study_id: str, reason: str, now: Moment) -> None:
    """End a study at the lead's wish. Charges stand; results that come later are refused."""
    stored = find_study(connection, study_id, lock=True)
    if stored.state is StudyState.CANCELLED:
        return
    if stored.state in STUDY_STATES.ends:
        raise Conflict(f"The study is {stored.state}.", "There is nothing to cancel.")
    end(connection, own, stored, StudyState.CANCELLED, reason or "The lead cancelled it.", now)


def overview(connection: Connection, study_id: str) -> Overview:
    """All there is to see of a study."""
    stored = find_study(connection, study_id)
    return Overview(
        stored,
        tasks_of(connection, study_id),
        parties.find_all(connection, (*stored.study.sources, *stored.study.targets)),
        releases.digests(connection, study_id),
        public_sets.digest(connection, study_id),
    )


def page(connection: Connection, after: str, limit: int) -> list[StoredStudy]:
    """Studies in the order of their ids."""
    query = select(studies).where(studies.c.id > after).order_by(studies.c.id).limit(limit)
    return [StoredStudy(**row._asdict()) for row in connection.execute(query)]


def _unable(connection: Connection, study: Study) -> list[str]:
    """Who cannot take part, and why."""
    wanted = dict.fromkeys(study.sources, Role.SOURCE) | dict.fromkeys(study.targets, Role.TARGET)
    known = parties.find_all(connection, wanted)
    absent = []
    for name, role in wanted.items():
        party = known.get(name)
        if party is None:
            absent.append(f"{name} is not enrolled")
        elif party.state is not PartyState.ACTIVE:
            absent.append(f"{name} is {party.state}")
        elif party.role is not role:
            absent.append(f"{name} is a {party.role}, not a {role}")
    return absent
