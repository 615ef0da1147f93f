"""Named points at which a fault test may kill the coordinator, for real."""

from __future__ import annotations

import os
import signal

VARIABLE = "CROSSWARD_CRASH_AT"

POINTS = (
    "study-started",  # tasks are written, not committed
    "lease-granted",  # committed, not answered
    "before-store",  # a result was verified, nothing is written
    "after-store",  # all is written, not committed
    "after-commit",  # committed, not answered
    "aggregate-computed",  # the aggregate exists in memory only
)


def crash_point(name: str) -> None:
    """Die here, as if the power had gone, if the environment says so."""
    if os.environ.get(VARIABLE) == name:
        os.kill(os.getpid(), signal.SIGKILL)
