"""A process that ends with the one that started it, however that ended.

The parent alone holds the other end of a pipe. When the parent is killed it can tell nobody, but the operating system
closes its end.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress


def end_with_parent(pipe: int, seconds: float) -> None:
    """Stop as by SIGTERM once the other end of a pipe is closed, and `seconds` later at the latest.

    Called first of all in a process: until it handles SIGTERM, it ends at once.
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    threading.Thread(target=_wait, args=(pipe, seconds), name="crossward-parent", daemon=True).start()


def _wait(pipe: int, seconds: float) -> None:
    with suppress(OSError):
        while os.read(pipe, 4096):
            pass
    # The operating system ends the process then: whatever its own threads wait for, none of them is needed.
    signal.setitimer(signal.ITIMER_REAL, seconds)
    os.kill(os.getpid(), signal.SIGTERM)
