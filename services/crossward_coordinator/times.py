"""What time it is: two times, because one of them cannot be trusted.

`time` is the wall clock's. It is written down for people, and compared with what a signature says; it may be wrong by
days and jump, so it decides no duration. `age` is how long this coordinator has been there to answer, in seconds over
its whole life: leases, pauses and deadlines are measured by it. It does not pass while the coordinator is down, hangs,
or is suspended: whoever could not reach it then has lost nothing.

The age is in the database, one row, and every process adds to it what it has lived through: the largest counts.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Column, Connection, Engine, Float, String, Table, bindparam, select, update

from crossward_coordinator.database import metadata
from crossward_service.db.engine import UnlessThere, read, write
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
_FIRST = UnlessThere(ages, ages.c.name)
_LATER = update(ages).where(ages.c.name == _NAME, ages.c.seconds < bindparam("age")).values(seconds=bindparam("age"))


class Moment(NamedTuple):
    """Now: the wall clock's time in seconds since 1970, and the coordinator's age in seconds."""

    time: float
    age: float


class Timekeeper:
    """Tells a process of the coordinator what time it is."""

    def __init__(self, engine: Engine, machine: Machine, longest_step: float = LONGEST_STEP) -> None:
        self._engine, self._machine, self._longest_step = engine, machine, longest_step
        self._last: tuple[float, float] | None = None  # an age, and the machine's elapsed time when it was that
        self._written: float | None = 0.0  # the age that was noted last; None where none is

    def now(self) -> Moment:
        """This moment."""
        age, since = self._last or self._read()
        return Moment(self._machine.now(), age + self._passed(since, self._machine.elapsed()))

    def tick(self, connection: Connection) -> Moment:
        """Let time pass: called again and again, more often than the longest step, by one thread."""
        known = _stored(connection)
        elapsed = self._machine.elapsed()
        age, since = self._last or (known or 0.0, elapsed)
        self._last = max(age + self._passed(since, elapsed), known or 0.0), elapsed
        if known is None:
            self._written = None
        return self.now()

    def keep_soon(self) -> None:
        """Note the age if it was not noted lately."""
        if self._written is None or self.now().age >= self._written + WRITE_SECONDS:
            self.keep()

    def keep(self) -> None:
        """Note the age, so that it outlives this process."""
        age = self.now().age
        with write(self._engine) as connection:
            _store(connection, age)
        self._written = age

    def _passed(self, since: float, elapsed: float) -> float:
        return min(max(0.0, elapsed - since), self._longest_step)

    def _read(self) -> tuple[float, float]:
        with read(self._engine) as connection:
            self._last = _stored(connection) or 0.0, self._machine.elapsed()
        return self._last


def _stored(connection: Connection) -> float | None:
    return connection.execute(_AGE).scalar_one_or_none()


def _store(connection: Connection, age: float) -> None:
    """Write the age down, unless another process has lived longer."""
    _FIRST.insert(connection, {"name": _NAME, "seconds": age})
    connection.execute(_LATER, {"age": age})
