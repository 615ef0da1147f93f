"""What a study does next, decided by its tasks and the clock alone.

The steps a study may take are those of the table `STUDIES` (`crossward_coordinator.studies.tables`). Sources train
first, then targets; a method without sources starts with targets. Under a method that aggregates, the coordinator's own
task lies between the two. Each phase lasts at most the study's deadline, so every study ends.

The quorum fixes what the targets learn from, the same for all of them. Until then a party that is revoked takes
its release with it; from then on what was accepted stays. A source that the quorum was reached without is told to stop,
and keeps its budget, unless it has paid: its charge stands whatever happens, so it may finish, and its release is taken
and gets its receipt, but is *late*: nobody learns from it.

Whoever calls these functions holds the study's lock, or lets them take it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import BindParameter, Connection, Select, bindparam, insert, or_, select, update

from crossward.protocol.constants import COORDINATOR, TaskKind, task_id
from crossward.protocol.states import PartyState, StudyState, TaskState
from crossward.protocol.times import time_text
from crossward_coordinator.certificates import service as certificates
from crossward_coordinator.identity import Identity
from crossward_coordinator.ledger.service import charge
from crossward_coordinator.parties import service as parties
from crossward_coordinator.parties.tables import Party
from crossward_coordinator.settings import CoordinatorSettings
from crossward_coordinator.studies import events
from crossward_coordinator.studies.tables import RUNNING, STUDY_STATES, EventKind, StoredStudy, find_study, studies
from crossward_coordinator.tasks.tables import OPEN, StoredTask, move_tasks, tasks, tasks_of
from crossward_coordinator.times import Moment

_NO_DEADLINE: dict[str, Any] = {"deadline": None, "due": None}

LONGEST_PAUSE = 300.0
"""Seconds between two leases of a task, at most."""

ENDINGS: Mapping[StudyState, EventKind] = {
    StudyState.COMPLETE: EventKind.STUDY_COMPLETE,
    StudyState.FAILED: EventKind.STUDY_FAILED,
    StudyState.CANCELLED: EventKind.STUDY_CANCELLED,
}


# -- a step -----------------------------------------------------------------------------------------------------------
def begin(connection: Connection, stored: StoredStudy, now: Moment) -> None:
    """Open the first tasks of a study."""
    connection.execute(update(studies).where(studies.c.id == stored.id).values(started=now.time))
    _open_phase(connection, stored, _first_phase(stored), now)


def advance(connection: Connection, own: Identity, study: str, now: Moment) -> None:
    """Move a study on as far as its tasks and the clock allow. The caller holds its lock."""
    stored = find_study(connection, study)
    if stored.state is StudyState.SOURCES:
        _after_sources(connection, own, stored, now)
        stored = find_study(connection, study)  # where all targets have been revoked meanwhile, it ends at once
    if stored.state is StudyState.TARGETS:
        _after_targets(connection, own, stored, now)


def end(connection: Connection, own: Identity, stored: StoredStudy, state: StudyState, cause: str, now: Moment) -> None:
    """End a study, with a cause and a certificate of what was released until then."""
    cancel_tasks(connection, tasks_of(connection, stored.id), cause or f"The study is {state}.", now)
    this = studies.c.id == stored.id
    STUDY_STATES.move(connection, studies, this, state, of=stored.state, cause=cause, ended=now.time, **_NO_DEADLINE)
    events.note(connection, stored.id, ENDINGS[state], cause, now=now.time)
    certificates.issue(connection, own, find_study(connection, stored.id), now.time)


def withdraw(connection: Connection, own: Identity, party: str, cause: str, now: Moment) -> None:
    """A party will do nothing more: cancel its open tasks, and let its studies go on without it.

    A study that waits for its quorum goes on without what the party released, too.
    """
    query = select(tasks.c.study).join(studies, studies.c.id == tasks.c.study).distinct()
    query = query.where(tasks.c.party == party, studies.c.state.in_(RUNNING))
    for study in sorted(connection.execute(query).scalars()):
        stored = find_study(connection, study, lock=True)
        all_tasks = tasks_of(connection, study)
        mine = [task for task in all_tasks if task.party == party]
        left = cancel_tasks(connection, mine, cause, now)
        if is_gathering(stored, all_tasks):
            unused = f"{cause} What it had released is not used."
            left += cancel_tasks(connection, mine, unused, now, (TaskState.DONE,))
        if left:
            events.note(connection, study, EventKind.PARTY_LEFT, cause, party=party, now=now.time)
            advance(connection, own, study, now)


def _after_sources(connection: Connection, own: Identity, stored: StoredStudy, now: Moment) -> None:
    all_tasks = tasks_of(connection, stored.id)
    if aggregate := [task for task in all_tasks if task.kind is TaskKind.AGGREGATE]:
        _after_aggregate(connection, own, stored, aggregate[0], now)
        return
    done = [task for task in all_tasks if task.state is TaskState.DONE]
    waiting = [task for task in all_tasks if task.is_open]
    need = stored.study.quorum.sources
    if len(done) >= need:
        unpaid = [task for task in waiting if charge(connection, task) is None]
        cancel_tasks(connection, unpaid, f"The quorum of {need} sources was reached without it.", now)
        _open_next(connection, stored, now)
    elif stored.is_due(now):
        missing = _missing(connection, all_tasks)
        cause = f"By the deadline {len(done)} of the {need} sources needed had released. Missing: {missing}."
        end(connection, own, stored, StudyState.FAILED, cause, now)
    elif len(done) + len(waiting) < need:
        missing = _missing(connection, all_tasks)
        cause = f"The quorum of {need} sources can no longer be reached. Missing: {missing}."
        end(connection, own, stored, StudyState.FAILED, cause, now)


def _after_aggregate(
    connection: Connection, own: Identity, stored: StoredStudy, aggregate: StoredTask, now: Moment
) -> None:
    if aggregate.state is TaskState.DONE:
        _open_phase(connection, stored, StudyState.TARGETS, now)
    elif not aggregate.is_open:
        cause = f"The sources' models could not be aggregated: {aggregate.cause}"
        end(connection, own, stored, StudyState.FAILED, cause, now)


def _after_targets(connection: Connection, own: Identity, stored: StoredStudy, now: Moment) -> None:
    all_tasks = [task for task in tasks_of(connection, stored.id) if task.kind is TaskKind.TRAIN_TARGET]
    waiting = any(task.is_open for task in all_tasks)
    if waiting and not stored.is_due(now):
        return
    when = "By the deadline" if waiting else "In the end"
    done = sum(task.state is TaskState.DONE for task in all_tasks)
    missing = _missing(connection, all_tasks)
    cause = f"{when} {done} of {len(all_tasks)} targets were done. Missing: {missing}." if missing else ""
    end(connection, own, stored, StudyState.COMPLETE if done else StudyState.FAILED, cause, now)


# -- sources and the quorum -------------------------------------------------------------------------------------------
def is_gathering(stored: StoredStudy, all_tasks: Sequence[StoredTask]) -> bool:
    """Whether a study still waits for its quorum of sources."""
    return stored.state is StudyState.SOURCES and all(task.kind is TaskKind.TRAIN_SOURCE for task in all_tasks)


def is_late(stored: StoredStudy, task: StoredTask, all_tasks: Sequence[StoredTask]) -> bool:
    """Whether a result of this task would come after the quorum, while the study goes on without it."""
    if task.kind is not TaskKind.TRAIN_SOURCE or stored.state not in RUNNING or is_gathering(stored, all_tasks):
        return False
    return task.is_open or task.state is TaskState.CANCELLED


# -- opening and cancelling tasks -------------------------------------------------------------------------------------
def cancel_tasks(
    connection: Connection, some: Sequence[StoredTask], cause: str, now: Moment, of: Sequence[TaskState] = OPEN
) -> int:
    """Cancel those of the tasks that are still open, or in a state `of`; how many they were."""
    ids = [task.id for task in some if task.state in of]
    return move_tasks(connection, tasks.c.id.in_(ids), TaskState.CANCELLED, of=of, now=now.time, cause=cause)


def _first_phase(stored: StoredStudy) -> StudyState:
    return StudyState.SOURCES if stored.study.method.has_sources else StudyState.TARGETS


def _open_next(connection: Connection, stored: StoredStudy, now: Moment) -> None:
    """After the sources: targets, or first the coordinator's aggregate."""
    if stored.study.method.aggregates:
        _open_tasks(connection, stored, TaskKind.AGGREGATE, [COORDINATOR], now)
        text = "The sources' models are being aggregated."
        events.note(connection, stored.id, EventKind.QUORUM, text, now=now.time)
    else:
        _open_phase(connection, stored, StudyState.TARGETS, now)


