"""Takes tasks and carries each through: take, approve, reserve, train, store, publish, settle.

Each step is durable before the next, so a runner that is killed, or another that takes its place, goes on from the
database. Three threads: one waits for tasks, one works, one tells the coordinator that the site lives. Training runs
beside the event loop, so the site's own API answers meanwhile.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass

from crossward.client.http import Retry
from crossward.errors import (
    AccessRefused,
    Conflict,
    CrosswardError,
    NotFound,
    NotReady,
    RemoteProblem,
    StorageFailed,
    Unreachable,
)
from crossward_service.db.engine import read, write
from crossward_service.ops.crash import crash_point
from crossward_site.coordinator import Coordinator
from crossward_site.identity.service import Identity, Link
from crossward_site.ledger.service import confirmed, sync
from crossward_site.site import Site
from crossward_site.tasks import service as tasks
from crossward_site.tasks.steps import UNWANTED, advance, beat_of
from crossward_site.tasks.tables import TaskState

log = logging.getLogger("crossward_site")

OUTSIDE = (AccessRefused, NotReady, RemoteProblem, StorageFailed, Unreachable)
"""Troubles of the site or the coordinator: no task is to blame, and none is held for them."""

FAILURES_BEFORE_HELD = 5
"""How often in a row a step of a task may fail before the steward is asked."""

DOUBLINGS = 6
"""After so many failures the pause before the next try doubles no more."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long to wait, in seconds: for a task, between looks at the database, before a claim runs out."""

    poll: float = 20.0
    tick: float = 0.5
    claim: float = 15.0
    retry: float = 5.0


