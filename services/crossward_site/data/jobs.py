"""Work on data that takes a while: it survives a restart, says how far it is, can be cancelled, and has one end.

A job is written down before it is answered, and done by one thread, one after the other, so nobody else works on the
vault. What a job does is one transaction, and the job ends in it: what a process that dies has not done is done again
from the start, and files without a name are removed. (A paid AUC is charged in one before: `models/jobs.py`.)
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import Connection, delete, func, insert, literal, null, select, update
from sqlalchemy.exc import DataError

from crossward.errors import Conflict, CrosswardError, NotFound
from crossward.protocol.canonical import canonical
from crossward.protocol.problems import UNEXPECTED, nearest_entry, urn
from crossward_service.db.engine import forget, read, write
from crossward_service.ops.machine import Worker
from crossward_site.data.tables import JOB_STATES, JobKind, JobState, jobs
from crossward_site.site import Site

log = logging.getLogger("crossward_site")

MOST_WAITING = 20
KEPT = 200
"""So many jobs that have ended are remembered."""

PULSE = 0.5
"""Progress is written down this often, in seconds."""

PAUSE = 5.0
"""Seconds after which somebody who was not woken looks for a job."""


class Cancelled(Exception):
    """The job is wanted no more."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it stands; `problem` is the type of what it failed of.

    `request` and `result`, what it gave, are JSON: either may be large, and few want to know.
    """

    number: int
    kind: JobKind
    state: JobState
    dataset: str | None
    request: str
    progress: float
    step: str
    result: str | None
    problem: str
    cause: str
    fix: str
    asked: float
    updated: float


class Report(Protocol):
    """How a job tells how far it is; it raises `Cancelled` where the job is to end."""

    def __call__(self, share: float, step: str) -> None:
        """So much is done, and this is under way."""
        ...

    def end(self, connection: Connection, result: Any) -> None:
        """The job is done with this transaction, and has this result."""
        ...


Work = Callable[[Site, dict[str, Any], Report], Any]
"""Does what a request says, and gives plain values: the result, unless `Report.end` was told one."""


_BRIEF = select(
    *(column for column in jobs.c if column.name not in ("request", "result")),
    literal("{}").label("request"),
    null().label("result"),
)
_ACTIVE = jobs.c.state.in_((JobState.WAITING, JobState.RUNNING))


def ask(site: Site, kind: JobKind, request: dict[str, Any], dataset: str | None = None) -> Job:
    """Write a job down; the same again while it has not ended is that job."""
    text, now = canonical(request).decode(), site.clock()
    with write(site.engine) as connection:
        site.check_running(connection)
        same = select(jobs.c.number).where(_ACTIVE, jobs.c.kind == kind, jobs.c.request == text)
        if (known := connection.execute(same.order_by(jobs.c.number)).scalars().first()) is not None:
            return find(connection, known)
        waiting = connection.execute(select(func.count()).select_from(jobs).where(_ACTIVE)).scalar_one()
        if waiting >= MOST_WAITING:
            raise Conflict(f"{waiting} jobs wait already.", "Wait for them, or cancel some.")
        number = (connection.execute(select(func.max(jobs.c.number))).scalar_one() or 0) + 1
        connection.execute(
            insert(jobs).values(
                number=number,
                kind=kind,
                state=JobState.WAITING,
                dataset=dataset,
                request=text,
                progress=0.0,
                step="",
                cancelled=False,
                problem="",
                cause="",
                fix="",
                asked=now,
                updated=now,
            )
        )
        return find(connection, number)


def find(connection: Connection, number: int) -> Job:
    """A job by its number."""
    row = connection.execute(select(jobs).where(jobs.c.number == number)).one_or_none()
    if row is None:
        raise NotFound(f"There is no job {number}.", "GET /v1/jobs lists them.")
    return _job(row)


def listed(connection: Connection, limit: int = KEPT) -> list[Job]:
    """The last jobs, the newest first, without what was asked and what they gave: 200 of these would be much."""
    return [_job(row) for row in connection.execute(_BRIEF.order_by(jobs.c.number.desc()).limit(limit))]


def active(connection: Connection) -> list[Job]:
    """The jobs that have not ended, in their order, without what was asked."""
    return [_job(row) for row in connection.execute(_BRIEF.where(_ACTIVE).order_by(jobs.c.number))]


def cancel(site: Site, number: int) -> Job:
    """End a job as soon as it looks up; one that has ended stays as it ended."""
    with write(site.engine) as connection:
        find(connection, number)
        end: dict[str, Any] = {"updated": site.clock(), "request": "{}"}
        JOB_STATES.move(connection, jobs, jobs.c.number == number, JobState.CANCELLED, of=JobState.WAITING, **end)
        connection.execute(update(jobs).where(jobs.c.number == number).values(cancelled=True))
        return find(connection, number)


def _job(row: Any) -> Job:
    return Job(
        row.number,
        row.kind,
        row.state,
        row.dataset,
        row.request,
        row.progress,
        row.step,
        row.result,
        row.problem,
        row.cause,
        row.fix,
        row.asked,
        row.updated,
    )


class JobRunner:
    """The one thread that does a site's jobs."""

    def __init__(self, site: Site, works: dict[JobKind, Work], pause: float = PAUSE) -> None:
        self._site, self._works, self._pause = site, works, pause
        self._stopping, self._wake = site.machine.flag(), site.machine.flag()
        self._worker: Worker | None = None

    def start(self) -> None:
        """Begin, with what a process that ended had begun; on a disk that cannot be written, once it can be."""
        self._worker = self._site.machine.start(self._loop, "site-jobs")

    def stop(self, seconds: float = 10.0) -> None:
        """End; a job under way is done again after the next start."""
        self._stopping.set()
        self._wake.set()
        if self._worker is not None:
            self._worker.join(seconds)

    def wake(self) -> None:
        """There is something to do."""
        self._wake.set()

    def _loop(self) -> None:
        while not self._stopping.is_set():
            try:
                busy = self.run_one()
            except Exception as error:  # the disk, say: tried again
                log.warning("jobs: %s", type(error).__name__)
                busy = False
            if not busy:
                self._wake.wait(self._pause)
                self._wake.clear()

    def run_one(self) -> bool:
        """Do the first job that waits; False if there is none.

        What is under way here is under way nowhere: a process has ended over it, or could not write its end down.
        """
        with read(self._site.engine) as connection:
            if not active(connection):
                return False
        with write(self._site.engine) as connection:
            left = jobs.c.state == JobState.RUNNING
            JOB_STATES.move(connection, jobs, left, JobState.WAITING, of=JobState.RUNNING, updated=self._site.clock())
            row = connection.execute(
                select(jobs).where(jobs.c.state == JobState.WAITING).order_by(jobs.c.number).limit(1)
            ).one_or_none()
            if row is None:
                return False
            self._move(connection, row.number, JobState.RUNNING, JobState.WAITING)
        self._site.machine.reach("job-begun")
        self._do(_job(row))
        return True

    def _do(self, job: Job) -> None:
        outcome: dict[str, Any]
        state = JobState.DONE
        try:
            result = self._works[job.kind](self._site, json.loads(job.request), _Reporting(self, job.number))
            outcome = _outcome(result)
        except Cancelled:
            if self._stopping.is_set():
                return  # it waits again after the next start
            state, outcome = JobState.CANCELLED, {}
        except Exception as error:
            if self._stopping.is_set():  # connections are cut then: whether that was it shows after the next start
                return
            state, outcome = JobState.FAILED, self._trouble(job, error)
        try:
            self._close(job, state, outcome)
        except DataError as error:  # words that cannot be stored: done again, it would end no other way
            self._close(job, JobState.FAILED, self._trouble(job, error))

    def _close(self, job: Job, state: JobState, outcome: Mapping[str, Any]) -> None:
        with write(self._site.engine) as connection:
            self._move(connection, job.number, state, JobState.RUNNING, request="{}", **outcome)  # unless it has ended
            oldest = connection.execute(select(func.max(jobs.c.number))).scalar_one() - KEPT
            connection.execute(delete(jobs).where(jobs.c.number <= oldest, jobs.c.state.in_(JOB_STATES.ends)))
        if job.kind is JobKind.ERASE:  # what was asked names persons
            forget(self._site.engine)

    def _trouble(self, job: Job, error: Exception) -> dict[str, Any]:
        """Why a job failed. What an unexpected error says may quote a cell: only its kind is told."""
        if isinstance(error, CrosswardError):
            return {"problem": urn(nearest_entry(type(error))), "cause": error.cause, "fix": error.fix}
        log.error("job %d (%s) failed: %s", job.number, job.kind, type(error).__name__)
        cause = f"An unexpected {type(error).__name__}."
        return {"problem": UNEXPECTED, "cause": cause, "fix": "Nothing was opened. Report it."}

    def report(self, number: int, share: float, step: str) -> None:
        """Write down how far a job is; `Cancelled` where it is to end."""
        with write(self._site.engine) as connection:
            values = {"progress": min(1.0, share), "step": step, "updated": self._site.clock()}
            connection.execute(update(jobs).where(jobs.c.number == number).values(values))
            cancelled = connection.execute(select(jobs.c.cancelled).where(jobs.c.number == number)).scalar_one()
        if cancelled:
            raise Cancelled

    def end(self, connection: Connection, number: int, result: Any) -> None:
        """A job is done with this transaction."""
        self._move(connection, number, JobState.DONE, JobState.RUNNING, request="{}", **_outcome(result))

    @property
    def site(self) -> Site:
        """The site whose jobs these are."""
        return self._site

    @property
    def is_stopping(self) -> bool:
        """Whether the thread is to end."""
        return self._stopping.is_set()

    def _move(self, connection: Connection, number: int, to: JobState, of: JobState, **values: Any) -> None:
        of_job = jobs.c.number == number
        JOB_STATES.move(connection, jobs, of_job, to, of=of, updated=self._site.clock(), **values)


class _Reporting:
    """The `Report` of one job."""

    def __init__(self, runner: JobRunner, number: int) -> None:
        self._runner, self._number, self._last = runner, number, -PULSE

    def __call__(self, share: float, step: str) -> None:
        if self._runner.is_stopping:
            raise Cancelled
        now = self._runner.site.machine.elapsed()
        if now - self._last >= PULSE:
            self._last = now
            self._runner.report(self._number, share, step)

    def end(self, connection: Connection, result: Any) -> None:
        self._runner.end(connection, self._number, result)


def _outcome(result: Any) -> dict[str, Any]:
    return {"result": canonical(result).decode(), "progress": 1.0, "step": ""}
