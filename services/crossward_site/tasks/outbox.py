"""What was released, kept until the coordinator has acknowledged it: the same bytes, however often they are sent.

*Store* fixes them: from then on no others leave for this task. *Publish* sends them, with every ledger line that the
coordinator has not confirmed. *Settle* keeps the receipt, once its signature, its digest and its head are right.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, insert, select, update

from crossward.errors import ChainBroken, Forged, LedgerRefused, NotReady
from crossward.protocol.constants import Role
from crossward.protocol.envelopes import SignedReceipt, SignedRelease
from crossward.protocol.ledger.lines import ReleaseBody
from crossward.protocol.messages import ModelMessage, Receipt
from crossward.protocol.tasks import ResultMessage
from crossward.study.work import TrainedModel
from crossward_service.db.engine import read, write
from crossward_site.coordinator import Coordinator
from crossward_site.identity.service import Identity
from crossward_site.ledger.service import confirm, confirmed, unconfirmed
from crossward_site.models import service as models
from crossward_site.site import Site
from crossward_site.tasks import service as tasks
from crossward_site.tasks.service import Task
from crossward_site.tasks.tables import TaskState, outbox
from crossward_site.tasks.training import Announcement


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A release without a receipt yet; no digest where nothing leaves the site."""

    task: str
    digest: str | None
    stored: float


def store(
    site: Site,
    identity: Identity,
    announcement: Announcement,
    trained: TrainedModel,
    message: ModelMessage | None,
) -> bool:
    """Fix what the task publishes, in one transaction; False if that had been done, or the task was called off."""
    task = announcement.task
    signed = None
    if message is not None:
        signed = SignedRelease.sign(message, identity.key)
    with write(site.engine) as connection:
        known = is_stored(connection, task.id)
        if not tasks.move(connection, task, TaskState.STORED, site.clock(), progress=0.9, cause="") or known:
            return False
        if signed is not None:
            site.append(connection, ReleaseBody(task.id, signed.digest))
        values = {"release": None, "digest": None} if signed is None else _written(signed)
        connection.execute(insert(outbox).values(task=task.id, stored=site.clock(), **values))
        if task.role is Role.TARGET:
            models.keep(site, connection, task, trained, signed)
    return True


def _written(signed: SignedRelease) -> dict[str, str]:
    return {"release": signed.canonical().decode(), "digest": signed.digest}


def is_stored(connection: Connection, task: str) -> bool:
    """Whether what the task publishes is fixed."""
    return connection.execute(select(outbox.c.task).where(outbox.c.task == task)).first() is not None


def publish(site: Site, coordinator: Coordinator, task: Task) -> Receipt:
    """Send what was stored for a task, and verify the receipt. Sent again, it is the same bytes."""
    with read(site.engine) as connection:
        site.check_running(connection)
        query = select(outbox.c.release, outbox.c.digest).where(outbox.c.task == task.id)
        text, digest = connection.execute(query).one()
        lines = tuple(line.text for line in unconfirmed(site, connection, confirmed(connection)))
    release = None if text is None else SignedRelease.from_json(text)
    try:
        signed = coordinator.result(ResultMessage(task=task.id, release=release, lines=lines))
    except (LedgerRefused, ChainBroken) as error:
        site.stop(error.cause)
        raise
    site.machine.reach("after-publish")
    receipt = signed.verify(coordinator.identity.verifier)
    if (receipt.party, receipt.task, receipt.release) != (coordinator.identity.party, task.id, digest):
        raise Forged("The receipt is for another release.", "The coordinator must send the receipt of this task.")
    _remember(site, task, signed)
    return receipt


def _remember(site: Site, task: Task, signed: SignedReceipt) -> None:
    """Keep the receipt beside the release before it is acted on."""
    with write(site.engine) as connection:
        changed = update(outbox).where(outbox.c.task == task.id, outbox.c.receipt.is_(None))
        connection.execute(changed.values(receipt=signed.canonical().decode()))


def settle(site: Site, task: Task, receipt: Receipt) -> None:
    """Mark the task as published, if the mirror's head in the receipt is a head of ours; else stop."""
    with write(site.engine) as connection:
        problem = confirm(site, connection, receipt.head)
        if not problem:
            connection.execute(update(outbox).where(outbox.c.task == task.id).values(settled=site.clock()))
            tasks.move(connection, task, TaskState.SETTLED, site.clock(), progress=1.0, cause="")
    if problem:
        site.stop(problem)
        raise NotReady(f"This site has stopped: {problem}", "Compare the two ledgers, then reconcile.")


def unsettled(connection: Connection) -> list[Unsettled]:
    """What was released and is not settled yet."""
    query = select(outbox.c.task, outbox.c.digest, outbox.c.stored).where(outbox.c.settled.is_(None))
    return [Unsettled(*tuple(row)) for row in connection.execute(query.order_by(outbox.c.stored))]
