"""Virtual time. Nobody waits: when all are waiting, it is later.

Services run unchanged. Their coroutines are tasks of an event loop whose clock is a number. Their threads, and what
FastAPI would give to a thread, are greenlets in it: code that blocks gives its turn away where it would have waited.
Everything happens in one thread, in an order that depends on nothing but the delays that were asked for.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import anyio.to_thread
from greenlet import getcurrent, greenlet

T = TypeVar("T")


STANDSTILL = 100_000
"""So many turns in which no time passes, and it never will."""


class Stuck(Exception):
    """Nothing will ever happen: everybody waits, or somebody is busy for ever and no time passes."""


class _NoFiles:
    """Where the loop would wait for files and sockets, time passes instead."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._turns = 0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Stuck("everybody waits, and nothing will ever happen")
        self._turns = 0 if timeout else self._turns + 1
        if self._turns > STANDSTILL:
            self._turns = 0  # what ends now must have its turns
            raise Stuck("somebody is busy for ever, and no time passes")
        self._loop.pass_time(timeout)
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop without files, whose time passes only when there is nothing to do."""

    def __init__(self) -> None:
        super().__init__()
        self._virtual = 0.0
        self._selector = _NoFiles(self)
        self.pass_time(0.0)

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self._virtual

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self._virtual += seconds
        # What is due at this very moment is due: the next later number must be another, however late it is.
        self._clock_resolution = math.ulp(self._virtual)

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody calls from another thread."""


async def blocking(function: Callable[..., T], *args: Any) -> T:
    """Run code that blocks: where it waits (`wait`), this coroutine does."""
    code: Any = greenlet(function)
    code.gr_context = contextvars.copy_context()
    waits_for = code.switch(*args)
    while not code.dead:
        try:
            value = await waits_for
        except BaseException as error:  # also that it is cancelled: the code must unwind
            waits_for = code.throw(error)
        else:
            waits_for = code.switch(value)
    result: T = waits_for
    return result


def wait(awaitable: Awaitable[T]) -> T:
    """Wait inside code that runs by `blocking`."""
    parent = getcurrent().parent
    if parent is None:
        raise AssertionError("only code that runs by `blocking` can wait")
    value: T = parent.switch(awaitable)
    return value


async def _inline(
    func: Callable[..., T],
    *args: Any,
    abandon_on_cancel: bool = False,
    cancellable: bool | None = None,
    limiter: Any = None,
) -> T:
    """`anyio.to_thread.run_sync` without a thread."""
    return await blocking(func, *args)


@contextmanager
def without_threads() -> Iterator[None]:
    """What FastAPI and the services would give to a thread runs by `blocking` meanwhile."""
    before = anyio.to_thread.run_sync
    anyio.to_thread.run_sync = cast(Any, _inline)
    try:
        yield
    finally:
        anyio.to_thread.run_sync = before


class VirtualFlag:
    """A `Flag` in virtual time."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def is_set(self) -> bool:
        """Whether somebody has set it."""
        return self._event.is_set()

    def set(self) -> None:
        """Let all go on that wait for it."""
        self._event.set()

    def clear(self) -> None:
        """From now on it must be set again."""
        self._event.clear()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, or for so many seconds; whether it is."""
        if not self._event.is_set():
            wait(self._set_within(timeout))
        return self._event.is_set()

    async def _set_within(self, timeout: float | None) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._event.wait()
        except TimeoutError:
            return
