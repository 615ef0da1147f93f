"""What happens by itself: a thread that looks at the time. Every process has one; the database decides who acts."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from sqlalchemy import Engine, Select, Table, func, select

from crossward_coordinator.identity import Identity
from crossward_coordinator.settings import CoordinatorSettings
from crossward_coordinator.tables import parties, studies, tasks
from crossward_coordinator.workflows import aggregate, deadlines, nonces
from crossward_service.db.engine import read, write
from crossward_service.http.telemetry import RequestMetrics

log = logging.getLogger("crossward.clock")

TIDY = 60.0  # seconds between purges
COUNT = 5.0  # seconds between counts


class Gauges:
    """How many parties, studies and tasks there are in each state: numbers about work, not about records."""

    def __init__(self, metrics: RequestMetrics) -> None:
        self._gauges = {
            table: metrics.gauge(f"crossward_{table.name}", f"{table.name} by state", ("state",))
            for table in (parties, studies, tasks)
        }
        self._seen: dict[Table, set[str]] = {table: set() for table in self._gauges}

    def count(self, engine: Engine) -> None:
        """Count anew."""
        with read(engine) as connection:
            for table, gauge in self._gauges.items():
                counts = {str(row[0]): int(row[1]) for row in connection.execute(_by_state(table))}
                # A state that nothing is in any more goes to 0: another process may have set it, and cannot clear it.
                self._seen[table] |= counts.keys()
                for state in self._seen[table]:
                    gauge.labels(state).set(counts.get(state, 0))


def _by_state(table: Table) -> Select[Any]:
    return select(table.c.state, func.count()).group_by(table.c.state)


class Clock:
    """Ticks until it is stopped. A tick that fails is logged, and the next one tries again."""

    def __init__(self, engine: Engine, own: Identity, settings: CoordinatorSettings, gauges: Gauges) -> None:
        self._engine, self._own, self._settings, self._gauges = engine, own, settings, gauges
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="crossward-clock", daemon=True)
        self._next_tidy = self._next_count = 0.0

    def start(self) -> None:
        """Begin to tick."""
        self._thread.start()

    def stop(self) -> None:
        """End, after the tick under way."""
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        while True:
            try:
                self.tick(time.time())
            except Exception:
                log.exception("a tick of the clock failed")
            if self._stop.wait(self._settings.clock_seconds):
                return

    def tick(self, now: float) -> None:
        """Do everything whose time has come."""
        with read(self._engine) as connection:
            due = deadlines.due(connection, now)
        for study in due:
            self._pass_time(study, now)
        while not self._stop.is_set() and aggregate.run_one(
            self._engine, self._own, lasts=self._settings.lease_seconds
        ):
            pass
        if now >= self._next_tidy:
            self._next_tidy = now + TIDY
            with write(self._engine) as connection:
                nonces.purge(connection, now)
        if now >= self._next_count:
            self._next_count = now + COUNT
            self._gauges.count(self._engine)

    def _pass_time(self, study: str, now: float) -> None:
        """A study that cannot go on must not hold up the others."""
        try:
            with write(self._engine) as connection:
                deadlines.pass_time(connection, self._own, study, self._settings, now)
        except Exception:
            log.exception("time could not pass for study %s", study)
