"""What a service tells of itself: log lines that machines read, and counts and times of requests.

Logs are one JSON object per line on standard error. Labels of metrics are the route's template, the method and the
status: never a path as it was asked, an id or a name. Nothing that depends on records belongs into either; scraping is
not paid for.

A service of several processes answers a scrape from any of them, so all count into files of one folder, and the
answer adds the files up (prometheus_client's multiprocess mode).
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from crossward_service.ops.trace import trace

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Names the folder that processes count into; prometheus_client reads it when it is imported."""

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
BUCKETS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0)


class JsonLines(logging.Formatter):
    """Time, level, logger, message, then the fields the caller gave; of an error where it came from, not its words."""

    def format(self, record: logging.LogRecord) -> str:
        """One record as one line."""
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info and record.exc_info[1] is not None:
            fields["exception"] = trace(record.exc_info[1])
        return json.dumps(fields, default=str)


def configure_logs(level: str) -> None:
    """Send every logger's lines to standard error; called once, by the process that serves."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # Addresses with their queries at INFO, and a line at every look at the database's version.
    for chatty in ("httpx", "httpcore", "alembic"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


class RequestMetrics:
    """The request metrics of one app; services add their own to the same `registry`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self._count = Counter("crossward_requests", "Requests answered", labels, registry=self.registry)
        self._seconds = Histogram(
            "crossward_request_seconds", "Time to answer", labels[:2], registry=self.registry, buckets=BUCKETS
        )

    def gauge(self, name: str, meaning: str, labels: tuple[str, ...]) -> Gauge:
        """A number that every process sets to the same: the last one set counts."""
        return Gauge(name, meaning, labels, registry=self.registry, multiprocess_mode="mostrecent")

    def exposition(self) -> bytes:
        """Everything, as Prometheus reads it, over all processes."""
        if SHARED_FOLDER not in os.environ:
            return generate_latest(self.registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        known = method if method in METHODS else "other"
        self._count.labels(known, route, str(status)).inc()
        self._seconds.labels(known, route).observe(seconds)


def route_template(scope: Mapping[str, Any]) -> str:
    """The path template of the route that matched, prefixes of included routers and all; "unmatched" if none did."""
    # Newer FastAPI leaves the included prefixes out of scope["route"] and keeps the whole in its own context.
    context = scope.get("fastapi", {}).get("effective_route_context")
    template = getattr(context, "path", None) or getattr(scope.get("route"), "path", None)
    return str(template or "unmatched")