def _open_phase(connection: Connection, stored: StoredStudy, phase: StudyState, now: Moment) -> None:
    study = stored.study
    if phase is StudyState.SOURCES:
        kind, who, event = TaskKind.TRAIN_SOURCE, study.sources, EventKind.SOURCES
    else:
        kind, who, event = TaskKind.TRAIN_TARGET, study.targets, EventKind.TARGETS
    lasts = study.quorum.deadline.total_seconds()
    end: dict[str, Any] = {"deadline": now.time + lasts, "due": now.age + lasts}
    STUDY_STATES.move(connection, studies, studies.c.id == stored.id, phase, of=stored.state, **end)
    _open_tasks(connection, stored, kind, who, now)
    text = f"{len(who)} {phase} are asked until {time_text(end['deadline'])}."
    events.note(connection, stored.id, event, text, now=now.time)


def _open_tasks(connection: Connection, stored: StoredStudy, kind: TaskKind, who: Sequence[str], now: Moment) -> None:
    new = {"study": stored.id, "kind": kind, "state": TaskState.READY, "cause": "", "attempt": 0, "available": now.age}
    new |= {"progress": 0.0, "note": "", "heard": False, "updated": now.time}
    rows = [{"id": task_id(stored.digest, kind, party), "party": party} | new for party in who]
    connection.execute(insert(tasks), rows)
    # A party that was revoked after the start will never ask for its task.
    known = parties.find_all(connection, who)
    gone = [name for name, party in known.items() if party.state is PartyState.REVOKED]
    opened = [task for task in tasks_of(connection, stored.id) if task.kind is kind and task.party in gone]
    cancel_tasks(connection, opened, "The party was revoked.", now)


