"""Runs a benchmark: what is not in the store is measured on all cores, one BLAS thread each, and stored as it comes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import groupby

from threadpoolctl import threadpool_limits

from crossward.errors import InvalidSetting
from crossward.learning.processes import spread
from crossward_lab.bench.catalogue import settings
from crossward_lab.bench.settings import Choice, Outcome, Run, Setting
from crossward_lab.bench.store import Store, require_intact

Progress = Callable[[int, int], None]
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
BATCH = 8
"""Runs that are sent to a process together: enough that sending them takes no time, few enough to lose on Ctrl-C."""


@dataclass(frozen=True, slots=True)
class MeasuredSetting:
    """Everything that was asked for, with how long it took and how much of it was new."""

    setting: Setting
    outcomes: tuple[tuple[Run, Outcome], ...]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """The settings of a data set, measured."""

    dataset: str
    measured: tuple[MeasuredSetting, ...]
    seconds: float
    fresh_runs: int


def benchmark(
    dataset: str,
    choice: Choice,
    store: Store,
    *,
    only: Iterable[str] | None = None,
    workers: int | None = None,
    progress: Progress = lambda done, total: None,
) -> Benchmark:
    """Measure every setting of a data set, or `only` those named."""
    start = time.perf_counter()
    chosen = [setting for setting in settings(dataset) if only is None or setting.name in set(only)]
    wanted = {setting.name: list(setting.runs(choice)) for setting in chosen}
    if not any(wanted.values()):
        raise InvalidSetting("Nothing fits what was asked for.", _choices(dataset))
    missing = [run for runs in wanted.values() for run in runs if store.get(run) is None]
    total = sum(map(len, wanted.values()))
    done = total - len(missing)
    progress(done, total)
    if missing:
        require_intact(dataset)
    with closing(_measure(missing, workers or os.cpu_count() or 1)) as batches:  # Ctrl-C ends the workers here
        for batch in batches:
            for run, outcome in batch:
                store.add(run, outcome)
            done += len(batch)
            progress(done, total)
    found = tuple(MeasuredSetting(setting, tuple(_found(store, wanted[setting.name]))) for setting in chosen)
    return Benchmark(dataset, found, time.perf_counter() - start, len(missing))


def _choices(dataset: str) -> str:
    listed = settings(dataset)
    methods = dict.fromkeys(m for setting in listed for some in setting.methods.values() for m in some)
    return f"Settings: {'; '.join(setting.name for setting in listed)}. Methods: {'; '.join(methods)}."


def measure_batch(batch: list[Run]) -> list[tuple[Run, Outcome]]:
    """Some runs of one data set, in this process."""
    named = {setting.name: setting for setting in settings(batch[0].dataset)}
    with threadpool_limits(1):
        return [(run, named[run.setting].measure(run)) for run in batch]


def _measure(runs: list[Run], workers: int) -> Generator[list[tuple[Run, Outcome]]]:
    batches = list(_batches(runs))
    if workers == 1 or len(batches) <= 1:
        yield from map(measure_batch, batches)
        return
    with _one_thread_each(), spread(measure_batch, [(batch,) for batch in batches], workers) as found:
        yield from found


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes that start here give their libraries one thread, which these read as they start."""
    held = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in held.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _batches(runs: list[Run]) -> Iterator[list[Run]]:
    """Runs of one setting and repeat together: they share a split."""
    for _, together in groupby(runs, key=lambda run: (run.setting, run.repeat)):
        shared = list(together)
        for start in range(0, len(shared), BATCH):
            yield shared[start : start + BATCH]


def _found(store: Store, runs: list[Run]) -> Iterator[tuple[Run, Outcome]]:
    for run in runs:
        outcome = store.get(run)
        assert outcome is not None
        yield run, outcome
