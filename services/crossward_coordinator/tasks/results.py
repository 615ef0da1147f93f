"""A result is taken, once: everything is checked, then everything is stored, in one transaction.

The same bytes again get the same receipt, whatever happened in between; other bytes for a task that is done are
refused. A lease is not asked for: a result is welcome as long as the task is open, or comes late to a study under way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from sqlalchemy import Connection

from crossward.errors import AlreadyReleased, InvalidMessage, NotReserved, TaskEnded
from crossward.protocol.descriptions import description_digest, read_release
from crossward.protocol.envelopes import SignedReceipt, SignedRelease
from crossward.protocol.ledger.lines import Line, LineKind, ReleaseBody, ReserveBody
from crossward.protocol.messages import ModelMessage
from crossward.protocol.states import TaskState
from crossward.protocol.tasks import ResultMessage
from crossward.study import Study
from crossward.study.wire import check_message
from crossward.study.work import charged_cells
from crossward_coordinator.identity import Identity
from crossward_coordinator.ledger import service as ledger
from crossward_coordinator.ledger.service import Stopped, mirror
from crossward_coordinator.parties import service as parties
from crossward_coordinator.releases import service as releases
from crossward_coordinator.releases.tables import StoredResult
from crossward_coordinator.studies import events
from crossward_coordinator.studies.advance import advance, is_late
from crossward_coordinator.studies.tables import EventKind
from crossward_coordinator.tasks.tables import OPEN, StoredTask, lock_task, move_tasks, tasks, tasks_of
from crossward_coordinator.times import Moment
from crossward_service.ops.crash import crash_point


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
        return cls(message, content, tuple(Line.from_text(text) for text in message.lines))


def take(
    connection: Connection, own: Identity, party: str, task_id: str, opened: OpenedResult, now: Moment
) -> SignedReceipt | Stopped:
    """Store a party's result and move its study on, or refuse it and change nothing (or stop the party)."""
    message = opened.message
    if message.task != task_id:
        raise InvalidMessage("The result names another task than the address.", "Send it to its own task.")
    who = parties.lock_signer(connection, party)
    task, stored = lock_task(connection, party, task_id)
    if (result := releases.find(connection, task_id)) is not None:
        return _again(result, message)
    parties.check_active(who)
    late = is_late(stored, task, tasks_of(connection, stored.id))
    if not task.is_open and not late:
        raise TaskEnded(f"The task was {task.state}: {task.cause}", "Keep the release; the charge stands.")
    study = stored.study
    content = _verified(connection, study, task, opened)
    crash_point("before-store")  # it was verified, nothing is written
    head = ledger.extend(connection, who, opened.lines, now)
    if isinstance(head, Stopped):
        events.note(connection, study.id, EventKind.PARTY_STOPPED, head.error.cause, party=party, now=now.time)
        return head
    if content is not None:
        _check_paid(connection, study, task, content)
    digest = None if content is None else content.digest
    receipt = ledger.receipt(own, party, who.version, task_id, digest, head, now.time)
    finish(connection, task, message.release, receipt, now, late=late)
    advance(connection, own, study.id, now)
    crash_point("after-store")  # all is written, not committed
    return receipt


def finish(
    connection: Connection,
    task: StoredTask,
    release: SignedRelease | None,
    receipt: SignedReceipt,
    now: Moment,
    *,
    late: bool = False,
) -> None:
    """Keep a release and its receipt, and finish the task."""
    releases.keep(connection, task, release, receipt, now.time)
    this = tasks.c.id == task.id
    if late:
        cause, before = "The quorum had been reached: nobody learns from it.", (*OPEN, TaskState.CANCELLED)
        move_tasks(connection, this, TaskState.LATE, of=before, now=now.time, cause=cause, progress=1.0)
    else:
        move_tasks(connection, this, TaskState.DONE, of=OPEN, now=now.time, cause="", progress=1.0)
    kind = EventKind.TASK_LATE if late else EventKind.TASK_DONE
    text = f"Released {release.digest}." if release else "Nothing leaves the site."
    events.note(connection, task.study, kind, text, party=task.party, now=now.time)


def _again(stored: StoredResult, message: ResultMessage) -> SignedReceipt:
    if (message.release and message.release.digest) != stored.digest:
        raise AlreadyReleased("The task is done with other bytes.", "A task releases once; publish those bytes.")
    return SignedReceipt.from_json(stored.receipt)


def _verified(connection: Connection, study: Study, task: StoredTask, opened: OpenedResult) -> ModelMessage | None:
    """The model inside, if this party signed it and it is what the study asks of it."""
    role = task.kind.role
    release, content = opened.message.release, opened.content
    if release is None or content is None:
        if _cells(study, task):
            raise InvalidMessage(f"A {role} releases a model under {study.method.name}.", "Send it, or decline.")
        return None
    if release.party != task.party:
        raise InvalidMessage("The release is another party's.", "A party sends its own.")
    release.check_signature(parties.release_key(connection, task.party, release.key_id))
    if content.kind is not task.kind:
        raise InvalidMessage(f"The model is of {content.kind}, and the task is {task.kind}.", "Train again.")
    check_message(study, content)
    if sorted(content.inputs) != sorted(releases.input_digests(connection, study, task.kind)):
        raise InvalidMessage("The model did not learn from the releases the task came with.", "Train on those.")
    return content


def _check_paid(connection: Connection, study: Study, task: StoredTask, content: ModelMessage) -> None:
    """The ledger must hold this task's charge, for this study, on the cells it read, and name these very bytes."""
    reserved, released = ledger.charge(connection, task), mirror(task.party).find(connection, LineKind.RELEASE, task.id)
    if reserved is None or not isinstance(reserved.body, ReserveBody):
        raise NotReserved(f"The ledger has no reservation for task {task.id}.", "Send all lines not yet confirmed.")
    body, release = reserved.body, read_release(content.release)
    cost = release.cost
    if (body.study, body.study_hash) != (study.id, study.digest):
        raise InvalidMessage("The reservation was made for another study.", "Reserve for the task's own study.")
    if not _cells(study, task) <= set(body.cells):
        raise InvalidMessage("The reservation leaves out cells that the study reads.", "Reserve on all of them.")
    if body.nano_epsilon < cost.nano_epsilon or body.atto_delta < cost.atto_delta:
        raise InvalidMessage(
            f"{body.nano_epsilon} nano-epsilon were reserved and the release costs {cost.nano_epsilon}"
            f" (delta: {body.atto_delta} and {cost.atto_delta}).",
            "Reserve what a release costs before training.",
        )
    if body.release != description_digest(release):
        raise InvalidMessage("The reservation was made for a release of another description.", "Release what was paid.")
    if released is None or released.body != ReleaseBody(task.id, content.digest):
        raise InvalidMessage("The ledger's release line does not name these bytes.", "Publish what the ledger names.")


def _cells(study: Study, task: StoredTask) -> set[int]:
    """The cells that the task's release is charged to; none where nothing leaves the site."""
    return set(charged_cells(study, task.kind.role))