def _missing(connection: Connection, some: Sequence[StoredTask]) -> str:
    """Who is not done, why, and since when."""
    missing = [task for task in some if task.state is not TaskState.DONE]
    known = parties.find_all(connection, [task.party for task in missing])
    return "; ".join(f"{task.party} ({_why(task, known.get(task.party))})" for task in missing)


def _why(task: StoredTask, party: Party | None) -> str:
    if not task.is_open:
        return f"{task.state}: {task.cause}"
    if party is not None and party.state is not PartyState.ACTIVE:
        return f"{party.state} since {time_text(party.since)}: {party.cause}"
    if party is None or party.seen is None:
        return "never seen"
    return f"{'at work' if task.state is TaskState.LEASED else 'waited for'}, last seen {time_text(party.seen)}"


# -- when time passes -------------------------------------------------------------------------------------------------
def due(connection: Connection, now: Moment) -> list[str]:
    """The studies for which a lease or a deadline has passed."""
    return list(connection.execute(_DUE, {"age": now.age}).scalars())


def _due() -> Select[Any]:
    age: BindParameter[float] = bindparam("age")
    expired = select(tasks.c.study).where(tasks.c.state == TaskState.LEASED, tasks.c.lease_until <= age)
    query = select(studies.c.id).where(studies.c.state.in_(RUNNING))
    return query.where(or_(studies.c.due <= age, studies.c.id.in_(expired))).order_by(studies.c.id)


_DUE = _due()


def pass_time(connection: Connection, own: Identity, study: str, settings: CoordinatorSettings, now: Moment) -> None:
    """End the leases of a study that have expired, and let it go on. Any process may do it; one of them does."""
    find_study(connection, study, lock=True)
    for task in tasks_of(connection, study):
        if task.state is TaskState.LEASED and task.lease_until is not None and task.lease_until <= now.age:
            _expire(connection, task, settings, now)
    advance(connection, own, study, now)


def _expire(connection: Connection, task: StoredTask, settings: CoordinatorSettings, now: Moment) -> None:
    """Give a task again after a pause that doubles, or give it up."""
    # Only if the lease is still the one that was seen: a heartbeat holds the same lock, a stop does not.
    same = (tasks.c.id == task.id) & (tasks.c.attempt == task.attempt)
    if task.attempt >= settings.attempts:
        kind, text = EventKind.TASK_FAILED, f"{task.attempt} leases ended without a result."
        ended = move_tasks(connection, same, TaskState.FAILED, of=TaskState.LEASED, now=now.time, cause=text)
    else:
        kind, text = EventKind.LEASE_EXPIRED, f"Attempt {task.attempt} ended without a result."
        again = now.age + min(LONGEST_PAUSE, settings.backoff_seconds * 2.0 ** min(task.attempt - 1, 20))
        ended = move_tasks(connection, same, TaskState.READY, of=TaskState.LEASED, now=now.time, available=again)
    if ended:
        events.note(connection, task.study, kind, text, party=task.party, now=now.time)
