"""Work on several processes that end when nobody wants it any more: after Ctrl-C, an error, or their parent's death."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, TypeVar

Found = TypeVar("Found")


@contextmanager
def spread(work: Callable[..., Found], tasks: Iterable[tuple[Any, ...]], workers: int) -> Iterator[Iterator[Found]]:
    """work(*task) for every task, in order of completion; one worker is this process. An error ends all at once.

    Each process watches a pipe whose other end is held here alone: we close it, or the system does when this process
    is killed and can tell nobody.
    """
    if workers <= 1:
        yield (work(*task) for task in tasks)
        return
    # New processes rather than copies of this one: a terminal's progress bar has threads, which do not survive a fork.
    context = get_context("spawn")
    watched, held = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_end_with, initargs=(watched,))
    try:
        # A terminal sends Ctrl-C to all of us. It is for this process, from the others' first moment on.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            asked = [pool.submit(work, *task) for task in tasks]
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield (done.result() for done in as_completed(asked))
    except BaseException:
        held.close()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        held.close()
        watched.close()


def _end_with(watched: Connection) -> None:
    """In a new process: leave Ctrl-C to the parent, and end when the other end of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def wait() -> None:
        watched.poll(None)  # nothing is ever sent: all there is to read is the end
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
