"""What happens by itself: a thread that looks at the time. Every process has one; the database decides who acts.

A tick looks once at what there is to do. Each of its steps then opens a transaction of its own, here or in
`aggregate.run_one`; one that fails takes no other with it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, Engine, String, Table, cast, func, literal, select, union_all

from crossward.protocol.constants import COORDINATOR
from crossward_coordinator.identity import Identity
from crossward_coordinator.parties.signatures import purge
from crossward_coordinator.parties.tables import PARTY_STATES, parties
from crossward_coordinator.settings import CoordinatorSettings
from crossward_coordinator.studies.advance import due, pass_time
from crossward_coordinator.studies.tables import STUDY_STATES, studies
from crossward_coordinator.tasks import aggregate
from crossward_coordinator.tasks.service import is_waiting
from crossward_coordinator.tasks.tables import TASK_STATES, tasks
from crossward_coordinator.times import LONGEST_STEP, Moment, Timekeeper
from crossward_service.db.engine import read, write
from crossward_service.db.lifecycle import Lifecycle
from crossward_service.http.signing import SKEW
from crossward_service.http.telemetry import RequestMetrics
from crossward_service.ops.machine import Machine, Worker

log = logging.getLogger("crossward.clock")

PURGE_SECONDS = 3.0 * SKEW
"""Between two purges of nonces: longer than a signature counts, whose clock was as far ahead as it may be."""
COUNT_SECONDS = 5.0
"""Between two counts of states."""
STOP_SECONDS = 30.0
"""How long a tick under way may take when the clock is stopped."""


class Gauges:
    """How many parties, studies and tasks there are in each state: numbers about work, not about records."""

    def __init__(self, metrics: RequestMetrics) -> None:
        counted: list[tuple[Table, Lifecycle[Any]]] = [
            (parties, PARTY_STATES),
            (studies, STUDY_STATES),
            (tasks, TASK_STATES),
        ]
        self._gauges = [
            (table.name, lifecycle, metrics.gauge(f"crossward_{table.name}", f"{table.name} by state", ("state",)))
            for table, lifecycle in counted
        ]
        self._query = union_all(
            *(
                select(literal(str(table.name)), cast(table.c.state, String), func.count()).group_by(table.c.state)
                for table, _ in counted
            )
        )

    def count(self, connection: Connection) -> None:
        """Count anew, all states: one that nothing is in any more goes back to 0."""
        counts = {(row[0], row[1]): int(row[2]) for row in connection.execute(self._query)}
        for name, lifecycle, gauge in self._gauges:
            for state in lifecycle.states:
                gauge.labels(state).set(counts.get((name, state), 0))


class Clock:
    """Ticks until it is stopped. A tick that fails is logged, and the next one tries again."""

    def __init__(
        self, engine: Engine, own: Identity, settings: CoordinatorSettings, gauges: Gauges, machine: Machine
    ) -> None:
        self._engine, self._own, self._settings, self._gauges = engine, own, settings, gauges
        self._machine = machine
        self.times = Timekeeper(engine, machine, max(LONGEST_STEP, 2 * settings.clock_seconds))
        self._stop = machine.flag()
        self._worker: Worker | None = None
        self._next_purge = self._next_count = 0.0
        self._last_purge: float | None = None  # what the wall clock said then

    def start(self) -> None:
        """Begin to tick."""
        self._worker = self._machine.start(self._run, "crossward-clock")

    def stop(self) -> None:
        """End, after the tick under way."""
        self._stop.set()
        if self._worker is not None:
            self._worker.join(STOP_SECONDS)

    def _run(self) -> None:
        while True:
            try:
                self.tick()
            except Exception:
                log.exception("a tick of the clock failed")
            if self._stop.wait(self._settings.clock_seconds):
                break
        self._try_to_note(self.times.keep)

    def tick(self) -> None:
        """Do everything whose time has come."""
        with read(self._engine) as connection:
            now = self.times.tick(connection)
            late = due(connection, now)
            aggregates = is_waiting(connection, COORDINATOR, now)
            if now.age >= self._next_count:
                self._next_count = now.age + COUNT_SECONDS
                self._gauges.count(connection)
        self._try_to_note(self.times.keep_soon)
        for study in late:
            self._pass_time(study)
        if aggregates or late:  # or what has just passed lets one begin
            self._aggregate()
        if now.age >= self._next_purge:
            self._purge(now)

    def _aggregate(self) -> None:
        lasts = self._settings.lease_seconds
        while not self._stop.is_set() and aggregate.run_one(self._engine, self._own, self.times, lasts=lasts):
            pass

    def _try_to_note(self, keep: Callable[[], None]) -> None:
        """Another process may hold the row of the age for long: nothing else waits for it."""
        try:
            keep()
        except Exception:
            log.exception("the coordinator's age was not noted")

    def _purge(self, now: Moment) -> None:
        """Forget what had expired at the last purge already: a wall clock that jumps must not bring a nonce back."""
        self._next_purge = now.age + PURGE_SECONDS
        if self._last_purge is not None:
            with write(self._engine) as connection:
                purge(connection, min(now.time, self._last_purge))
        self._last_purge = now.time

    def _pass_time(self, study: str) -> None:
        """A study that cannot go on must not hold up the others. It may be later by now than when the tick began."""
        try:
            with write(self._engine) as connection:
                pass_time(connection, self._own, study, self._settings, self.times.now(connection))
        except Exception:
            log.exception("time could not pass for study %s", study)
