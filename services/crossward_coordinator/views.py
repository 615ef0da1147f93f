"""What the coordinator answers, as documents. Times are ISO 8601 in UTC."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel
from sqlalchemy import Row

from crossward_coordinator.workflows.rows import moment, read_study
from crossward_coordinator.workflows.studies import Overview


class CoordinatorView(BaseModel):
    """Who this coordinator is."""

    name: str
    public_key: str
    key_id: str
    version: str
    time: datetime


class InviteView(BaseModel):
    """A one-time code, shown once."""

    party: str
    role: str
    code: str
    expires: datetime


class EnrolledView(BaseModel):
    """A party's key is known here; `coordinator` is the key to check receipts with."""

    party: str
    role: str
    key_id: str
    coordinator: CoordinatorView


class KeyView(BaseModel):
    """A public key of a party: active, rotated or revoked. What was accepted before `revoked` still counts."""

    key_id: str
    public_key: str
    state: str
    created: datetime
    revoked: datetime | None


class PartyView(BaseModel):
    """A party: active, stopped with a cause, or revoked."""

    party: str
    role: str
    state: str
    cause: str
    since: datetime
    last_seen: datetime | None
    keys: list[KeyView]


class PartyPage(BaseModel):
    """Some parties; `next` is the `after` of the next page."""

    items: list[PartyView]
    next: str | None


class TaskView(BaseModel):
    """A task as its study's lead sees it."""

    id: str
    party: str
    kind: str
    state: str
    cause: str
    attempt: int
    progress: float
    note: str
    updated: datetime
    release: str | None


class LateView(BaseModel):
    """Whom the study waits for, and since when that party was silent."""

    party: str
    task: str
    state: str
    party_state: str
    cause: str
    last_seen: datetime | None


class StudySummary(BaseModel):
    """A study in a list."""

    id: str
    digest: str
    title: str
    method: str
    lead: str
    state: str
    cause: str
    created: datetime
    started: datetime | None
    deadline: datetime | None
    ended: datetime | None


class StudyView(StudySummary):
    """A study with its tasks, whom it waits for, and how many events there are.

    `chosen`: why `method: auto` became this method, null where the lead named it.
    """

    sources: list[str]
    targets: list[str]
    quorum: int
    public_set: str | None
    chosen: str | None
    tasks: list[TaskView]
    late: list[LateView]
    events: int


class StudyPage(BaseModel):
    """Some studies; `next` is the `after` of the next page."""

    items: list[StudySummary]
    next: str | None


class CheckedView(BaseModel):
    """A study file without problems."""

    id: str
    digest: str
    method: str
    sources: list[str]
    targets: list[str]


class PublicSetView(BaseModel):
    """A public set that fits its study."""

    digest: str
    records: int


class PulseView(BaseModel):
    """The answer to a heartbeat. `cancelled`: stop, nobody waits for this any more."""

    task: str
    state: str
    cancelled: bool
    cause: str
    lease_seconds: float


class HeadView(BaseModel):
    """Where a ledger ends."""

    sequence: int
    hash: str


class LinesView(BaseModel):
    """Lines of a mirrored ledger; `next` is the `after` of the next page."""

    party: str
    head: HeadView
    lines: list[dict[str, Any]]
    next: int | None


class VerifiedView(BaseModel):
    """Whether a mirror holds; if not, its first line that is wrong, and why."""

    party: str
    holds: bool
    head: HeadView | None
    line: int | None
    cause: str


def time_of(seconds: float | None) -> datetime | None:
    """A stored time, if there is one."""
    return None if seconds is None else moment(seconds)


def party_view(row: Row[Any], keys: list[Row[Any]]) -> PartyView:
    """A party and its keys."""
    return PartyView(
        party=row.id,
        role=row.role,
        state=row.state,
        cause=row.cause,
        since=moment(row.since),
        last_seen=time_of(row.seen),
        keys=[
            KeyView(
                key_id=key.key_id,
                public_key=key.public_key,
                state=key.state,
                created=moment(key.created),
                revoked=time_of(key.revoked),
            )
            for key in keys
        ],
    )


def summary(row: Row[Any]) -> StudySummary:
    """A study in a list."""
    return StudySummary(**_summary(row))


def _summary(row: Row[Any]) -> dict[str, Any]:
    study = read_study(row.document)
    return {
        "id": row.id,
        "digest": row.digest,
        "title": study.title,
        "method": study.method.name,
        "lead": row.lead,
        "state": row.state,
        "cause": row.cause,
        "created": moment(row.created),
        "started": time_of(row.started),
        "deadline": time_of(row.deadline),
        "ended": time_of(row.ended),
    }


def study_view(found: Overview) -> StudyView:
    """All there is to see of a study."""
    return StudyView(
        **_summary(found.row),
        sources=list(found.study.sources),
        targets=list(found.study.targets),
        quorum=found.study.quorum.sources,
        public_set=found.public_set,
        chosen=None if found.study.chosen is None else found.study.chosen.why,
        tasks=[_task(task, found.releases.get(task.id)) for task in found.tasks],
        late=[_late(task, found.parties.get(task.party)) for task in found.late],
        events=found.row.events,
    )


def _task(row: Row[Any], release: str | None) -> TaskView:
    names = ("id", "party", "kind", "state", "cause", "attempt", "progress", "note")
    return TaskView(**{name: getattr(row, name) for name in names}, updated=moment(row.updated), release=release)


def _late(task: Row[Any], party: Row[Any] | None) -> LateView:
    return LateView(
        party=task.party,
        task=task.id,
        state=task.state,
        party_state="" if party is None else party.state,
        cause="" if party is None else party.cause,
        last_seen=None if party is None else time_of(party.seen),
    )
