"""Takes tasks and carries each through: take, approve, reserve, train, store, publish, settle.

Each step is durable before the next, so a runner that is killed, or another that takes its place, goes on from the
database. Three threads: one waits for tasks, one works, one tells the coordinator that the site lives. Training runs
beside the event loop, so the site's own API answers meanwhile. All waiting is by the machine's elapsed time.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from crossward.client.http import Retry
from crossward.errors import (
    AccessRefused,
    Conflict,
    CrosswardError,
    KeyRevoked,
    NotFound,
    NotReady,
    RemoteProblem,
    StorageFailed,
    Unreachable,
)
from crossward.protocol.ledger.lines import LineKind
from crossward_service.db.engine import read, write
from crossward_service.ops.machine import Flag, Worker
from crossward_site.coordinator import Coordinator
from crossward_site.identity.service import Identity, Link, finish_rotation
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


PROCESSES_BEFORE_HELD = 3
"""How many processes may end while they work on a task before the steward is asked: it may be what kills them."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long to wait, in seconds: for a task, between looks at the database and signs of life, after a failure;
    and between looks at the mirror."""

    poll: float = 20.0
    tick: float = 0.5
    pulse: float = 5.0
    retry: float = 5.0
    compare: float = 600.0


class Runner:
    """The worker of a site: the one process that serves a data directory has one.

    Only tests run several on one database. Each step moves a task on from the state it was read in, or does nothing, so
    they may do work twice, and never its effects; and all pay from the one budget.
    """

    def __init__(self, site: Site, link: Link | None = None, pace: Pace | None = None) -> None:
        self.site = site
        machine = site.machine
        self.process = f"{os.getpid()}-{machine.word(6)}"
        self._link, self._pace = link or Link(), pace or Pace()
        self._stopping = machine.flag()
        self._loops = {"take": self._take_all, "work": self._work_all, "pulse": self._pulse_all}
        self._wake = {name: machine.flag() for name in self._loops}
        self._workers: list[Worker] = []
        self._lock = threading.Lock()
        self._unready = False
        self._compare_at = 0.0  # when, by the machine's elapsed time, the mirror is looked at again
        self._coordinators: list[Coordinator] = []  # one per key; another thread may still use an old one
        self._later: dict[str, float] = {}  # tasks that were put off, until when by the machine's elapsed time
        self.trouble = ""
        """Why the last call or step failed, for the steward; empty if it did not."""

    # -- life -----------------------------------------------------------------------------------------------------
    def start(self) -> None:
        """Begin to work, in threads of its own."""
        for name, loop in self._loops.items():
            self._workers.append(
                self.site.machine.start(partial(self._forever, loop, self._wake[name]), f"site-{name}")
            )

    def stop(self, seconds: float = 10.0) -> None:
        """Finish the step under way, if it ends in time; what is left goes on after the next start."""
        self._stopping.set()
        self._go_on()
        with self._lock:
            for coordinator in self._coordinators:
                coordinator.close()
        for worker in self._workers:
            worker.join(seconds / len(self._workers))
        with suppress(StorageFailed), write(self.site.engine) as connection:
            tasks.rest_all(connection, self.process)

    def wake(self) -> None:
        """Look at the tasks now: the steward has decided."""
        self._wake["work"].set()

    def renew(self) -> None:
        """Try again now, and forget what was in the way: the site has joined, or its ledger agrees again."""
        self.trouble = ""
        self._later.clear()
        self._go_on()

    def _go_on(self) -> None:
        """Let no thread wait any longer before its next look."""
        for flag in self._wake.values():
            flag.set()

    def coordinator(self) -> Coordinator:
        """The coordinator, once the site has joined; called anew when the site's key has changed."""
        return self._called_as(Identity.load(self.site))

    def _called_as(self, identity: Identity) -> Coordinator:
        with self._lock:
            if self._stopping.is_set():  # nobody would close connections that are made now
                raise NotReady("This site's worker is stopping.", "Ask again once the site runs.")
            if not self._coordinators or self._coordinators[-1].identity.key_id != identity.key_id:
                retry = Retry(attempts=2, longest=2.0)
                self._coordinators.append(Coordinator(identity, self.site.machine, self._link, retry))
            return self._coordinators[-1]

    def _forever(self, loop: Callable[[], float], woken: Flag) -> None:
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
            if pause and not self._stopping.is_set():
                woken.wait(pause)
                woken.clear()

    def _report(self, error: CrosswardError) -> None:
        if str(error) != self.trouble:
            log.warning("%s: %s", type(error).__name__, error)
        self.trouble = str(error)

    # -- taking ---------------------------------------------------------------------------------------------------
    def _take_all(self) -> float:
        self.take(self._pace.poll)
        self.wake()
        return 0.0

    def take(self, wait: float = 0.0) -> bool:
        """Take one task, if there is one; but before the first, and now and then, see that the mirror is this ledger.

        Until the coordinator has heard that the task is stored here, it gives the same one again: an answer that is
        lost costs nothing. A change of key whose answer was lost is finished here.
        """
        try:
            return self._take(wait)
        except KeyRevoked:  # perhaps the coordinator knows the new key already
            if not finish_rotation(self.site, self._link):
                raise
            return False

    def _take(self, wait: float) -> bool:
        coordinator = self._ready()
        elapsed = self.site.machine.elapsed()
        if elapsed >= self._compare_at:  # nothing else would show an old backup, here or there, before the next charge
            sync(self.site, coordinator)
            self._compare_at = elapsed + self._pace.compare
        message = coordinator.next_task(wait)
        if message is None:
            self.trouble = ""
            return False
        with write(self.site.engine) as connection:
            task = tasks.take(self.site, connection, message)
        self.site.machine.reach("after-take")
        self.beat(task, coordinator)
        return True

    def _ready(self) -> Coordinator:
        """The coordinator, if the site has joined and runs: trouble that said otherwise is then over."""
        try:
            with read(self.site.engine) as connection:
                self.site.check_running(connection)
                identity = Identity.get(connection, self.site.home)
            coordinator = self._called_as(identity)
        except NotReady:
            self._unready = True
            raise
        if self._unready:
            self._unready, self.trouble = False, ""
        return coordinator

    # -- working --------------------------------------------------------------------------------------------------
    def _work_all(self) -> float:
        return 0.0 if self.work() else self._pace.tick

    def work(self) -> bool:
        """Carry one task as far as it goes now; False if there is none."""
        with read(self.site.engine) as connection:
            self.site.check_running(connection)
            task = self._next(tasks.listed(connection, tasks.WORKABLE))
            behind = task is None and confirmed(connection) != self.site.ledger.head(connection)
        if task is not None:
            return self._carry(task)
        if behind:  # a dataset was opened, an AUC paid for, or a charged task is put off
            sync(self.site, self.coordinator())
        return False

    def _next(self, waiting: Sequence[tasks.Task]) -> tasks.Task | None:
        """The task whose turn it is: first those never put off, then those that have waited longest.

        One that fails again and again keeps none back.
        """
        now = self.site.machine.elapsed()
        due = [task for task in waiting if self._later.get(task.id, now) <= now]
        return min(due, key=lambda task: self._later.get(task.id, 0.0), default=None)

    def _carry(self, task: tasks.Task) -> bool:
        """Step a task on. Whatever goes wrong with it puts it off; what is wrong with more than it is raised too."""
        if not self._begin(task):
            return True
        try:
            coordinator = self.coordinator()  # a key that changes meanwhile puts the task off, as a revoked one does
            while task.state in tasks.WORKABLE and not self._stopping.is_set():
                task = advance(self.site, coordinator, task)
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
            tasks.rest(connection, task.id)
        self._later.pop(task.id, None)
        self.trouble = ""
        return True

    def _begin(self, task: tasks.Task) -> bool:
        """Begin to work on a task, unless process after process has ended over it: then the steward is asked."""
        with write(self.site.engine) as connection:
            begun = tasks.begin(connection, task.id, self.process)
            if begun <= PROCESSES_BEFORE_HELD or task.state not in tasks.UNRELEASED:
                return True
            cause = f"{PROCESSES_BEFORE_HELD} processes of this site ended while they worked on it."
            tasks.hold(connection, task, cause, self.site.clock())
            return False

    def _postpone(self, id: str, error: Exception) -> None:
        """Put a task off, longer each time; one that was not released and keeps failing is held for the steward."""
        now = self.site.machine.elapsed()
        self._later[id] = now + self._pace.retry
        with write(self.site.engine) as connection:
            task = tasks.find(connection, id)
            failures = task.failures + (not isinstance(error, OUTSIDE))
            if failures >= FAILURES_BEFORE_HELD and task.state in tasks.UNRELEASED:
                cause = f"It failed {failures} times, last with: {_words(error)}"
                tasks.hold(connection, task, cause, self.site.clock())
                self._later.pop(id, None)  # once the steward has approved, it goes on at once
                return
            self._later[id] = now + self._pace.retry * 2.0 ** min(max(0, failures - 1), DOUBLINGS)
            tasks.postpone(connection, id, _words(error), failures)

    # -- living ---------------------------------------------------------------------------------------------------
    def _pulse_all(self) -> float:
        with read(self.site.engine) as connection:
            open_tasks = tasks.listed(connection, tasks.OPEN)
        if open_tasks:
            coordinator = self.coordinator()
            for task in open_tasks:
                self._try_beat(task, coordinator)
        lease = min((task.lease_seconds for task in open_tasks), default=self._pace.pulse)
        return max(0.05, min(lease / 3, self._pace.pulse))

    def _try_beat(self, task: tasks.Task, coordinator: Coordinator) -> None:
        """Beat for a task; an answer that makes no sense for one keeps no other from being told of."""
        try:
            self.beat(task, coordinator)
        except OUTSIDE:
            raise
        except CrosswardError as error:
            self._report(error)

    def beat(self, task: tasks.Task, coordinator: Coordinator | None = None) -> None:
        """Keep the lease of a task, or learn that it is wanted no more."""
        coordinator = coordinator or self.coordinator()
        try:
            if not coordinator.heartbeat(beat_of(task)):
                self._end(task, UNWANTED)
        except NotFound as error:
            self._end(task, error.cause)
        except Conflict:
            return  # its lease ran out, and this site has taken it again meanwhile

    def _end(self, task: tasks.Task, cause: str) -> None:
        """Give a task up, unless it was paid for, or has moved on since it was asked about.

        What was paid for is finished: its release is sent, the coordinator decides and answers, and it is kept here.
        """
        if task.state in tasks.GIVEN_UP:
            with write(self.site.engine) as connection:
                if self.site.ledger.find(connection, LineKind.RESERVE, task.id) is None:
                    tasks.move(connection, task, TaskState.CANCELLED, self.site.clock(), cause=cause)


def _words(error: Exception) -> str:
    """An error for the steward."""
    return str(error) if isinstance(error, CrosswardError) else f"An unexpected {type(error).__name__}; the log has it."