class Runner:
    """The worker of a site: the one process that serves a data directory has one.

    Only tests run several on one database. A claim keeps them off one task, and all pay from the one budget.
    """

    def __init__(self, site: Site, link: Link | None = None, pace: Pace | None = None) -> None:
        self.site = site
        self.worker = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._link, self._pace = link or Link(), pace or Pace()
        self._stopping, self._wake = threading.Event(), threading.Event()
        self._threads: list[threading.Thread] = []
        self._lock, self._pause = threading.Lock(), threading.Condition()
        self._unready, self._compared = False, False
        self._coordinators: list[Coordinator] = []  # one per key; another thread may still use an old one
        self.trouble = ""
        """Why the last call or step failed, for the steward; empty if it did not."""

    # -- life -----------------------------------------------------------------------------------------------------
    def start(self) -> None:
        """Begin to work, in threads of its own."""
        loops = {"take": self._take_all, "work": self._work_all, "pulse": self._pulse_all}
        for name, loop in loops.items():
            thread = threading.Thread(target=self._forever, args=(loop,), name=f"site-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self, seconds: float = 10.0) -> None:
        """Finish the step under way, if it ends in time; what is left goes on after the next start."""
        self._stopping.set()
        self._go_on()
        with self._lock:
            for coordinator in self._coordinators:
                coordinator.close()
        for thread in self._threads:
            thread.join(seconds / len(self._threads))

    def wake(self) -> None:
        """Look at the tasks now: the steward has decided."""
        self._wake.set()

    def renew(self) -> None:
        """Try again now, and forget what was in the way: the site has joined, or its ledger agrees again."""
        self.trouble = ""
        self._go_on()

    def _go_on(self) -> None:
        """Let no thread wait any longer before its next look."""
        self._wake.set()
        with self._pause:
            self._pause.notify_all()

    def coordinator(self) -> Coordinator:
        """The coordinator, once the site has joined; called anew when the site's key has changed."""
        identity = Identity.load(self.site)
        with self._lock:
            if self._stopping.is_set():  # nobody would close connections that are made now
                raise NotReady("This site's worker is stopping.", "Ask again once the site runs.")
            if not self._coordinators or self._coordinators[-1].identity.key_id != identity.key_id:
                self._coordinators.append(Coordinator(identity, self._link, Retry(attempts=2, longest=2.0)))
            return self._coordinators[-1]

    def _forever(self, loop: Callable[[], float]) -> None:
        while not self._stopping.is_set():
            try:
                pause = loop()
            except CrosswardError as error:
                self._report(error)
                pause = self._pace.retry
            except Exception:
                if self._stopping.is_set():
                    return
                log.exception("unexpected error in the site's worker")
                self.trouble = "An unexpected error; the log has it."
                pause = self._pace.retry
            with self._pause:
                if pause and not self._stopping.is_set():
                    self._pause.wait(pause)

    def _report(self, error: CrosswardError) -> None:
        if str(error) != self.trouble:
            log.warning("%s: %s", type(error).__name__, error)
        self.trouble = str(error)

    # -- taking ---------------------------------------------------------------------------------------------------
    def _take_all(self) -> float:
        self.take(self._pace.poll)
        self._wake.set()
        return 0.0

    def take(self, wait: float = 0.0) -> bool:
        """Take one task, if there is one; but before the first, see that the mirror has not more than this ledger."""
        coordinator = self._ready()
        if not self._compared:  # nothing else would show an old backup before the next charge
            sync(self.site, coordinator)
            self._compared = True
        message = coordinator.next_task(wait)
        if message is None:
            self.trouble = ""
            return False
        with write(self.site.engine) as connection:
            tasks.take(self.site, connection, message)
        crash_point("after-take")
        return True

    def _ready(self) -> Coordinator:
        """The coordinator, if the site has joined and runs: trouble that said otherwise is then over."""
        try:
            with read(self.site.engine) as connection:
                self.site.check_running(connection)
            coordinator = self.coordinator()
        except NotReady:
            self._unready = True
            raise
        if self._unready:
            self._unready, self.trouble = False, ""
        return coordinator

    # -- working --------------------------------------------------------------------------------------------------
    def _work_all(self) -> float:
        self._wake.clear()
        if not self.work():
            self._wake.wait(self._pace.tick)
        return 0.0

    def work(self) -> bool:
        """Carry one task as far as it goes now; False if there is none."""
        now = self.site.clock()
        with read(self.site.engine) as connection:
            self.site.check_running(connection)
            waiting = tasks.listed(connection, tasks.WORKABLE)
            behind = confirmed(connection) != self.site.ledger.head(connection)
        task = None
        if waiting:
            with write(self.site.engine) as connection:
                task = tasks.claim(connection, self.worker, now, self._pace.claim)
        if task is None:
            if behind:  # a dataset was opened, an AUC paid for, or a charged task is put off
                sync(self.site, self.coordinator())
            return False
        return self._carry(task)

    def _carry(self, task: tasks.Task) -> bool:
        """Step a task on. Whatever goes wrong with it puts it off; what is wrong with more than it is raised too."""
        try:
            while task.state in tasks.WORKABLE and not self._stopping.is_set():
                task = advance(self.site, self.coordinator(), task)
        except OUTSIDE as error:
            self._postpone(task.id, error)
            raise
        except Exception as error:
            if self._stopping.is_set():  # the connection to the coordinator was cut
                return False
            log.warning("task %s failed in state %s", task.id, task.state, exc_info=error)
            self._postpone(task.id, error)
            self.trouble = _words(error)
            return True
        with write(self.site.engine) as connection:
            tasks.free(connection, task.id)
        self.trouble = ""
        return True

    def _postpone(self, id: str, error: Exception) -> None:
        """Put a task off, longer each time; one that was not released and keeps failing is held for the steward."""
        with write(self.site.engine) as connection:
            task, now = tasks.find(connection, id), self.site.clock()
            failures = task.failures + (not isinstance(error, OUTSIDE))
            if failures >= FAILURES_BEFORE_HELD and task.state in tasks.UNRELEASED:
                cause = f"It failed {failures} times, last with: {_words(error)}"
                tasks.hold(connection, task, cause, now)
                return
            pause = self._pace.retry * 2.0 ** min(max(0, failures - 1), DOUBLINGS)
            tasks.postpone(connection, id, now + pause, _words(error), failures)

    # -- living ---------------------------------------------------------------------------------------------------
    def _pulse_all(self) -> float:
        with read(self.site.engine) as connection:
            open_tasks = tasks.listed(connection, tasks.OPEN)
        if open_tasks:
            with write(self.site.engine) as connection:
                tasks.keep(connection, self.worker, self.site.clock() + self._pace.claim)
            for task in open_tasks:
                self._try_beat(task)
        lease = min((task.lease_seconds for task in open_tasks), default=self._pace.claim)
        return max(0.05, min(lease, self._pace.claim) / 3)

    def _try_beat(self, task: tasks.Task) -> None:
        """Beat for a task; an answer that makes no sense for one keeps no other from being told of."""
        try:
            self.beat(task)
        except OUTSIDE:
            raise
        except CrosswardError as error:
            self._report(error)

    def beat(self, task: tasks.Task) -> None:
        """Keep the lease of a task, or learn that it is wanted no more."""
        try:
            wanted = self._is_wanted(task)
        except NotFound as error:
            self._end(task, error.cause)
            return
        except Conflict:
            return  # its lease ran out, and this site has taken it again meanwhile
        if not wanted:
            self._end(task, UNWANTED)

    def _is_wanted(self, task: tasks.Task) -> bool:
        """Whether the coordinator waits for a task, or would take what was paid for already.

        What was paid is known to it by the mirror: so the mirror has the charge before its answer ends the task.
        """
        beat, coordinator = beat_of(task), self.coordinator()
        if coordinator.heartbeat(beat):
            return True
        if task.state is not TaskState.RESERVED:
            return False
        sync(self.site, coordinator)
        return coordinator.heartbeat(beat)

    def _end(self, task: tasks.Task, cause: str) -> None:
        """Give a task up, unless it has moved on since it was asked about: then it is asked about again."""
        # A release that is on its way is sent all the same: the coordinator decides, and answers.
        if task.state not in (TaskState.STORED, TaskState.DECLINING):
            with write(self.site.engine) as connection:
                tasks.move(connection, task, TaskState.CANCELLED, self.site.clock(), cause=cause)


def _words(error: Exception) -> str:
    """An error for the steward."""
    return str(error) if isinstance(error, CrosswardError) else f"An unexpected {type(error).__name__}; the log has it."
