"""Where an unexpected error came from, for the log, without its words: they may quote a record."""

from __future__ import annotations

import traceback
from pathlib import Path

DEEPEST = 8


def trace(error: BaseException) -> str:
    """The kind of an error and its innermost calls: `ValueError at fit (plr.py:12) < train (work.py:34)`."""
    calls = reversed(traceback.extract_tb(error.__traceback__)[-DEEPEST:])
    return f"{type(error).__name__} at " + " < ".join(f"{c.name} ({Path(c.filename).name}:{c.lineno})" for c in calls)
