"""A second thread for a stream: the next batch is read while the last is worked on. A few wait, no more.

What comes from outside may be long in coming, or never come. Whoever waits for it looks up every `BEAT` seconds and
calls a `pulse`, which raises where it is wanted no more; then what is under way in the other thread is cut.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Self, TypeVar

T = TypeVar("T")

WAITING = 2
BEAT = 0.2

Pulse = Callable[[], None]
"""Called while something takes long; it raises where that is to end."""


def unwatched() -> None:
    """The pulse of what nobody ends."""


class Beside:
    """Does one thing after the other beside this thread; what went wrong is raised with the next, or at the end.

    Nothing is done after what went wrong: what follows relies on it.
    """

    def __init__(self) -> None:
        self._thread, self._waiting = ThreadPoolExecutor(1, "beside"), deque[Future[None]]()
        self._failed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(cancel_futures=True)

    def do(self, work: Callable[[], None]) -> None:
        """Have this done, after what was asked before."""
        self._waiting.append(self._thread.submit(self._do, work))
        while len(self._waiting) > WAITING:
            self._waiting.popleft().result()

    def _do(self, work: Callable[[], None]) -> None:
        if self._failed:
            return
        try:
            work()
        except BaseException:
            self._failed = True
            raise

    def finish(self) -> None:
        """Wait until all is done."""
        while self._waiting:
            self._waiting.popleft().result()


def ahead(items: Iterator[T], pulse: Pulse | None = None, cut: Callable[[], None] = unwatched) -> Iterator[T]:
    """The same items, each fetched while the one before is in use. `cut` ends a fetching that is wanted no more."""
    end = object()
    with _thread("ahead", cut) as thread:
        waiting = deque(thread.submit(next, items, end) for _ in range(WAITING))
        while (item := _result(waiting.popleft(), pulse)) is not end:
            waiting.append(thread.submit(next, items, end))
            yield item  # type: ignore[misc]


def apart(work: Callable[[], T], pulse: Pulse, cut: Callable[[], None]) -> T:
    """What some work gives that may take long, done in another thread. `cut` ends it if it is wanted no more."""
    with _thread("apart", cut) as thread:
        return _result(thread.submit(work), pulse)


@contextmanager
def _thread(name: str, cut: Callable[[], None]) -> Iterator[ThreadPoolExecutor]:
    thread = ThreadPoolExecutor(1, name)
    try:
        yield thread
    except BaseException:  # also a stream that is left before its end
        cut()
        raise
    finally:
        thread.shutdown(cancel_futures=True)


def _result(future: Future[T], pulse: Pulse | None) -> T:
    while pulse is not None and not wait([future], BEAT).done:
        pulse()
    return future.result()
