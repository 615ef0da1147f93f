"""The coordinator and a hospital's own site, as a person with a token reaches them.

What was started only a moment ago is waited for, and the person at the terminal is told.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from crossward.errors import NotReady, Unreachable

if TYPE_CHECKING:
    from crossward.client import Client, SiteClient

LONGEST_WAIT, PAUSE = 60.0, 0.5  # seconds


def at_coordinator(url: str, token: str, ca: Path | None) -> Client:
    """The coordinator, as whoever holds the token."""
    from crossward.client import Client

    return Client(url, token, ca=ca)


def at_site(url: str, token: str, ca: Path | None) -> SiteClient:
    """The site, as whoever holds the token."""
    from crossward.client import SiteClient

    return SiteClient(url, token, ca=ca)


def wait_for_service(url: str, ca: Path | None) -> None:
    """Wait until a service answers: whoever sends what must not be sent twice asks here first."""
    from crossward.client.http import NEVER, HttpClient

    with HttpClient(url, ca=ca, retry=NEVER) as client:

        def trouble() -> str:
            try:
                client.get("/healthz")
            except (Unreachable, NotReady) as error:
                return error.cause
            return ""

        wait_until_well(trouble, "Is the address right (--site), and does the service run? See its log.")


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


def wait_until_well(trouble: Callable[[], str], fix: str) -> None:
    """Ask until there is no trouble any more; it is said at once, and an error in the end."""
    until, announced = time.monotonic() + LONGEST_WAIT, False
    while cause := trouble():
        if time.monotonic() > until:
            raise NotReady(f"{cause} That was so for {LONGEST_WAIT:g} s.", fix)
        if not announced:
            print(f"{cause} Waiting for it, up to {LONGEST_WAIT:g} s.", file=sys.stderr, flush=True)
            announced = True
        time.sleep(PAUSE)
