"""Serving an app: bind, say where, run, stop gracefully.

Standard output gets a single line, ``<title> ready on <address>``, once requests are answered: scripts wait for it,
and with port 0 learn the port from it. Everything else is log, on standard error.

A service may be several processes on one socket: started, watched, replaced, stopped together. The parent binds and
supervises, and touches neither requests nor the database. Each worker is a fresh process (nothing is inherited but
the socket and a pipe), makes its own app from the settings, and says when it answers; standard output gets its line
when all do. A worker that dies later is replaced; one that never gets ready ends the service, so that whoever started
it sees why. If the parent is killed, its workers end too, wherever they are (see `parent`), after the time that a stop
may take at the latest. Counts of requests are kept in files that all workers share (see `telemetry`).
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from types import ModuleType
from typing import TypeVar

import uvicorn
from fastapi import FastAPI

from crossward.client.addresses import is_loopback
from crossward.errors import InsecureAddress, InvalidSetting, NotReady
from crossward_service.http.settings import ServiceSettings
from crossward_service.http.telemetry import SHARED_FOLDER, configure_logs
from crossward_service.http.worker import Order, order_bytes

S = TypeVar("S", bound=ServiceSettings)

RESTART_SECONDS = 1.0
"""Until a worker that died is replaced."""

STOP_SECONDS = 10.0
"""What a worker may need to stop, beyond the time its requests have."""

_READY = re.compile(r"ready on (https?://\S+)\n\Z")

log = logging.getLogger("crossward.workers")


class Server(uvicorn.Server):
    """uvicorn's server that says when it is ready, and tells waiting routes when it stops."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._app = app
        self._ready = ready

    def stop(self) -> None:
        """End soon, from a signal's handler or another thread, also before it runs."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then say so."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Wake what waits on `app.state.stopping` (long polls, event streams), then let requests finish."""
        stopping = getattr(self._app.state, "stopping", None)
        if stopping is not None:
            stopping.set()
        self._drop_idle()
        await super().shutdown(sockets)

    def _drop_idle(self) -> None:
        """Let go of kept connections on which nothing is asked: to end TLS in order, each caller would have to answer.

        Callers with a pool of connections listen to none that they do not use, so every stop would take as long as
        one may.
        """
        for connection in tuple(self.server_state.connections):
            cycle = getattr(connection, "cycle", None)
            if cycle is None or cycle.response_complete:
                connection.transport.abort()


def new_server(app: FastAPI, settings: ServiceSettings, say: Callable[[str], None]) -> tuple[Server, socket.socket]:
    """A server and the socket it listens on already; `say` gets the ready line."""
    listener = bind(settings)
    return server_of(app, settings, lambda: say(ready_text(app.title, listener, settings))), listener


