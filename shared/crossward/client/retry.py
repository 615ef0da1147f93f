"""When to ask again, and how long to wait before: exponential backoff with full jitter; Retry-After where given."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

STATUSES = frozenset({429, 502, 503, 504})
IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})


@dataclass(frozen=True)
class Retry:
    """How often and how patiently to ask again.

    Before attempt k + 1 the wait is uniform on [0, min(`longest`, `first` 2^(k-1))] seconds: sites that lost the same
    coordinator at the same moment then do not come back at the same moment. A server's Retry-After is a floor, up to
    `patience`. The jitter is no secret; it is drawn from `uniform` so that a test can fix it.
    """

    attempts: int = 5
    first: float = 0.5
    longest: float = 30.0
    patience: float = 120.0
    sleep: Callable[[float], None] = time.sleep
    uniform: Callable[[float, float], float] = random.uniform
    clock: Callable[[], float] = time.time

    def pause(self, attempt: int, headers: Mapping[str, str] | None = None) -> float:
        """The seconds to wait after attempt number `attempt` (from 1) failed."""
        jittered = self.uniform(0.0, min(self.longest, self.first * 2.0 ** (attempt - 1)))
        asked = self._retry_after(headers["retry-after"]) if headers and "retry-after" in headers else 0.0
        return max(jittered, min(asked, self.patience))

    def _retry_after(self, value: str) -> float:
        """Seconds or an HTTP date; 0 for anything else."""
        try:
            return (
                float(value)
                if value.isascii() and value.isdigit()
                else parsedate_to_datetime(value).timestamp() - self.clock()
            )
        except (ValueError, OverflowError):
            return 0.0


NEVER = Retry(attempts=1)
