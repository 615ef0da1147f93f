"""Work on blocks of rows, on as many threads as BLAS may use and never more.

A block that stays in a core's cache is too small for BLAS to share between threads, so large problems turn that
around: BLAS is held to one thread and the blocks are shared instead. Arithmetic on a block releases the interpreter.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

BLOCK_BYTES = 3 << 19
"""Rows are visited in blocks that stay in a core's cache while a gradient uses them twice. Smaller ones have threads
wait for their turn in Python."""

THREADED_BYTES = 4 << 20
"""Below this a pass takes so little time that handing blocks to threads takes as long: BLAS then shares out whole
products instead. No later, for its threads wait for one another at each product, which is long on a busy machine."""

_HEAD_START = 2e-4
"""Seconds the calling thread waits for another to start: one that wakes while others compute gets no turn in Python."""


class Workers:
    """A fixed number of threads, the calling one among them."""

    def __init__(self, pool: ThreadPoolExecutor | None, count: int) -> None:
        self._pool = pool
        self.count = count

    def run(self, work: Callable[[int], object], blocks: int) -> None:
        """work(0), ..., work(blocks - 1), each once, in no particular order."""
        if self._pool is None or blocks == 1:
            for block in range(blocks):
                work(block)
            return
        todo = iter(range(blocks))  # one iterator for all threads: who is held up by others takes fewer blocks
        running = threading.Semaphore(0)

        def drain() -> None:
            running.release()
            with np.errstate(all="ignore"):  # numpy keeps this setting per thread
                for block in todo:
                    work(block)

        others = [self._pool.submit(drain) for _ in range(self.count - 1)]
        for _ in others:
            running.acquire(timeout=_HEAD_START)
        drain()
        for other in others:
            other.result()


ALONE = Workers(None, 1)


def is_threaded(size: int) -> bool:
    """Whether a matrix of `size` bytes is worth threads of our own."""
    return size >= THREADED_BYTES


@contextmanager
def workers(size: int) -> Iterator[Workers]:
    """Workers for a matrix of `size` bytes, with BLAS held to one thread while they are several."""
    if not is_threaded(size):
        yield ALONE
        return
    with _one_blas_thread() as allowed:
        if allowed == 1:
            yield ALONE
            return
        with ThreadPoolExecutor(allowed - 1) as pool:
            yield Workers(pool, allowed)


@cache
def _blas() -> Any:
    return ThreadpoolController().select(user_api="blas")  # finding the libraries takes longer than a small fit


_lock = threading.Lock()
_holders = 0
_allowed = 1
_held: Any = None


@contextmanager
def _one_blas_thread() -> Iterator[int]:
    """Yield the threads BLAS was allowed. The setting is the process's, so the last fit to finish restores it."""
    global _holders, _allowed, _held  # noqa: PLW0603
    with _lock:
        if _holders == 0:
            libraries = _blas().lib_controllers
            _allowed = min((library.num_threads or 1 for library in libraries), default=1)
            _held = _blas().limit(limits=1)
        _holders += 1
        allowed = _allowed
    try:
        yield allowed
    finally:
        with _lock:
            _holders -= 1
            if _holders == 0:
                _held.restore_original_limits()
