"""Serving an app: bind, say where, run, stop gracefully.

Standard output gets a single line, ``<title> ready on <address>``, once requests are answered: scripts wait for it,
and with port 0 learn the port from it. Everything else is log, on standard error.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from crossward.client.addresses import is_loopback
from crossward.errors import InsecureAddress, InvalidSetting
from crossward_service.http import logs
from crossward_service.http.settings import ServiceSettings


class Server(uvicorn.Server):
    """uvicorn's server that says when it is ready, and tells waiting routes when it stops."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._app = app
        self._ready = ready

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
    return server_of(app, settings, lambda: say(ready_line(app.title, listener, settings))), listener


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
    logs.configure(settings.log_level)
    server, listener = new_server(app, settings, lambda line: print(line, flush=True))
    with listener, stopped_by_signal():
        server.run(sockets=[listener])


def ready_line(title: str, listener: socket.socket, settings: ServiceSettings) -> str:
    """What standard output gets, once."""
    return f"{title} ready on {address(listener, settings)}"


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
def stopped_by_signal(act: Callable[[], None] = lambda: None) -> Iterator[None]:
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
