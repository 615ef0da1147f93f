"""Named points at which a fault test may kill a service, for real, or halt it to cut its wires meanwhile."""

from __future__ import annotations

import os
import signal
import threading

VARIABLE = "CROSSWARD_CRASH_AT"
SIGNAL = "CROSSWARD_CRASH_SIGNAL"


def crash_point(name: str) -> None:
    """Die here, as if the power had gone, if the environment says so; or halt, if it names SIGSTOP.

    The signal goes to this thread: one to the process may reach another first, and this one would go on meanwhile.
    """
    if os.environ.get(VARIABLE) == name:
        signal.pthread_kill(threading.get_ident(), signal.Signals[os.environ.get(SIGNAL, "SIGKILL")])
