"""What is answered about studies, their tasks and their events."""

from __future__ import annotations

from typing import Literal, Self

from crossward.protocol.constants import TaskKind
from crossward.protocol.states import PartyState, StudyState, TaskState
from crossward.protocol.times import Time, moment, moment_or_none
from crossward.study import Study
from crossward_coordinator.parties.tables import Party
from crossward_coordinator.studies.events import Event
from crossward_coordinator.studies.public_sets import PublicSet
from crossward_coordinator.studies.service import Overview
from crossward_coordinator.studies.tables import EventKind, StoredStudy
from crossward_coordinator.tasks.tables import StoredTask
from crossward_service.http.views import View


class TaskView(View):
    """A task as its study's lead sees it."""

    id: str
    party: str
    kind: TaskKind
    state: TaskState
    cause: str
    attempt: int
    progress: float
    note: str
    updated: Time
    release: str | None

    @classmethod
    def of(cls, task: StoredTask, release: str | None) -> Self:
        """A task, and the digest of its release."""
        return cls(
            id=task.id,
            party=task.party,
            kind=task.kind,
            state=task.state,
            cause=task.cause,
            attempt=task.attempt,
            progress=task.progress,
            note=task.note,
            updated=moment(task.updated),
            release=release,
        )


class AwaitedView(View):
    """Whom the study waits for, and since when that party was silent. `party_state` of the coordinator itself is ""."""

    party: str
    task: str
    state: TaskState
    party_state: PartyState | Literal[""]
    cause: str
    last_seen: Time | None

    @classmethod
    def of(cls, task: StoredTask, party: Party | None) -> Self:
        """A task that is waited for, and its party, unless that is the coordinator."""
        return cls(
            party=task.party,
            task=task.id,
            state=task.state,
            party_state="" if party is None else party.state,
            cause="" if party is None else party.cause,
            last_seen=None if party is None else moment_or_none(party.seen),
        )


class StudySummary(View):
    """A study in a list."""

    id: str
    digest: str
    title: str
    method: str
    lead: str
    state: StudyState
    cause: str
    created: Time
    started: Time | None
    deadline: Time | None
    ended: Time | None

    @classmethod
    def of(cls, stored: StoredStudy) -> StudySummary:
        """A study as it is stored."""
        study = stored.study
        return StudySummary(
            id=stored.id,
            digest=stored.digest,
            title=study.title,
            method=study.method.name,
            lead=stored.lead,
            state=stored.state,
            cause=stored.cause,
            created=moment(stored.created),
            started=moment_or_none(stored.started),
            deadline=moment_or_none(stored.deadline),
            ended=moment_or_none(stored.ended),
        )


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
    waiting_for: list[AwaitedView]
    events: int

    @classmethod
    def of_overview(cls, overview: Overview) -> Self:
        """All there is to see of a study."""
        study = overview.stored.study
        return cls(
            **dict(StudySummary.of(overview.stored)),
            sources=list(study.sources),
            targets=list(study.targets),
            quorum=study.quorum.sources,
            public_set=overview.public_set,
            chosen=None if study.chosen is None else study.chosen.why,
            tasks=[TaskView.of(task, overview.releases.get(task.id)) for task in overview.tasks],
            waiting_for=[AwaitedView.of(task, overview.parties.get(task.party)) for task in overview.waiting],
            events=overview.stored.events,
        )


class StudyPage(View):
    """Some studies; `next` is the `after` of the next page."""

    items: list[StudySummary]
    next: str | None


class CheckedView(View):
    """A study file without problems."""

    id: str
    digest: str
    method: str
    sources: list[str]
    targets: list[str]

    @classmethod
    def of(cls, study: Study) -> Self:
        """A study that was read."""
        return cls(
            id=study.id,
            digest=study.digest,
            method=study.method.name,
            sources=list(study.sources),
            targets=list(study.targets),
        )


class PublicSetView(View):
    """A public set that fits its study."""

    digest: str
    records: int

    @classmethod
    def of(cls, public_set: PublicSet) -> Self:
        """A public set that was kept."""
        return cls(digest=public_set.digest, records=public_set.records)


class EventView(View):
    """Something that happened in a study; the party is "" where it concerns all."""

    number: int
    time: Time
    kind: EventKind
    party: str
    text: str

    @classmethod
    def of(cls, event: Event) -> Self:
        """An event as it is stored."""
        return cls(number=event.number, time=moment(event.time), kind=event.kind, party=event.party, text=event.text)
