"""Times: seconds since 1970 where they are stored, ISO 8601 in UTC wherever anyone reads them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime


def _utc(time: datetime) -> datetime:
    return time.astimezone(UTC)


Time = Annotated[AwareDatetime, AfterValidator(_utc)]
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
