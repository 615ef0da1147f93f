"""Processes that must end by themselves, whoever their parent is by then."""

import os
import signal
import time
from collections.abc import Sequence


def alive(pid: int) -> bool:
    """Whether it runs: one that has ended and was not waited for does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for_end(pids: Sequence[int]) -> None:
    """Wait until all have ended; those that do not are killed, and the test fails."""
    end = time.monotonic() + 120
    try:
        while any(map(alive, pids)):
            assert time.monotonic() < end
            time.sleep(0.02)
    finally:
        for pid in filter(alive, pids):
            os.kill(pid, signal.SIGKILL)
