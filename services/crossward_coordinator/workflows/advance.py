"""What a study does next, decided by its tasks and the clock alone.

    draft ──start──> sources ──quorum──> targets ──all ended──> complete (at least one target is done) or failed
                        │ quorum out of reach, deadline             │ deadline: those not done are cancelled
                        └──> failed                                 └──> complete or failed

The quorum fixes what the targets learn from. Until then a party that is revoked takes its release with it; from then on
what was accepted stays, and what comes from a source is late (`crossward_coordinator.workflows.late`).
A method without sources starts with targets. Under the feature method the coordinator's own task, `aggregate`, lies
between the two. Each phase lasts at most the study's deadline, so every study ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from crossward.study import Study
from crossward_coordinator import identity
from crossward_coordinator.identity import Identity
from crossward_coordinator.tables import parties, studies, tasks
from crossward_coordinator.workflows import certificates, events
from crossward_coordinator.workflows.late import is_gathering, is_paid
from crossward_coordinator.workflows.rows import OPEN, RUNNING, read_study, said_time, study_row, task_id, tasks_of


def begin(connection: Connection, row: Row[Any], now: float) -> None:
    """Open the first tasks of a study."""
    study = read_study(row.document)
    phase, who = ("sources", study.sources) if study.method.has_sources else ("targets", study.targets)
    connection.execute(update(studies).where(studies.c.id == study.id).values(started=now))
    _open_phase(connection, study, phase, who, now)


def advance(connection: Connection, own: Identity, study_id: str, now: float) -> None:
    """Move a study on as far as its tasks and the clock allow. The caller holds its lock."""
    row = study_row(connection, study_id)
    if row.state == "sources":
        _after_sources(connection, own, row, now)
    elif row.state == "targets":
        _after_targets(connection, own, row, now)


def withdraw(connection: Connection, own: Identity, party: str, cause: str, now: float) -> None:
    """A party will do nothing more: cancel its open tasks, and let its studies go on without it.

    A study that waits for its quorum goes on without what the party released, too.
    """
    query = select(tasks.c.study).join(studies, studies.c.id == tasks.c.study).distinct()
    query = query.where(tasks.c.party == party, studies.c.state.in_(RUNNING))
    for study in sorted(connection.execute(query).scalars()):
        row = study_row(connection, study, lock=True)
        all_tasks = tasks_of(connection, study)
        mine = [task for task in all_tasks if task.party == party]
        left = cancel_tasks(connection, mine, cause, now)
        if is_gathering(row, all_tasks):
            left += cancel_tasks(connection, mine, f"{cause} What it had released is not used.", now, ("done",))
        if left:
            events.note(connection, study, "party-left", cause, party=party, now=now)
            advance(connection, own, study, now)


def end(connection: Connection, own: Identity, study: str, state: str, cause: str, now: float) -> None:
    """End a study, with a cause and a certificate of what was released until then."""
    cancel_tasks(connection, tasks_of(connection, study), cause or f"The study is {state}.", now)
    values = {"state": state, "cause": cause, "ended": now, "deadline": None}
    connection.execute(update(studies).where(studies.c.id == study).values(**values))
    events.note(connection, study, f"study-{state}", cause, now=now)
    certificates.issue(connection, own, study, now)


def cancel_tasks(
    connection: Connection, rows: Sequence[Row[Any]], cause: str, now: float, states: Sequence[str] = OPEN
) -> int:
    """Cancel those of the tasks that are still open, or in the states given; how many they were."""
    ids = [row.id for row in rows if row.state in states]
    values = {"state": "cancelled", "cause": cause, "lease_until": None, "updated": now}
    still = update(tasks).where(tasks.c.id.in_(ids), tasks.c.state.in_(states))
    return connection.execute(still.values(**values)).rowcount


def _after_sources(connection: Connection, own: Identity, row: Row[Any], now: float) -> None:
    study, all_tasks = read_study(row.document), tasks_of(connection, row.id)
    aggregates = [task for task in all_tasks if task.kind == "aggregate"]
    if aggregates:
        _after_aggregate(connection, own, study, aggregates[0], now)
        return
    done = [task for task in all_tasks if task.state == "done"]
    waiting = [task for task in all_tasks if task.state in OPEN]
    need = study.quorum.sources
    if len(done) >= need:
        unpaid = [task for task in waiting if not is_paid(connection, task)]
        cancel_tasks(connection, unpaid, f"The quorum of {need} sources was reached without it.", now)
        _open_next(connection, study, now)
    elif row.deadline <= now:
        missing = _missing(connection, all_tasks)
        cause = f"By the deadline {len(done)} of the {need} sources needed had released. Missing: {missing}."
        end(connection, own, study.id, "failed", cause, now)
    elif len(done) + len(waiting) < need:
        missing = _missing(connection, all_tasks)
        cause = f"The quorum of {need} sources can no longer be reached. Missing: {missing}."
        end(connection, own, study.id, "failed", cause, now)


def _after_aggregate(connection: Connection, own: Identity, study: Study, task: Row[Any], now: float) -> None:
    if task.state == "done":
        _open_phase(connection, study, "targets", study.targets, now)
    elif task.state not in OPEN:
        end(connection, own, study.id, "failed", f"The sources' models could not be aggregated: {task.cause}", now)


def _after_targets(connection: Connection, own: Identity, row: Row[Any], now: float) -> None:
    all_tasks = [task for task in tasks_of(connection, row.id) if task.kind == "train-target"]
    waiting = any(task.state in OPEN for task in all_tasks)
    if waiting and row.deadline > now:
        return
    when = "By the deadline" if waiting else "In the end"
    done = sum(task.state == "done" for task in all_tasks)
    missing = _missing(connection, all_tasks)
    cause = f"{when} {done} of {len(all_tasks)} targets were done. Missing: {missing}." if missing else ""
    end(connection, own, row.id, "complete" if done else "failed", cause, now)


def _open_next(connection: Connection, study: Study, now: float) -> None:
    """After the sources: targets, or first the coordinator's aggregate."""
    if study.method.name == "feature":
        _open_tasks(connection, study, "aggregate", [identity.NAME], now)
        events.note(connection, study.id, "quorum", "The sources' models are being aggregated.", now=now)
    else:
        _open_phase(connection, study, "targets", study.targets, now)


