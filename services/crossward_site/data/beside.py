"""A second thread for a stream: the next batch is read while the last is worked on. A few wait, no more."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self, TypeVar

T = TypeVar("T")

WAITING = 2


class Beside:
    """Does one thing after the other beside this thread; what went wrong is raised with the next, or at the end."""

    def __init__(self) -> None:
        self._thread, self._waiting = ThreadPoolExecutor(1, "beside"), deque[Future[None]]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(cancel_futures=True)

    def do(self, work: Callable[[], None]) -> None:
        """Have this done, after what was asked before."""
        self._waiting.append(self._thread.submit(work))
        while len(self._waiting) > WAITING:
            self._waiting.popleft().result()

    def finish(self) -> None:
        """Wait until all is done."""
        while self._waiting:
            self._waiting.popleft().result()


def ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items, each fetched while the one before is in use."""
    end = object()
    with ThreadPoolExecutor(1, "ahead") as thread:
        waiting = deque(thread.submit(next, items, end) for _ in range(WAITING))
        while (item := waiting.popleft().result()) is not end:
            waiting.append(thread.submit(next, items, end))
            yield item  # type: ignore[misc]
