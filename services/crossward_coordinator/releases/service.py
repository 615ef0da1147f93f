"""Releases are kept once, with their receipts, and are what later tasks learn from."""

from __future__ import annotations

from sqlalchemy import Column, Connection, func, insert, select

from crossward.errors import NotFound
from crossward.protocol.constants import TaskKind
from crossward.protocol.envelopes import SignedReceipt, SignedRelease
from crossward.protocol.states import TaskState
from crossward.study import Study
from crossward.study.work import input_kind
from crossward_coordinator.releases.tables import StoredResult, results
from crossward_coordinator.tasks.tables import StoredTask, tasks


def keep(
    connection: Connection, task: StoredTask, release: SignedRelease | None, receipt: SignedReceipt, now: float
) -> None:
    """Store what came of a task, and the receipt for it."""
    row = {
        "task": task.id,
        "study": task.study,
        "party": task.party,
        "digest": release and release.digest,
        "document": release and release.canonical().decode(),
        "receipt": receipt.canonical().decode(),
        "stored": now,
    }
    connection.execute(insert(results).values(row))


def find(connection: Connection, task: str) -> StoredResult | None:
    """What came of a task, if anything has."""
    row = connection.execute(select(results).where(results.c.task == task)).one_or_none()
    return None if row is None else StoredResult(**row._asdict())


def release(connection: Connection, digest: str) -> str:
    """The signed release of this digest, in its canonical form."""
    return _of_digest(connection, digest, results.c.document)


def receipt(connection: Connection, digest: str) -> str:
    """The receipt of the release of this digest, in its canonical form."""
    return _of_digest(connection, digest, results.c.receipt)


def digests(connection: Connection, study: str) -> dict[str, str]:
    """The digests of all that was released in a study, by task."""
    query = select(results.c.task, results.c.digest).where(results.c.study == study, results.c.digest.is_not(None))
    return {row.task: row.digest for row in connection.execute(query)}


def last_stored(connection: Connection, party: str) -> float | None:
    """When the last result of a party was accepted."""
    last: float | None = connection.execute(
        select(func.max(results.c.stored)).where(results.c.party == party)
    ).scalar_one()
    return last


def inputs(connection: Connection, study: Study, kind: TaskKind) -> tuple[SignedRelease, ...]:
    """What a task learns from: the sources' releases, or the aggregate of them."""
    documents = _inputs(connection, study, kind, results.c.document)
    return tuple(SignedRelease.from_json(document) for document in documents)


def input_digests(connection: Connection, study: Study, kind: TaskKind) -> list[str]:
    """The digests of what a task learns from."""
    return _inputs(connection, study, kind, results.c.digest)


def _inputs(connection: Connection, study: Study, kind: TaskKind, column: Column[str]) -> list[str]:
    """Releases of tasks that are done, in the order of the parties' names; late ones are not among them."""
    learned_from = input_kind(study, kind)
    if learned_from is None:
        return []
    query = (
        select(column)
        .join(tasks, tasks.c.id == results.c.task)
        .where(results.c.study == study.id, tasks.c.kind == learned_from)
        .where(tasks.c.state == TaskState.DONE, results.c.document.is_not(None))
        .order_by(results.c.party)
    )
    return list(connection.execute(query).scalars())


def _of_digest(connection: Connection, digest: str, column: Column[str]) -> str:
    document = connection.execute(select(column).where(results.c.digest == digest)).scalar_one_or_none()
    if document is None:
        raise NotFound(f"Nothing with the digest {digest} was released here.", "Studies list their releases' digests.")
    return document