def _open_phase(connection: Connection, study: Study, phase: str, who: Sequence[str], now: float) -> None:
    deadline = now + study.quorum.deadline.total_seconds()
    connection.execute(update(studies).where(studies.c.id == study.id).values(state=phase, deadline=deadline))
    _open_tasks(connection, study, f"train-{phase.removesuffix('s')}", who, now)
    events.note(connection, study.id, phase, f"{len(who)} {phase} are asked until {said_time(deadline)}.", now=now)


def _open_tasks(connection: Connection, study: Study, kind: str, who: Sequence[str], now: float) -> None:
    new = {"state": "ready", "cause": "", "attempt": 0, "available": now, "progress": 0.0, "note": "", "updated": now}
    digest = study.digest
    rows = [
        {"id": task_id(digest, kind, party), "study": study.id, "party": party, "kind": kind} | new for party in who
    ]
    # A party that was revoked after the start will never ask for its task.
    gone = set(
        connection.execute(select(parties.c.id).where(parties.c.id.in_(who), parties.c.state == "revoked")).scalars()
    )
    for row in rows:
        if row["party"] in gone:
            row |= {"state": "cancelled", "cause": "The party was revoked."}
    connection.execute(insert(tasks), rows)


def _missing(connection: Connection, rows: Sequence[Row[Any]]) -> str:
    """Who is not done, why, and since when."""
    missing = [row for row in rows if row.state != "done"]
    query = select(parties).where(parties.c.id.in_([row.party for row in missing]))
    known = {party.id: party for party in connection.execute(query)}
    return "; ".join(f"{row.party} ({_why(row, known.get(row.party))})" for row in missing)


def _why(task: Row[Any], party: Row[Any] | None) -> str:
    if task.state not in OPEN:
        return f"{task.state}: {task.cause}"
    if party is not None and party.state != "active":
        return f"{party.state} since {said_time(party.since)}: {party.cause}"
    if party is None or party.seen is None:
        return "never seen"
    return f"{'at work' if task.state == 'leased' else 'waited for'}, last seen {said_time(party.seen)}"
