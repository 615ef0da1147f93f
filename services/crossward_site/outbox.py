"""What was released, kept until the coordinator has acknowledged it: the same bytes, however often they are sent.

*Store* fixes them: from then on no others leave for this task. *Publish* sends them, with every ledger line that the
coordinator has not confirmed. *Settle* keeps the receipt, once its signature, its digest and its head are right.
"""

from __future__ import annotations

import hmac
import pickle
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from crossward.errors import ChainBroken, Conflict, Forged, LedgerRefused, NotReady
from crossward.protocol.ledger.lines import Head, ReleaseBody
from crossward.protocol.messages import ModelMessage, Receipt, ResultMessage, SignedReceipt, SignedRelease
from crossward.study.learners import TrainedModel
from crossward_service.db.engine import read, write
from crossward_site import tasks
from crossward_site.coordinator import Coordinator
from crossward_site.crash import crash_point
from crossward_site.identity import Identity
from crossward_site.site import Site
from crossward_site.sync import confirm, unconfirmed
from crossward_site.tables import models, outbox
from crossward_site.tasks import Task
from crossward_site.training import Announcement


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
        signed = SignedRelease.sign(message, identity.key, party=identity.party, key_id=identity.key_id)
    with write(site.engine) as connection:
        known = is_stored(connection, task.id)
        if not tasks.move(connection, task, "stored", site.clock(), progress=0.9, cause="") or known:
            return False
        if signed is not None:
            site.append(connection, ReleaseBody(task.id, signed.digest))
        values = {"release": None, "digest": None} if signed is None else _written(signed)
        connection.execute(insert(outbox).values(task=task.id, stored=site.clock(), **values))
        if task.role == "target":
            _keep_model(site, connection, task, trained, signed)
    return True


def _written(signed: SignedRelease) -> dict[str, str]:
    return {"release": signed.canonical().decode(), "digest": signed.digest}


def is_stored(connection: Connection, task: str) -> bool:
    """Whether what the task publishes is fixed."""
    return _row(connection, task) is not None


def _row(connection: Connection, task: str) -> Any:
    return connection.execute(select(outbox).where(outbox.c.task == task)).one_or_none()


def _keep_model(
    site: Site, connection: Connection, task: Task, trained: TrainedModel, signed: SignedRelease | None
) -> None:
    """Remember which model the target uses. One trained here without a release cannot be rebuilt: it is sealed."""
    sealed = seal(site.secret, trained.model) if signed is None and trained.n > 0 else None
    before = connection.execute(select(models.c.task).where(models.c.study == task.study_id)).scalar_one_or_none()
    if before is not None and tasks.find(connection, before).message.study_hash != task.message.study_hash:
        raise Conflict(f"{task.study_id} is the id of another study's model.", "Refuse the task.")
    connection.execute(delete(models).where(models.c.study == task.study_id))
    values = {"study": task.study_id, "task": task.id, "sealed": sealed, "stored": site.clock()}
    connection.execute(insert(models).values(values))


def seal(secret: bytes, model: Any) -> bytes:
    """A model as bytes that only this site's secret opens again: a pickle from elsewhere could run anything."""
    data = pickle.dumps(model)
    return hmac.digest(secret, b"sealed model" + data, "sha256") + data


def unseal(secret: bytes, sealed: bytes) -> Any:
    """The model in a seal that this site made."""
    tag, data = sealed[:32], sealed[32:]
    if not hmac.compare_digest(tag, hmac.digest(secret, b"sealed model" + data, "sha256")):
        raise Forged("The stored model was not sealed by this site.", "Train it again.")
    return pickle.loads(data)


def publish(site: Site, coordinator: Coordinator, task: Task) -> Receipt:
    """Send what was stored for a task, and verify the receipt. Sent again, it is the same bytes."""
    with read(site.engine) as connection:
        site.check_running(connection)
        row = _row(connection, task.id)
        lines = tuple(line.to_dict() for line in unconfirmed(site, connection))
    release = None if row.release is None else SignedRelease.from_json(row.release)
    try:
        signed = coordinator.result(ResultMessage(task=task.id, release=release, lines=lines))
    except (LedgerRefused, ChainBroken) as error:
        site.stop(error.cause)
        raise
    crash_point("after-publish")
    receipt = signed.verify(coordinator.identity.verifier)
    if (receipt.task, receipt.release) != (task.id, row.digest):
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
        problem = confirm(site, connection, Head(receipt.head.sequence, receipt.head.hash))
        if not problem:
            connection.execute(update(outbox).where(outbox.c.task == task.id).values(settled=site.clock()))
            tasks.move(connection, task, "settled", site.clock(), progress=1.0, cause="")
    if problem:
        site.stop(problem)
        raise NotReady(f"This site has stopped: {problem}", "Compare the two ledgers, then reconcile.")


def waiting(connection: Connection) -> list[dict[str, Any]]:
    """What was released and is not settled yet."""
    query = select(outbox.c.task, outbox.c.digest, outbox.c.stored).where(outbox.c.settled.is_(None))
    return [dict(row) for row in connection.execute(query.order_by(outbox.c.stored)).mappings()]
