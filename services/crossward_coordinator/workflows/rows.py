"""Studies and tasks as they are stored: finding, locking, reading."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import Column, Connection, Row, select

from crossward.errors import NotFound
from crossward.protocol.messages import SignedRelease
from crossward.study import Study
from crossward_coordinator.tables import results, studies, tasks

OPEN = ("ready", "leased")
RUNNING = ("sources", "targets")
ENDED = ("complete", "failed", "cancelled")


def study_row(connection: Connection, study: str, *, lock: bool = False) -> Row[Any]:
    """A study; locked, it changes for nobody else until this transaction ends."""
    query = select(studies).where(studies.c.id == study)
    row = connection.execute(query.with_for_update(key_share=True) if lock else query).one_or_none()
    if row is None:
        raise NotFound(f"There is no study {study}.", "GET /v1/studies lists them.")
    return row


@lru_cache(maxsize=64)
def read_study(document: str) -> Study:
    """The study in its stored form."""
    return Study.from_canonical(document)


def tasks_of(connection: Connection, study: str) -> list[Row[Any]]:
    """All tasks of a study, sources first."""
    query = select(tasks).where(tasks.c.study == study)
    order = {"train-source": 0, "aggregate": 1, "train-target": 2}
    return sorted(connection.execute(query), key=lambda row: (order[row.kind], row.party))


def lock_task(connection: Connection, party: str, task: str) -> tuple[Row[Any], Row[Any]]:
    """A party's own task and its study, both locked. Another's task is as unknown to it as none."""
    unknown = NotFound(f"{party} has no task {task} here.", "Ask for tasks with POST /v1/tasks/next.")
    query = select(tasks).where(tasks.c.id == task, tasks.c.party == party)
    found = connection.execute(query).one_or_none()
    if found is None:
        raise unknown
    study = study_row(connection, found.study, lock=True)
    return connection.execute(query.with_for_update()).one(), study


def task_id(digest: str, kind: str, party: str) -> str:
    """The same for the same study, work and party: a coordinator restored from a backup asks for what it asked before,
    and a site that has done it answers with the same bytes."""
    return f"{digest[:32]}.{kind}.{party}"


def inputs_of(connection: Connection, study: Study, kind: str) -> tuple[SignedRelease, ...]:
    """What a task learns from: the sources' releases, or under the feature method the aggregate of them."""
    documents = _inputs(connection, study, kind, results.c.document)
    return tuple(SignedRelease.from_json(document) for document in documents)


def input_digests(connection: Connection, study: Study, kind: str) -> list[str]:
    """The digests of what a task learns from."""
    return _inputs(connection, study, kind, results.c.digest)


def _inputs(connection: Connection, study: Study, kind: str, column: Column[str]) -> list[str]:
    """Releases of tasks that are done, in the order of the parties' names; late ones are not among them."""
    if kind == "train-source" or not study.method.has_sources:
        return []
    aggregated = kind == "train-target" and study.method.name == "feature"
    query = (
        select(column)
        .join(tasks, tasks.c.id == results.c.task)
        .where(results.c.study == study.id, tasks.c.kind == ("aggregate" if aggregated else "train-source"))
        .where(tasks.c.state == "done", results.c.document.is_not(None))
        .order_by(results.c.party)
    )
    return list(connection.execute(query).scalars())


def moment(seconds: float) -> datetime:
    """A stored time."""
    return datetime.fromtimestamp(seconds, UTC)


def said_time(seconds: float) -> str:
    """A stored time, for people."""
    return moment(seconds).strftime("%Y-%m-%d %H:%M:%S UTC")