def server_of(app: FastAPI, settings: ServiceSettings, ready: Callable[[], None]) -> Server:
    """A server that runs on any socket; `ready` is called once it answers."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        # No header may say who is calling: signatures and tokens do.
        proxy_headers=False,
        ws="none",
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        timeout_graceful_shutdown=settings.shutdown_seconds,
        # Longer than our own callers keep an idle connection (5 s): what one sends as the other closes would be lost.
        timeout_keep_alive=30,
    )
    return Server(config, app, ready)


def bind(settings: ServiceSettings) -> socket.socket:
    """The socket the settings name, if they may be served."""
    if not (settings.serves_tls or settings.insecure or is_loopback(settings.host)):
        raise InsecureAddress(
            f"{settings.host} can be reached from other machines and no TLS certificate is set.",
            "Set tls_cert and tls_key; behind a proxy that ends TLS, or in a closed test network, set insecure.",
        )
    for path in (settings.tls_cert, settings.tls_key):
        if path is not None and not path.is_file():
            raise InvalidSetting(f"The TLS file {path} is not there.", "Correct tls_cert or tls_key.")
    return _bind(settings.host, settings.port)


def run(app: FastAPI, settings: ServiceSettings) -> None:
    """Serve until SIGINT or SIGTERM; requests under way are finished first."""
    configure_logs(settings.log_level)
    server, listener = new_server(app, settings, _say)
    with listener, stopped_by_signal(server.stop):
        _serve(server, listener)


def _serve(server: Server, listener: socket.socket) -> None:
    gc.freeze()  # what was loaded stays: to look through all of it again would hold up a request
    server.run(sockets=[listener])


def _say(text: str) -> None:
    """A line on standard output, in one write: where the log goes to the same pipe or file, nothing comes between."""
    sys.stdout.flush()
    os.write(sys.stdout.fileno(), f"{text}\n".encode())


def ready_text(title: str, listener: socket.socket, settings: ServiceSettings) -> str:
    """What standard output gets, once."""
    return f"{title} ready on {address(listener, settings)}"


def ready_address(line: str) -> str | None:
    """The address in a line with the ready text; None in any other, and in one that has not come to its end."""
    found = _READY.search(line)
    return None if found is None else found[1]


def address(listener: socket.socket, settings: ServiceSettings) -> str:
    """The address actually bound, as a URL."""
    host, port = listener.getsockname()[:2]
    scheme = "https" if settings.serves_tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _bind(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=2048)
        # Accepted connections inherit it. asyncio sets it only on sockets that it made itself, and without it every
        # answer on a kept connection waits 40 ms for the caller's delayed acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        raise InvalidSetting(
            f"Cannot listen on {host}:{port}: {error.strerror}.", "Choose another host or port."
        ) from None


@contextmanager
def stopped_by_signal(act: Callable[[], None]) -> Iterator[None]:
    """A stop that was asked for and carried out is a success; `act` is what SIGINT and SIGTERM do meanwhile.

    uvicorn has handlers of its own, and raises the signal it was stopped by once more after its shutdown; unhandled,
    that would end the process as if it had been killed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: act()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# -- several processes ---------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Worker:
    process: subprocess.Popen[bytes]
    pipe: Connection
    title: str = ""  # once it is ready

    def end(self, seconds: float) -> None:
        """Wait until it has ended, and kill it if that takes longer."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.pipe.close()


class _Workers:
    """The parent's side."""

    def __init__(self, program: ModuleType, settings: ServiceSettings, count: int, listener: socket.socket) -> None:
        self._stop_seconds = settings.shutdown_seconds + STOP_SECONDS
        self._program = program.__name__
        self._order = order_bytes(sys.path, self._stop_seconds, settings.to_json())
        self._count, self._listener = count, listener
        self._workers: list[_Worker] = []
        self._announced = False
        # A signal must end a wait that is under way: it writes here.
        self._wake, self._woken = multiprocessing.Pipe(duplex=False)

    def interrupt(self) -> None:
        """End `run`, from a signal's handler."""
        self._woken.send_bytes(b"stop")

    def run(self, say: Callable[[str], None]) -> None:
        """Keep `count` workers alive until interrupted."""
        try:
            for _ in range(self._count):
                self._workers.append(self._start())
            while self._watch():
                if not self._announced and all(each.title for each in self._workers):
                    self._announced = True
                    say(self._workers[0].title)
        finally:
            self._stop()

    def _start(self) -> _Worker:
        ours, theirs = multiprocessing.Pipe()
        with theirs:
            files = theirs.fileno(), self._listener.fileno()
            command = [sys.executable, "-P", "-m", self._program, *map(str, files)]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=files)
        with suppress(OSError):  # one that has died already is noticed like any other
            ours.send_bytes(self._order)
        return _Worker(process, ours)

    def _watch(self) -> bool:
        """Wait for something to happen, and see to it; False once interrupted."""
        happened = wait([self._wake, *(each.pipe for each in self._workers)])
        if self._wake in happened:
            return False
        for number, each in enumerate(self._workers):
            if each.pipe not in happened:
                continue
            try:
                each.title = each.pipe.recv_bytes().decode()
            except (EOFError, OSError):
                each.end(STOP_SECONDS)
                self._check_was_ready(each)
                log.error("worker %s died with %s; starting another", each.process.pid, each.process.returncode)
                if self._wake.poll(RESTART_SECONDS):
                    return False
                self._workers[number] = self._start()
        return True

    def _check_was_ready(self, each: _Worker) -> None:
        if not each.title:
            raise NotReady("A worker of this service could not start.", "The lines above say why.")

    def _stop(self) -> None:
        for each in self._workers:
            each.process.terminate()
        end = time.monotonic() + self._stop_seconds
        for each in self._workers:
            each.end(max(0.0, end - time.monotonic()))


def run_workers(program: ModuleType, settings: ServiceSettings, count: int) -> None:
    """Serve from `count` processes until SIGINT or SIGTERM; requests under way are finished first.

    Each is `python -m` of the module `program`, which calls `worker.begin`, then `work`.
    """
    configure_logs(settings.log_level)
    with bind(settings) as listener, tempfile.TemporaryDirectory(prefix="crossward-metrics-") as folder:
        os.environ[SHARED_FOLDER] = folder  # read by prometheus_client when a worker imports it
        workers = _Workers(program, settings, count, listener)
        with stopped_by_signal(workers.interrupt):
            workers.run(lambda title: _say(ready_text(title, listener, settings)))


def work(create: Callable[[S], FastAPI], settings: S, order: Order) -> None:
    """What a worker does once it has begun: serve `create(settings)` on the socket of all."""
    configure_logs(settings.log_level)
    app = create(settings)

    def ready() -> None:
        with suppress(OSError):  # a parent that is gone is noticed elsewhere
            order.pipe.send_bytes(app.title.encode())

    server = server_of(app, settings, ready)
    with order.listener as listener, stopped_by_signal(server.stop):
        _serve(server, listener)
