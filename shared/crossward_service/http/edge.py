"""The outermost layer of every service: what must hold for each request, whatever the route does.

A request gets an id, a size limit, security headers, one line in the log and one count in the metrics. An exception
nobody caught becomes a problem with that id here, inside those guarantees. Plain ASGI, so that streams pass through
unbuffered.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import MappingProxyType

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crossward.errors import BodyTooLarge
from crossward_service.http import problems
from crossward_service.http.telemetry import RequestMetrics, route_template

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}
GONE = 499
"""How a request is counted whose caller left before the body was whole."""
PROBES = ("/healthz", "/readyz", "/metrics")
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

access = logging.getLogger("crossward.access")
log = logging.getLogger("crossward.edge")


@dataclass(frozen=True)
class Limits:
    """How many bytes a request body may have: `body` in general, `paths` for patterns as in "/v1/tasks/*/result"."""

    body: int = 1 << 20
    paths: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, path: str) -> int:
        """The limit of one path: that of the longest pattern it fits."""
        fitting = [pattern for pattern in self.paths if fnmatchcase(path, pattern)]
        return self.paths[max(fitting, key=len)] if fitting else self.body


class Edge:
    """The ASGI middleware that keeps the promises above."""

    def __init__(self, app: ASGIApp, *, limits: Limits, metrics: RequestMetrics) -> None:
        self._app = app
        self._limits = limits
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; anything that is not HTTP passes."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self._limits.of(scope["path"]), self._report)
        try:
            await exchange.run(self._app)
        finally:
            exchange.report()

    def _report(self, scope: Scope, exchange: _Exchange) -> None:
        """One count, one line, written by the time the caller has the answer.

        No path as asked, no query, no header, no body.
        """
        seconds = time.perf_counter() - exchange.began
        route = route_template(scope)
        self._metrics.observe(scope["method"], route, exchange.status, seconds)
        fields = {
            "request_id": exchange.id,
            "method": scope["method"],
            "route": route,
            "status": exchange.status,
            "milliseconds": round(seconds * 1000, 1),
            "bytes_in": exchange.received,
            "bytes_out": exchange.sent,
            "problem": scope["state"].get("problem"),
            "caller": scope["state"].get("caller"),
        }
        # A container's health check asks every few seconds; only an answer that is not well is worth a line.
        level = logging.DEBUG if route in PROBES and exchange.status < 400 else logging.INFO
        access.log(level, "request", extra={name: value for name, value in fields.items() if value is not None})


class _Exchange:
    """One request and its answer under way."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, limit: int, report: Callable[[Scope, _Exchange], None]
    ) -> None:
        headers = Headers(scope=scope)
        asked = headers.get("x-request-id", "")
        self.id = asked if _ID.fullmatch(asked) else secrets.token_hex(16)
        scope.setdefault("state", {})["request_id"] = self.id
        length = headers.get("content-length", "0")
        # Nineteen digits are more than any limit, and Python refuses to read thousands of them.
        self._announced = int(length[:19]) if length.isascii() and length.isdigit() else 0
        self._scope, self._receive, self._send, self._limit = scope, receive, send, limit
        self._report = report
        self.began = time.perf_counter()
        self.status = 500
        self.received = self.sent = 0
        self.started = self.reported = False

    async def run(self, app: ASGIApp) -> None:
        """Answer with `app`, or with a problem if the body is too large or the app fails."""
        if self._announced > self._limit:
            self._scope["state"]["problem"] = "body-too-large"
            response = problems.of_error(self._too_large(), self.id, local=False)
            response.headers["Connection"] = "close"  # the rest of the body is not read
            await response(self._scope, self._receive, self.send)
            return
        try:
            await app(self._scope, self.receive, self.send)
        except ClientDisconnect:  # half a request: nobody is there to be answered
            self.status = GONE
            self._scope["state"]["problem"] = "caller-gone"
        except Exception:
            log.exception("unexpected error", extra={"request_id": self.id})
            if self.started:
                raise  # the server then breaks the connection off: half an answer must not look whole
            self._scope["state"]["problem"] = "unexpected"
            await problems.unexpected(self.id)(self._scope, self._receive, self.send)

    async def receive(self) -> Message:
        """The app's view of the request: a body that outgrows the limit ends in an error."""
        message = await self._receive()
        self.received += len(message.get("body", b""))
        if self.received > self._limit:
            raise HTTPException(413) from self._too_large()
        return message

    async def send(self, message: Message) -> None:
        """The app's answer, with our headers on it; a route's own header wins."""
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-ID"] = self.id
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
            if self._scope["scheme"] == "https":
                headers.setdefault("Strict-Transport-Security", "max-age=31536000")
            if self._is_head_only(headers):
                self.report()
        self.sent += len(message.get("body", b""))
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.report()
        await self._send(message)

    def _is_head_only(self, headers: MutableHeaders) -> bool:
        """Whether the caller has the whole answer once it has the head."""
        return self.status in (204, 304) or self._scope["method"] == "HEAD" or headers.get("content-length") == "0"

    def report(self) -> None:
        """Count and log this exchange, once: before its last byte leaves, or where it broke off."""
        if not self.reported:
            self.reported = True
            self._report(self._scope, self)

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(f"The body is larger than {self._limit:,} bytes.", "Send less at a time.")
