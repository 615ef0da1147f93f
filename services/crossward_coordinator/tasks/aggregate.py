"""The coordinator's own task, under a method that aggregates: weigh the sources' models on the public set.

Post-processing of what was released: it costs nothing. It is computed between two transactions, so that nobody waits
for it; killed in between, its lease expires and it runs again. `run_one` opens all transactions, one after the other.
"""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Engine

from crossward.errors import CrosswardError, StorageFailed
from crossward.privacy.noise import Array
from crossward.protocol.constants import COORDINATOR
from crossward.protocol.envelopes import SignedRelease
from crossward.protocol.ledger.lines import START
from crossward.protocol.states import TaskState
from crossward.protocol.tasks import TaskMessage
from crossward.study import Study
from crossward.study.wire import check_message, open_study, to_message, to_model
from crossward.study.work import aggregate
from crossward_coordinator.identity import Identity
from crossward_coordinator.ledger.service import receipt
from crossward_coordinator.studies import events, public_sets
from crossward_coordinator.studies.advance import advance
from crossward_coordinator.studies.tables import EventKind
from crossward_coordinator.tasks.results import finish
from crossward_coordinator.tasks.service import is_waiting, lease
from crossward_coordinator.tasks.tables import OPEN, lock_task, move_tasks, tasks
from crossward_coordinator.times import Moment, Timekeeper
from crossward_service.db.engine import read, write
from crossward_service.ops.crash import crash_point

log = logging.getLogger("crossward.aggregate")


def run_one(engine: Engine, own: Identity, times: Timekeeper, *, lasts: float) -> bool:
    """Do one aggregation that waits; False if there is none."""
    with read(engine) as connection:
        if not is_waiting(connection, COORDINATOR, times.now(connection)):
            return False
    with write(engine) as connection:
        task = lease(connection, COORDINATOR, now=times.now(connection), lasts=lasts)
    if task is None:
        return False
    try:
        study = open_study(task)
        with read(engine) as connection:
            X, y = public_sets.load(connection, study)
        release = compute(own, task, study, X, y)
    except StorageFailed:
        raise  # the lease expires and it is tried again
    except CrosswardError as error:
        log.warning("aggregation failed: %s", error)
        with write(engine) as connection:
            _fail(connection, own, task.id, str(error), times.now(connection))
    else:
        crash_point("aggregate-computed")  # the aggregate exists in memory only
        with write(engine) as connection:
            _finish(connection, own, task.id, release, times.now(connection))
    return True


def compute(own: Identity, task: TaskMessage, study: Study, X: NDArray[np.floating], y: Array) -> SignedRelease:
    """The aggregate of the task's inputs on the public records, signed by the coordinator."""
    inputs = [signed.content() for signed in task.inputs]
    models = [to_model(study, message) for message in inputs]
    message = to_message(study, aggregate(study, models, X, y), COORDINATOR, inputs, version=task.version)
    check_message(study, message)
    return SignedRelease.sign(message, own.key)


def _finish(connection: Connection, own: Identity, task_id: str, release: SignedRelease, now: Moment) -> None:
    task, stored = lock_task(connection, COORDINATOR, task_id)
    if task.is_open:
        accepted = receipt(own, COORDINATOR, release.content().version, task_id, release.digest, START, now.time)
        finish(connection, task, release, accepted, now)
        advance(connection, own, stored.id, now)


def _fail(connection: Connection, own: Identity, task_id: str, cause: str, now: Moment) -> None:
    task, stored = lock_task(connection, COORDINATOR, task_id)
    if task.is_open:
        move_tasks(connection, tasks.c.id == task_id, TaskState.FAILED, of=OPEN, now=now.time, cause=cause)
        events.note(connection, stored.id, EventKind.TASK_FAILED, cause, party=COORDINATOR, now=now.time)
        advance(connection, own, stored.id, now)
