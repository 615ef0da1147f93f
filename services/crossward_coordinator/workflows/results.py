"""A result is taken, once: everything is checked, then everything is stored, in one transaction.

The same bytes again get the same receipt, whatever happened in between; other bytes for a task that is done are
refused. A lease is not asked for: a result is welcome as long as the task is open, or comes late to a study under way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from sqlalchemy import Connection, Row, insert, select, update

from crossward.errors import AlreadyReleased, InvalidMessage, NotReserved, TaskEnded
from crossward.protocol.ledger.lines import Line, ReleaseBody, ReserveBody
from crossward.protocol.messages import ModelMessage, ResultMessage, SignedReceipt, SignedRelease
from crossward.protocol.messages.descriptions import read_release
from crossward.study import Study
from crossward.study.learners import Role, charged_cells
from crossward_coordinator.crash import crash_point
from crossward_coordinator.identity import Identity
from crossward_coordinator.tables import results, tasks
from crossward_coordinator.workflows import events, mirror, parties
from crossward_coordinator.workflows.advance import advance
from crossward_coordinator.workflows.late import is_late
from crossward_coordinator.workflows.mirror import Stopped
from crossward_coordinator.workflows.rows import OPEN, input_digests, lock_task, read_study, tasks_of
from crossward_service.db.ledger import SqlLedger

ROLES: Mapping[str, Role] = {"train-source": "source", "train-target": "target"}


@dataclass(frozen=True, slots=True)
class OpenedResult:
    """A result, read whole but believed in nothing: what takes long is done before the transaction begins."""

    message: ResultMessage
    content: ModelMessage | None
    lines: tuple[Line, ...]

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Read a result, the model inside its release, and its lines."""
        message = ResultMessage.from_json(data)
        content = None if message.release is None else message.release.content()
        return cls(message, content, tuple(Line.from_dict(values) for values in message.lines))


def take(
    connection: Connection, own: Identity, party: str, task_id: str, opened: OpenedResult, now: float
) -> SignedReceipt | Stopped:
    """Store a party's result and move its study on, or refuse it and change nothing (or stop the party)."""
    message = opened.message
    if message.task != task_id:
        raise InvalidMessage("The result names another task than the address.", "Send it to its own task.")
    who = parties.lock_signer(connection, party)
    task, row = lock_task(connection, party, task_id)
    kept = connection.execute(select(results).where(results.c.task == task_id)).one_or_none()
    if kept is not None:
        return _again(kept, message)
    parties.check_active(who)
    late = is_late(row, task, tasks_of(connection, row.id))
    if task.state not in OPEN and not late:
        raise TaskEnded(f"The task was {task.state}: {task.cause}", "Keep the release; the charge stands.")
    study = read_study(row.document)
    content = _verified(connection, study, task, opened)
    crash_point("before-store")
    head = mirror.extend(connection, who, opened.lines, now)
    if isinstance(head, Stopped):
        events.note(connection, study.id, "party-stopped", head.error.cause, party=party, now=now)
        return head
    if content is not None:
        _check_paid(connection, study, task, content)
    receipt = mirror.receipt(own, task_id, None if content is None else content.digest, head, now)
    store(connection, task, message.release, receipt, now, late=late)
    advance(connection, own, study.id, now)
    crash_point("after-store")
    return receipt


def store(
    connection: Connection,
    task: Row[Any],
    release: SignedRelease | None,
    receipt: SignedReceipt,
    now: float,
    *,
    late: bool = False,
) -> None:
    """Keep a release and its receipt, and finish the task."""
    connection.execute(
        insert(results).values(
            task=task.id,
            study=task.study,
            party=task.party,
            digest=release and release.digest,
            document=release and release.canonical().decode(),
            receipt=receipt.canonical().decode(),
            stored=now,
        )
    )
    state, cause = ("late", "The quorum had been reached: nobody learns from it.") if late else ("done", "")
    values = {"state": state, "cause": cause, "lease_until": None, "progress": 1.0, "updated": now}
    connection.execute(update(tasks).where(tasks.c.id == task.id).values(**values))
    text = f"Released {release.digest}." if release else "Nothing leaves the site."
    events.note(connection, task.study, f"task-{state}", text, party=task.party, now=now)


def _again(kept: Row[Any], message: ResultMessage) -> SignedReceipt:
    if (message.release and message.release.digest) != kept.digest:
        raise AlreadyReleased("The task is done with other bytes.", "A task releases once; publish those bytes.")
    return SignedReceipt.from_json(kept.receipt)


def _verified(connection: Connection, study: Study, task: Row[Any], opened: OpenedResult) -> ModelMessage | None:
    """The model inside, if this party signed it and it is what the study asks of it."""
    role = ROLES[task.kind]
    release, content = opened.message.release, opened.content
    if release is None or content is None:
        if charged_cells(study, role):
            raise InvalidMessage(f"A {role} releases a model under {study.method.name}.", "Send it, or decline.")
        return None
    if release.party != task.party:
        raise InvalidMessage("The release is another party's.", "A party sends its own.")
    release.check_signature(parties.release_key(connection, task.party, release.key_id))
    if content.role != role:
        raise InvalidMessage(f"The model was made as {content.role}, and the task is a {role}'s.", "Train again.")
    content.check_against(study)
    if sorted(content.inputs) != sorted(input_digests(connection, study, task.kind)):
        raise InvalidMessage("The model did not learn from the releases the task came with.", "Train on those.")
    return content


def _check_paid(connection: Connection, study: Study, task: Row[Any], content: ModelMessage) -> None:
    """The ledger must hold this task's charge, for this study, on the cells it read, and name these very bytes."""
    ledger: SqlLedger = mirror.of(task.party)
    reserved, released = (ledger.find(connection, kind, task.id) for kind in ("reserve", "release"))
    if reserved is None or not isinstance(reserved.body, ReserveBody):
        raise NotReserved(f"The ledger has no reservation for task {task.id}.", "Send all lines not yet confirmed.")
    body, cost = reserved.body, read_release(content.release).cost
    if (body.study, body.study_hash) != (study.id, study.digest):
        raise InvalidMessage("The reservation was made for another study.", "Reserve for the task's own study.")
    if not set(charged_cells(study, ROLES[task.kind])) <= set(body.cells):
        raise InvalidMessage("The reservation leaves out cells that the study reads.", "Reserve on all of them.")
    if body.nano_epsilon < cost.nano_epsilon or body.atto_delta < cost.atto_delta:
        raise InvalidMessage(
            f"{body.nano_epsilon} nano-epsilon were reserved and the release costs {cost.nano_epsilon}"
            f" (delta: {body.atto_delta} and {cost.atto_delta}).",
            "Reserve what a release costs before training.",
        )
    if released is None or released.body != ReleaseBody(task.id, content.digest):
        raise InvalidMessage("The ledger's release line does not name these bytes.", "Publish what the ledger names.")
