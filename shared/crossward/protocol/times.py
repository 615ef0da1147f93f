"""Times: seconds since 1970 where they are stored, ISO 8601 in UTC wherever anyone reads them.

In a message a time has one spelling, 2026-01-31T12:00:00.000000Z: in UTC, with six decimals.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, PlainSerializer, WithJsonSchema

from crossward.values import refusal

SPELLING = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z$"


def _utc(time: datetime) -> datetime:
    return time.astimezone(UTC)


def _spelled(value: Any) -> Any:
    if not isinstance(value, datetime) and not (isinstance(value, str) and re.fullmatch(SPELLING[1:-1], value)):
        raise refusal("This is not how a time is written.", "Write it like 2026-01-31T12:00:00.000000Z.")
    return value


def spell(time: datetime) -> str:
    """A time as messages write it."""
    return time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


Time = Annotated[
    AwareDatetime,
    BeforeValidator(_spelled),
    AfterValidator(_utc),
    PlainSerializer(spell, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": SPELLING, "format": "date-time"}),
]
"""A time in a message or an answer."""


def moment(seconds: float) -> datetime:
    """A stored time."""
    return datetime.fromtimestamp(seconds, UTC)


def moment_or_none(seconds: float | None) -> datetime | None:
    """A stored time, if there is one."""
    return None if seconds is None else moment(seconds)


def time_text(seconds: float) -> str:
    """A stored time, for people."""
    return moment(seconds).strftime("%Y-%m-%d %H:%M:%S UTC")
