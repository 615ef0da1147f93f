"""Durations: "2h", "1d12h", "90m" or ISO 8601 ("PT2H", "P1DT12H"), written back in one form."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from crossward.values import said

LONGEST = timedelta(days=3660)

_UNITS = ("weeks", "days", "hours", "minutes", "seconds")
_SHORT = re.compile(r"(?:(\d{1,9})w)?(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?", re.ASCII)
_ISO = re.compile(r"P(?:(\d{1,9})W)?(?:(\d{1,9})D)?(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})S)?)?", re.ASCII)


def read_duration(value: Any) -> timedelta:
    """A duration above zero and of at most ten years. Months and years have no fixed length and are refused."""
    if isinstance(value, timedelta):
        length = value
    else:
        found = _ISO.fullmatch(value) or _SHORT.fullmatch(value) if isinstance(value, str) else None
        parts = {} if found is None else dict(zip(_UNITS, (int(part or 0) for part in found.groups()), strict=True))
        length = timedelta(**parts)
    if not timedelta(0) < length <= LONGEST:
        raise said(f"{value!r} is not a duration of up to ten years.", 'Write "2h", "1d12h" or ISO 8601, "PT2H".')
    return timedelta(seconds=int(length.total_seconds())) or timedelta(seconds=1)


def write_duration(length: timedelta) -> str:
    """ISO 8601 with days, hours, minutes and seconds, leaving out what is zero."""
    seconds = int(length.total_seconds())
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    date = f"{days}D" if days else ""
    time = "".join(f"{value}{unit}" for value, unit in ((hour, "H"), (minute, "M"), (second, "S")) if value)
    return f"P{date}T{time}" if time else f"P{date}"


Duration = Annotated[timedelta, BeforeValidator(read_duration), PlainSerializer(write_duration, return_type=str)]
