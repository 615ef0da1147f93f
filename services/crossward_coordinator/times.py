"""What time it is: two times, because one of them cannot be trusted.

`time` is the wall clock's. It is written down for people, and compared with what a signature says; it may be wrong by
days and jump, so it decides no duration. `age` is how long this coordinator has been there to answer, in seconds over
its whole life: leases, pauses and deadlines are measured by it. It does not pass while the coordinator is down, hangs,
or is suspended: whoever could not reach it then has lost nothing.

The age is in the database, one row, and every process adds to it what it has lived through: the largest counts.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from sqlalchemy import Column, Connection, Engine, Float, String, Table, select

from crossward_coordinator.database import metadata
from crossward_service.db.engine import InPlace, write
from crossward_service.ops.machine import Machine

LONGEST_STEP = 10.0
"""Seconds that may pass between two looks at the clock; a longer gap is one in which the process hung."""

WRITE_SECONDS = 5.0
"""Between two notes of the age; so much of it a crash may forget."""

_NAME = "coordinator"

ages = Table(
    "ages",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("seconds", Float, nullable=False),
)
"""How long the coordinator has been there, one row."""

_AGE = select(ages.c.seconds).where(ages.c.name == _NAME)
_LATER = InPlace(ages, ages.c.seconds, larger=True)


class Moment(NamedTuple):
    """Now: the wall clock's time in seconds since 1970, and the coordinator's age in seconds."""

    time: float
    age: float


class Timekeeper:
    """Tells a process of the coordinator what time it is."""

    def __init__(self, engine: Engine, machine: Machine, longest_step: float = LONGEST_STEP) -> None:
        self._engine, self._machine, self._longest_step = engine, machine, longest_step
        self._lock = threading.Lock()
        self._last: tuple[float, float] | None = None  # an age, and the machine's elapsed time when it was that
        self._written: float | None = 0.0  # the age that was noted last; None where none is

    def time(self) -> float:
        """What the wall clock says."""
        return self._machine.now()

    def now(self, connection: Connection) -> Moment:
        """This moment. A process whose clock is late asks the database: others may have lived on meanwhile."""
        last = self._last
        if last is None or self._machine.elapsed() - last[1] > self._longest_step:
            last, _ = self._look(connection)
        return Moment(self.time(), self._age(*last, self._machine.elapsed()))

    def tick(self, connection: Connection) -> Moment:
        """Let time pass: called again and again, more often than the longest step, by one thread."""
        last, noted = self._look(connection)
        if noted is None:
            self._written = None
        return Moment(self.time(), self._age(*last, self._machine.elapsed()))

    def keep_soon(self) -> None:
        """Note the age if it was not noted lately."""
        if self._written is None or self._last is None or self._last[0] >= self._written + WRITE_SECONDS:
            self.keep()

    def keep(self) -> None:
        """Note the age, so that it outlives this process."""
        with write(self._engine) as connection:
            age = self.now(connection).age
            _store(connection, age)
        self._written = age

    def _look(self, connection: Connection) -> tuple[tuple[float, float], float | None]:
        """Add what has passed, and learn what others have noted; gives both."""
        noted = _stored(connection)
        with self._lock:
            elapsed = self._machine.elapsed()
            age = noted or 0.0 if self._last is None else self._age(*self._last, elapsed)
            self._last = max(age, noted or 0.0), elapsed
            return self._last, noted

    def _age(self, age: float, since: float, elapsed: float) -> float:
        return age + min(max(0.0, elapsed - since), self._longest_step)


def _stored(connection: Connection) -> float | None:
    return connection.execute(_AGE).scalar_one_or_none()


def _store(connection: Connection, age: float) -> None:
    """Write the age down, unless another process has lived longer."""
    _LATER.put(connection, {"name": _NAME, "seconds": age})
