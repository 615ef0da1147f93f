"""What happens by itself when time passes: leases expire, deadlines pass. Any process may do it; one of them does."""

from __future__ import annotations

from sqlalchemy import Connection, or_, select, update

from crossward_coordinator.identity import Identity
from crossward_coordinator.settings import CoordinatorSettings
from crossward_coordinator.tables import studies, tasks
from crossward_coordinator.workflows import events
from crossward_coordinator.workflows.advance import advance
from crossward_coordinator.workflows.rows import RUNNING, study_row, tasks_of

LONGEST_PAUSE = 300.0


def due(connection: Connection, now: float) -> list[str]:
    """The studies for which something has passed."""
    expired = select(tasks.c.study).where(tasks.c.state == "leased", tasks.c.lease_until <= now)
    query = select(studies.c.id).where(studies.c.state.in_(RUNNING))
    query = query.where(or_(studies.c.deadline <= now, studies.c.id.in_(expired)))
    return list(connection.execute(query.order_by(studies.c.id)).scalars())


def pass_time(connection: Connection, own: Identity, study: str, settings: CoordinatorSettings, now: float) -> None:
    """End the leases of a study that have expired, and let it go on."""
    study_row(connection, study, lock=True)
    for task in tasks_of(connection, study):
        if task.state == "leased" and task.lease_until <= now:
            _expire(connection, task.id, task.party, task.attempt, study, settings, now)
    advance(connection, own, study, now)


def _expire(
    connection: Connection, task: str, party: str, attempt: int, study: str, settings: CoordinatorSettings, now: float
) -> None:
    """Give a task again after a pause that doubles, or give it up."""
    if attempt >= settings.attempts:
        cause = f"{attempt} leases ended without a result."
        values = {"state": "failed", "cause": cause, "lease_until": None, "updated": now}
        kind, text = "task-failed", cause
    else:
        pause = min(LONGEST_PAUSE, settings.backoff_seconds * 2.0 ** min(attempt - 1, 20))
        values = {"state": "ready", "available": now + pause, "lease_until": None, "updated": now}
        kind, text = "lease-expired", f"Attempt {attempt} ended without a result."
    # Only if the lease is still the one that was seen: a heartbeat holds the same lock, a stop does not.
    query = update(tasks).where(tasks.c.id == task, tasks.c.state == "leased", tasks.c.attempt == attempt)
    if connection.execute(query.values(**values)).rowcount:
        events.note(connection, study, kind, text, party=party, now=now)
