"""Log lines that machines read: one JSON object per line on standard error."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}


class JsonLines(logging.Formatter):
    """Time, level, logger, message, then the fields the caller gave."""

    def format(self, record: logging.LogRecord) -> str:
        """One record as one line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure(level: str) -> None:
    """Send every logger's lines to standard error; called once, by the process that serves."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # Addresses with their queries at INFO, and a line at every look at the database's version.
    for chatty in ("httpx", "httpcore", "alembic"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
