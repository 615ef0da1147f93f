"""Whether a service can do its work: checks that anybody may ask for, as often as they like.

Checks write and wait. So one thread at a time looks, at most once a second; whoever asks meanwhile is told what it
finds, and whoever asks within the second after is told the same. One that hangs holds up no other thread.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

FRESH_SECONDS = 1.0
"""How long an answer counts."""
ANSWER_SECONDS = 20.0
"""How long a question waits for its answer: longer than a database may wait for a lock."""

log = logging.getLogger("crossward.readiness")


@dataclass(frozen=True)
class Check:
    """One thing a service needs to work: `run` raises if it is not there."""

    name: str
    run: Callable[[], object]


class Readiness:
    """The checks of a service, and what came of them last; `now` is a clock that only goes forward."""

    def __init__(self, checks: Sequence[Check], now: Callable[[], float]) -> None:
        self._checks, self._now = checks, now
        self._lock = threading.Lock()
        self._under_way = ""
        self._last: Future[str] = Future()
        self._last.set_result("")
        self._fresh_until = -math.inf

    async def missing(self, patience: float = ANSWER_SECONDS) -> str:
        """The name of what the service misses; empty if it is ready."""
        answer = asyncio.wrap_future(self._look())
        try:
            return await asyncio.wait_for(asyncio.shield(answer), patience)
        except TimeoutError:
            log.warning("%s is not ready: no answer in %g s", self._under_way, patience)
            return self._under_way

    def _look(self) -> Future[str]:
        """The look under way, or the last one while it counts, or else another."""
        with self._lock:
            if self._last.done() and self._now() >= self._fresh_until:
                look: Future[str] = Future()
                look.set_running_or_notify_cancel()  # who gives up waiting does not end it for the others
                threading.Thread(target=self._run, args=(look,), name="crossward-readiness", daemon=True).start()
                self._last = look
            return self._last

    def _run(self, look: Future[str]) -> None:
        missing = ""
        for check in self._checks:
            self._under_way = check.name
            try:
                check.run()
            except Exception as error:
                # The words may hold an address or a password: they go to the log only.
                log.warning("%s is not ready: %s", check.name, error)
                missing = check.name
                break
        self._fresh_until = self._now() + FRESH_SECONDS
        look.set_result(missing)
