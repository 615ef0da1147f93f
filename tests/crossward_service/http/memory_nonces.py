"""A nonce store for tests of one process; services keep theirs in the database."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from crossward_service.http.signing import SKEW, revoked


class MemoryNonces:
    """Nonces in memory, forgotten some time after they expire."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self.revoked: set[tuple[str, str]] = set()
        self._expires: dict[tuple[str, str], int] = {}
        self._next_sweep = clock() + SKEW

    def seen(self, party: str, key_id: str, nonce: str, expires: int) -> bool:
        """Remember a nonce; True if it was there already."""
        with self._lock:
            if (party, key_id) in self.revoked:
                raise revoked(party, key_id)
            self._sweep()
            known = (party, nonce) in self._expires
            self._expires.setdefault((party, nonce), expires)
            return known

    def _sweep(self) -> None:
        # Now and then, not at every request: a sweep looks at all of them.
        now = self._clock()
        if now >= self._next_sweep:
            self._expires = {key: until for key, until in self._expires.items() if until >= now}
            self._next_sweep = now + SKEW
