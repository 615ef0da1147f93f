"""One service as several processes on one socket: started, watched, replaced, stopped together.

The parent binds and supervises, and touches neither requests nor the database. Each worker is a fresh process (spawn:
nothing is inherited but the socket), makes its own app from the settings, and says when it answers. One ready line
is printed, when all of them do. A worker that dies later is replaced; one that never gets ready ends the service, so
that whoever started it sees why. Workers hold the other end of a pipe: if the parent is killed, they stop too.

Counts of requests are kept in files that all workers share (see `metrics`).
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TypeVar

from fastapi import FastAPI

from crossward.errors import NotReady
from crossward_service.http import logs, metrics
from crossward_service.http.serve import Server, bind, ready_line, server_of, stopped_by_signal
from crossward_service.http.settings import ServiceSettings

S = TypeVar("S", bound=ServiceSettings)
Create = Callable[[S], FastAPI]

PAUSE = 1.0  # seconds before a worker that died is replaced
MARGIN = 10.0  # seconds a worker may need to stop, beyond those its requests have

log = logging.getLogger("crossward.workers")


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    line: Connection
    title: str = ""  # once it is ready


class _Workers:
    """The parent's side."""

    def __init__(self, create: Create[S], settings: S, count: int, listener: socket.socket) -> None:
        self._spawn = multiprocessing.get_context("spawn")
        self._start_one: Callable[[], _Worker] = lambda: self._start(create, settings, listener)
        self._count = count
        self._workers: list[_Worker] = []
        self._patience = settings.shutdown_seconds + MARGIN
        self._said = False
        # A signal must end a wait that is under way: it writes here.
        self._wake, self._woken = multiprocessing.Pipe(duplex=False)

    def interrupt(self) -> None:
        """End `run`, from a signal's handler."""
        self._woken.send(None)

    def run(self, say: Callable[[str], None]) -> None:
        """Keep `count` workers alive until interrupted."""
        try:
            self._workers = [self._start_one() for _ in range(self._count)]
            while self._watch():
                if not self._said and all(worker.title for worker in self._workers):
                    self._said = True
                    say(self._workers[0].title)
        finally:
            self._stop()

    def _start(self, create: Create[S], settings: S, listener: socket.socket) -> _Worker:
        ours, theirs = multiprocessing.Pipe()
        process = self._spawn.Process(target=_work, args=(create, settings, listener, theirs), daemon=False)
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def _watch(self) -> bool:
        """Wait for something to happen, and see to it; False once interrupted."""
        happened = wait([self._wake, *(worker.line for worker in self._workers)])
        if self._wake in happened:
            return False
        for number, worker in enumerate(self._workers):
            if worker.line not in happened:
                continue
            try:
                worker.title = worker.line.recv()
            except EOFError:
                worker.process.join()
                self._check_was_ready(worker)
                log.error("worker %s died with %s; starting another", worker.process.pid, worker.process.exitcode)
                if self._wake.poll(PAUSE):
                    return False
                self._workers[number] = self._start_one()
        return True

    def _check_was_ready(self, worker: _Worker) -> None:
        if not worker.title:
            raise NotReady("A worker of this service could not start.", "The lines above say why.")

    def _stop(self) -> None:
        for worker in self._workers:
            worker.process.terminate()
        end = time.monotonic() + self._patience
        for worker in self._workers:
            worker.process.join(max(0.0, end - time.monotonic()))
            if worker.process.exitcode is None:
                worker.process.kill()
                worker.process.join()
            worker.line.close()


def run(create: Create[S], settings: S, count: int) -> None:
    """Serve `create(settings)` from `count` processes until SIGINT or SIGTERM; requests under way are finished first.

    `create` is a function that other processes can import.
    """
    logs.configure(settings.log_level)
    with bind(settings) as listener, tempfile.TemporaryDirectory(prefix="crossward-metrics-") as folder:
        os.environ[metrics.SHARED] = folder  # read by prometheus_client when a worker imports it
        workers = _Workers(create, settings, count, listener)
        with stopped_by_signal(workers.interrupt):
            workers.run(lambda title: print(ready_line(title, listener, settings), flush=True))


def _work(create: Create[S], settings: S, listener: socket.socket, line: Connection) -> None:
    """A worker's life."""
    logs.configure(settings.log_level)
    app = create(settings)
    server = server_of(app, settings, lambda: line.send(app.title))
    threading.Thread(target=_stop_with_parent, args=(server, line), daemon=True).start()
    with listener, stopped_by_signal():
        server.run(sockets=[listener])


def _stop_with_parent(server: Server, line: Connection) -> None:
    try:
        line.recv()
    except (EOFError, OSError):
        server.should_exit = True
