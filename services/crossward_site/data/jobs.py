"""Work on data that takes a while: it survives a restart, says how far it is, can be cancelled, and has one end.

A job is written down before it is answered, and done by one thread, one after the other, so nobody else works on the
vault. What a job does is one transaction at its end: a process that dies leaves the job to be done again from the
start, and files without a name to be removed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from crossward.errors import Conflict, CrosswardError, NotFound
from crossward.protocol.canonical import canonical
from crossward_service.db.engine import write
from crossward_service.ops.machine import Worker
from crossward_site.data.tables import JOB_STATES, JobKind, JobState, jobs
from crossward_site.site import Site

log = logging.getLogger("crossward_site")

MOST_WAITING = 20
KEPT = 200
"""So many jobs that have ended are remembered."""

PULSE = 0.5
"""Progress is written down this often, in seconds."""


class Cancelled(Exception):
    """The job is wanted no more."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it stands. `result` is what it gave; it stays here."""

    number: int
    kind: JobKind
    state: JobState
    dataset: str | None
    request: dict[str, Any]
    progress: float
    step: str
    result: Any
    cause: str
    fix: str
    asked: float
    updated: float


Report = Callable[[float, str], None]
Work = Callable[[Site, dict[str, Any], Report], Any]
"""Does what a request says, and gives plain values; `Report` raises `Cancelled` where it is to end."""


def ask(site: Site, kind: JobKind, request: dict[str, Any], dataset: str | None = None) -> Job:
    """Write a job down; the same again while it has not ended is that job."""
    text, now = canonical(request).decode(), site.clock()
    with write(site.engine) as connection:
        site.check_running(connection)
        waiting = active(connection)
        for job in waiting:
            if (job.kind, job.request) == (kind, request):
                return job
        if len(waiting) >= MOST_WAITING:
            raise Conflict(f"{len(waiting)} jobs wait already.", "Wait for them, or cancel some.")
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
    """The last jobs, the newest first."""
    return [_job(row) for row in connection.execute(select(jobs).order_by(jobs.c.number.desc()).limit(limit))]


def active(connection: Connection) -> list[Job]:
    """The jobs that have not ended, in their order."""
    query = select(jobs).where(jobs.c.state.in_((JobState.WAITING, JobState.RUNNING)))
    return [_job(row) for row in connection.execute(query.order_by(jobs.c.number))]


def cancel(site: Site, number: int) -> Job:
    """End a job as soon as it looks up; one that has ended stays as it ended."""
    with write(site.engine) as connection:
        find(connection, number)
        end: dict[str, Any] = {"updated": site.clock(), "request": "{}"}
        JOB_STATES.move(connection, jobs, jobs.c.number == number, JobState.CANCELLED, of=JobState.WAITING, **end)
        connection.execute(update(jobs).where(jobs.c.number == number).values(cancelled=True))
        return find(connection, number)


def _job(row: Row[Any]) -> Job:
    return Job(
        row.number,
        row.kind,
        row.state,
        row.dataset,
        json.loads(row.request),
        row.progress,
        row.step,
        None if row.result is None else json.loads(row.result),
        row.cause,
        row.fix,
        row.asked,
        row.updated,
    )


class JobRunner:
    """The one thread that does a site's jobs."""

    def __init__(self, site: Site, works: dict[JobKind, Work]) -> None:
        self._site, self._works = site, works
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
        resumed = False
        while not self._stopping.is_set():
            try:
                if not resumed:
                    self._resume()
                    resumed = True
                busy = self.run_one()
            except Exception as error:  # the disk, say: tried again
                log.warning("jobs: %s", type(error).__name__)
                busy = False
            if not busy:
                self._wake.wait(5.0)
                self._wake.clear()

    def _resume(self) -> None:
        """What a process that ended was busy with waits again."""
        with write(self._site.engine) as connection:
            values = {"updated": self._site.clock()}
            JOB_STATES.move(connection, jobs, jobs.c.number > 0, JobState.WAITING, of=JobState.RUNNING, **values)

    def run_one(self) -> bool:
        """Do the first job that waits; False if there is none."""
        with write(self._site.engine) as connection:
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
            result = self._works[job.kind](self._site, job.request, self._reporting(job.number))
            outcome = {"result": canonical(result).decode(), "progress": 1.0, "step": ""}
        except Cancelled:
            if self._stopping.is_set():
                return  # it waits again after the next start
            state, outcome = JobState.CANCELLED, {}
        except CrosswardError as error:
            state, outcome = JobState.FAILED, {"cause": error.cause, "fix": error.fix}
        except Exception as error:
            # What it says may quote a cell: only its kind is told.
            log.error("job %d (%s) failed: %s", job.number, job.kind, type(error).__name__)
            words = {"cause": f"An unexpected {type(error).__name__}.", "fix": "Nothing was opened. Report it."}
            state, outcome = JobState.FAILED, words
        with write(self._site.engine) as connection:
            self._move(connection, job.number, state, JobState.RUNNING, request="{}", **outcome)
            oldest = connection.execute(select(func.max(jobs.c.number))).scalar_one() - KEPT
            connection.execute(delete(jobs).where(jobs.c.number <= oldest, jobs.c.state.in_(JOB_STATES.ends)))

    def _reporting(self, number: int) -> Report:
        last = [-PULSE]

        def report(share: float, step: str) -> None:
            if self._stopping.is_set():
                raise Cancelled
            now = self._site.machine.elapsed()
            if now - last[0] < PULSE:
                return
            last[0] = now
            with write(self._site.engine) as connection:
                values = {"progress": min(1.0, share), "step": step, "updated": self._site.clock()}
                connection.execute(update(jobs).where(jobs.c.number == number).values(values))
                cancelled = connection.execute(select(jobs.c.cancelled).where(jobs.c.number == number)).scalar_one()
            if cancelled:
                raise Cancelled

        return report

    def _move(self, connection: Connection, number: int, to: JobState, of: JobState, **values: Any) -> None:
        of_job = jobs.c.number == number
        JOB_STATES.move(connection, jobs, of_job, to, of=of, updated=self._site.clock(), **values)
