"""Named points at which a fault test may kill a service, for real, or halt it to cut its wires meanwhile."""

from __future__ import annotations

import os
import signal

VARIABLE = "CROSSWARD_CRASH_AT"
SIGNAL = "CROSSWARD_CRASH_SIGNAL"


def crash_point(name: str) -> None:
    """Die here, as if the power had gone, if the environment says so; or halt, if it names SIGSTOP."""
    if os.environ.get(VARIABLE) == name:
        os.kill(os.getpid(), signal.Signals[os.environ.get(SIGNAL, "SIGKILL")])
