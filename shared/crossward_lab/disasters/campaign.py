"""Many histories, on all cores, and what came of them."""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace

from crossward.errors import InvalidSetting
from crossward_lab.disasters.history import Outcome, run, template
from crossward_lab.disasters.plan import LIES, TWINS, Kind
from crossward_lab.disasters.planted import FAULTS

AT_ONCE = 20
"""Histories that a process is given at a time; fewer where every process would not get as many."""

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Found:
    """A history that failed, and at which line of its story."""

    seed: int
    violation: str
    line: int


def tell(seed: int, planted: str | None = None) -> Outcome:
    """One history; every twentieth is told twice, with other records."""
    if planted is not None and planted not in FAULTS:
        raise InvalidSetting(f"There is no fault {planted!r} to plant.", f"Known are {', '.join(FAULTS)}.")
    for variant in (0, 1) if seed % TWINS == 0 else (0,):
        template(variant)  # what histories begin from is made without any fault
    with FAULTS[planted].planted() if planted else nullcontext():
        accounts_only = planted is not None and FAULTS[planted].accounts_only
        plan = FAULTS[planted].plan(seed) if planted is not None and accounts_only else None
        outcome = run(seed, plan=plan, accounts_only=accounts_only)
        lied = {kind.name.lower() for kind in LIES} & set(outcome.kinds)
        if seed % TWINS or not outcome.passed or lied or accounts_only:
            return outcome
        other = run(seed, variant=1)
    if outcome.seen == other.seen:
        return outcome
    pairs = zip((*outcome.seen, ""), (*other.seen, ""), strict=False)
    first = next(pair for pair in pairs if pair[0] != pair[1])
    words = f"what the coordinator sees hangs on the records: {first[0]!r}, or with other records {first[1]!r}"
    return replace(outcome, violations=(words,), story=(*outcome.story, f"VIOLATION: {words}"))


def campaign(seeds: Sequence[int], workers: int, planted: str | None = None) -> Iterator[Outcome]:
    """All these histories, as they end. Of those that pass, what they told is left out."""
    size = min(AT_ONCE, max(1, -(-len(seeds) // workers)))
    batches = [seeds[first : first + size] for first in range(0, len(seeds), size)]
    if workers == 1:
        for seed in seeds:
            yield _brief(tell(seed, planted))
        return
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(workers, mp_context=context, initializer=begin) as pool:
            for outcomes in pool.map(_tell_all, batches, [planted] * len(batches)):
                yield from outcomes
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def begin() -> None:
    """A worker ends with its parent. What every history begins from is there once, and is no garbage."""
    threading.Thread(target=_end_with_parent, name="disasters-parent", daemon=True).start()
    template(0)
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _tell_all(seeds: Sequence[int], planted: str | None) -> list[Outcome]:
    return [_brief(tell(seed, planted)) for seed in seeds]


def _brief(outcome: Outcome) -> Outcome:
    return replace(outcome, story=(), seen=()) if outcome.passed else replace(outcome, seen=())


def find(planted: str, most: int, workers: int, first: int = 1) -> Outcome | None:
    """The first history that finds a planted fault, of so many at most. Those that cannot are not told."""
    seeds = [seed for seed in range(first, first + most) if FAULTS[planted].may_show(seed)]
    for outcome in campaign(seeds, workers, planted):
        if not outcome.passed:
            return outcome
    return None


def kinds_of(outcome: Outcome) -> list[str]:
    """The disasters of a history, in words."""
    return [str(Kind[name.upper()]) for name in outcome.kinds]
