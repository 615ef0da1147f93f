"""What was started only a moment ago is waited for, and the person at the terminal is told."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from crossward.errors import NotReady

PATIENCE, PAUSE = 60.0, 0.5  # seconds


def wait_until_well(trouble: Callable[[], str], fix: str) -> None:
    """Ask until there is no trouble any more; it is said at once, and an error in the end."""
    until, told = time.monotonic() + PATIENCE, False
    while said := trouble():
        if time.monotonic() > until:
            raise NotReady(f"{said} That was so for {PATIENCE:g} s.", fix)
        if not told:
            print(f"{said} Waiting for it, up to {PATIENCE:g} s.", file=sys.stderr, flush=True)
            told = True
        time.sleep(PAUSE)


def wait_for_file(path: Path) -> None:
    """Wait for a file that a service writes when it starts for the first time."""

    def trouble() -> str:
        try:
            path.stat()
        except FileNotFoundError:
            return f"The file {path} is not there yet."
        except OSError:
            return ""  # reading it says what is wrong
        return ""

    wait_until_well(trouble, "Is the path right, and does the service run with --tokens?")
