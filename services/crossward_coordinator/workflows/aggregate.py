"""The coordinator's own task under the feature method: weigh the sources' models on the public set.

Post-processing of what was released: it costs nothing. It runs between two transactions, so that nobody waits for it;
killed in between, its lease expires and it runs again.
"""

from __future__ import annotations

import logging
import time

from sqlalchemy import Connection, Engine, update

from crossward.errors import CrosswardError, InvalidMessage, StorageFailed
from crossward.learning.model import ReleasedModel
from crossward.protocol.ledger.lines import START
from crossward.protocol.messages import ModelMessage, SignedRelease, TaskMessage
from crossward.study.learners import aggregate
from crossward_coordinator.crash import crash_point
from crossward_coordinator.identity import NAME, Identity
from crossward_coordinator.tables import tasks
from crossward_coordinator.workflows import events, mirror, public_sets
from crossward_coordinator.workflows.advance import advance
from crossward_coordinator.workflows.results import store
from crossward_coordinator.workflows.rows import OPEN, lock_task
from crossward_coordinator.workflows.tasks import is_waiting, lease
from crossward_service.db.engine import read, write

log = logging.getLogger("crossward.aggregate")


def run_one(engine: Engine, own: Identity, *, lasts: float) -> bool:
    """Do one aggregation that waits; False if there is none."""
    with read(engine) as connection:
        if not is_waiting(connection, NAME, time.time()):
            return False
    with write(engine) as connection:
        task = lease(connection, NAME, now=time.time(), lasts=lasts)
    if task is None:
        return False
    try:
        release = compute(engine, own, task)
    except StorageFailed:
        raise  # the lease expires and it is tried again
    except CrosswardError as error:
        log.warning("aggregation failed: %s", error)
        with write(engine) as connection:
            _fail(connection, own, task.id, str(error))
    else:
        crash_point("aggregate-computed")
        with write(engine) as connection:
            _finish(connection, own, task.id, release)
    return True


def compute(engine: Engine, own: Identity, task: TaskMessage) -> SignedRelease:
    """The aggregate, signed by the coordinator."""
    study = task.open_study()
    inputs = [signed.content() for signed in task.inputs]
    models = [message.to_model(study) for message in inputs]
    partners = [model for model in models if isinstance(model, ReleasedModel)]
    if len(partners) != len(models):
        raise InvalidMessage("A source's release is not one model.", "The feature method weighs single models.")
    with read(engine) as connection:
        X, y = public_sets.load(connection, study)
    message = ModelMessage.of(study, aggregate(study, partners, X, y), NAME, inputs)
    message.check_against(study)
    return SignedRelease.sign(message, own.key, party=NAME, key_id=own.key_id)


def _finish(connection: Connection, own: Identity, task_id: str, release: SignedRelease) -> None:
    now = time.time()
    task, study = lock_task(connection, NAME, task_id)
    if task.state in OPEN:
        store(connection, task, release, mirror.receipt(own, task_id, release.digest, START, now), now)
        advance(connection, own, study.id, now)


def _fail(connection: Connection, own: Identity, task_id: str, cause: str) -> None:
    now = time.time()
    task, study = lock_task(connection, NAME, task_id)
    if task.state in OPEN:
        values = {"state": "failed", "cause": cause, "lease_until": None, "updated": now}
        connection.execute(update(tasks).where(tasks.c.id == task_id).values(**values))
        events.note(connection, study.id, "task-failed", cause, party=NAME, now=now)
        advance(connection, own, study.id, now)
