"""The site's side of the connector: starts its process, believes nothing it says unseen, and ends it in time."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import crossward
import crossward_connector
from crossward.errors import InvalidData
from crossward_connector import requests, wire
from crossward_connector.requests import CSV, Request
from crossward_connector.tables import Fault, Form, Limits, Lines, Opened, Table
from crossward_site.data.beside import Pulse, ahead, apart, unwatched
from crossward_site.data.places import AnyPlace, Source, Sources

_ENVIRONMENT = {
    "ARROW_DEFAULT_MEMORY_POOL": "mimalloc",  # takes large pages, of which few need be touched
    "MIMALLOC_ARENA_RESERVE": "64MiB",  # of address space, which is limited
    "MIMALLOC_PURGE_DELAY": "1000",
    "MALLOC_ARENA_MAX": "2",
    "OMP_NUM_THREADS": "2",  # how many Arrow uses
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # one thread until the process is locked in
    "TZ": "UTC",
}
_BOOT = "import sys; sys.path[:0] = sys.argv[1:]; from crossward_connector.__main__ import main; main()"
_PIPE = 1 << 20
_LARGE, _MOST_ROOMS = 1 << 20, 8
_ENDING = 10.0
"""Seconds in which a process that has closed its answer must have ended."""
_AGAIN = "Ask again; if it happens again, export the table anew and report it."


class Connectors(Protocol):
    """How places are read."""

    def open(
        self,
        place: AnyPlace,
        wanted: Sequence[str] | None,
        *,
        lenient: bool = False,
        pulse: Pulse = unwatched,
    ) -> AbstractContextManager[Table]:
        """One reading of a place: these columns, or all (None).

        A strict one raises the first fault; a lenient one gathers them. `pulse` is called, in this thread, while it
        waits: what it raises ends the reading.
        """
        ...


@dataclass(frozen=True)
class InProcess:
    """The same readers in this thread, for simulations: while they read, nobody waits, so nothing has a pulse."""

    sources: Sources
    limits: Limits = field(default_factory=Limits)

    @contextmanager
    def open(
        self,
        place: AnyPlace,
        wanted: Sequence[str] | None,
        *,
        lenient: bool = False,
        pulse: Pulse = unwatched,
    ) -> Iterator[Table]:
        """One reading of a place."""
        with self.sources.open(place) as source:
            request = _request(source, wanted, lenient, self.limits)
            watch = _Watch(self.sources, place, source)
            with watch.errors(), closing(requests.begin(request, requests.connect(request))) as reading:
                yield _Here(source.where, reading, request.limits, watch)
            watch.check()


class _Here(Opened):
    """A reading in this process that looks, at its end, whether the file is still the same."""

    def __init__(self, where: str, reading: Any, limits: Limits, watch: _Watch) -> None:
        super().__init__(where, reading, limits)
        self._watch = watch

    def batches(self) -> Iterator[pa.RecordBatch]:
        with self._watch.errors():
            yield from super().batches()
        self._watch.check()


@dataclass(frozen=True)
class Processes:
    """Each reading in a process of its own, which has no key, no ledger and no way to them."""

    sources: Sources
    limits: Limits = field(default_factory=Limits)

    @contextmanager
    def open(
        self,
        place: AnyPlace,
        wanted: Sequence[str] | None,
        *,
        lenient: bool = False,
        pulse: Pulse = unwatched,
    ) -> Iterator[Table]:
        """One reading of a place. The process ends with the context, however that ends."""
        with self.sources.open(place) as source:
            request = _request(source, wanted, lenient, self.limits)
            watch = _Watch(self.sources, place, source)
            with closing(_Child(request)) as child:
                with watch.errors():
                    table = _Far(source.where, child, request.limits, watch, pulse)
                yield table


class _Watch:
    """Whether a place's files are still what they were when they were opened."""

    def __init__(self, sources: Sources, place: AnyPlace, source: Source) -> None:
        self._sources, self._place, self._source = sources, place, source

    def check(self) -> None:
        """Refuse what was read if they are not."""
        if self._sources.changed(self._place, self._source):
            cause = f"{self._source.where} changed while it was read."
            raise InvalidData(cause, "Wait until it is written, and ask again.")

    @contextmanager
    def errors(self) -> Iterator[None]:
        """A fault in a file that changed meanwhile is no fault of its own."""
        try:
            yield
        except InvalidData:
            self.check()
            raise


class _Far:
    """A table that another process reads."""

    def __init__(self, where: str, child: _Child, limits: Limits, watch: _Watch, pulse: Pulse) -> None:
        self.where = where
        self.faults: list[Fault] = []
        self.progress = 0.0
        self._child, self._limits, self._watch, self._pulse = child, limits, watch, pulse
        self._lines = Lines()
        self.form: Form
        self.form, self._schema = apart(child.form, pulse, child.kill)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The wanted columns, in order; every batch was looked through. The next is read while one is in use."""
        return ahead(self._batches(), self._pulse, self._child.kill)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        whole = False
        try:
            with self._watch.errors():
                rows = 0
                for batch, about in self._child.batches(self._schema):
                    progress, starts, lines = wire.place_of(about, batch.num_rows)
                    self._lines.extend(rows, batch.num_rows, starts, lines)
                    rows += batch.num_rows
                    if rows > self._limits.rows:
                        raise self._child.garbled()
                    self.progress = progress
                    if batch.num_rows:
                        yield batch
                self.faults[:] = self._child.faults
            self._watch.check()
            whole = True
            self.progress = 1.0
        except wire.Garbled:
            raise self._child.garbled() from None
        finally:
            if not whole:
                self._child.close()

    def line(self, row: int) -> str:
        """Where a row stands, in words."""
        return self._lines.line(row)


class _Child:
    """A connector's process. The time that counts is the time in which the site waits for it."""

    def __init__(self, request: Request) -> None:
        self._request = replace(request, parent=os.getpid())
        self._limits = request.limits
        self._waited = 0.0
        self.faults: list[Fault] = []
        self._rooms = _Rooms()
        self._process = _start(self._request.files)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._out = self._process.stdout.fileno()
        os.set_blocking(self._out, False)
        with suppress(OSError, AttributeError):
            fcntl.fcntl(self._out, fcntl.F_SETPIPE_SZ, _PIPE)
        with suppress(BrokenPipeError):
            self._process.stdin.write(self._request.to_json())
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN)

    def kill(self) -> None:
        """End it now, with whatever it started; a thread that waits for its words hears that it has ended."""
        process = self._process
        if process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            with suppress(ProcessLookupError, PermissionError):
                process.kill()

    def close(self) -> None:
        """End it, and wait until it is gone."""
        self.kill()
        process = self._process
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None and not pipe.closed:
                with suppress(OSError):
                    pipe.close()

    def form(self) -> tuple[Form, pa.Schema]:
        """What it found."""
        try:
            kind, data = self._frame(wire.MOST_JSON)
            if kind != wire.FORM:
                raise wire.Garbled
            form, schema = wire.form_of(wire.json_of(data), self._limits)
        except wire.Garbled:
            raise self.garbled() from None
        wanted = self._request.wanted
        if wanted is not None and not set(schema.names) <= set(wanted):
            raise self.garbled()
        return form, schema

    def batches(self, schema: pa.Schema) -> Iterator[tuple[pa.RecordBatch, Any]]:
        """Its batches, and what it says about each."""
        while True:
            kind, data = self._frame(wire.MOST_JSON)
            if kind == wire.TRAILER:
                self.faults = wire.faults_of(wire.json_of(data))
                self._rooms = _Rooms()
                return
            if kind != wire.PIECE:
                raise wire.Garbled
            about = wire.json_of(data)
            kind, data = self._frame(self._limits.message)
            if kind != wire.BATCH:
                raise wire.Garbled
            yield wire.batch_of(data, schema, self._limits), about

    def answer(self) -> Any:
        """What a probe found."""
        return wire.json_of(self._frame(wire.MOST_JSON)[1])

    def garbled(self) -> InvalidData:
        """The error of words that no connector of ours says; it is not asked again."""
        self.close()
        return InvalidData(f"{self._request.where}: the reader answers what it should not.", _AGAIN)

    def _frame(self, most: int) -> tuple[bytes, pa.Buffer]:
        silence = self._waited + self._limits.silence
        kind, size = wire.HEAD.unpack(self._exactly(wire.HEAD.size, silence))
        if kind == wire.ERROR and size <= wire.MOST_JSON:
            raise wire.error_of(wire.json_of(self._exactly(size, silence)))
        if size > most:
            raise wire.Garbled
        return kind, self._exactly(size, silence)

    def _exactly(self, size: int, silence: float) -> pa.Buffer:
        room = self._rooms.of(size)
        view, at = room.data, 0
        while at < size:
            try:
                count = os.readv(self._out, [view[at:]])
            except BlockingIOError:
                self._wait(silence)
                continue
            if not count:
                raise self._died()
            at += count
        return pa.py_buffer(room)

    def _wait(self, silence: float) -> None:
        where, limits = self._request.where, self._limits
        left = min(silence, limits.seconds) - self._waited
        began = time.monotonic()
        ready = self._poll.poll(max(left, 0) * 1000)
        self._waited += time.monotonic() - began
        if ready:
            return
        self.close()
        if limits.seconds <= silence:
            cause = f"{where}: reading took longer than {limits.seconds:g} seconds."
            raise InvalidData(
                cause, "Ask for less at once, or raise data_limits.seconds (or the connection's seconds)."
            )
        cause = f"{where}: nothing came for {limits.silence:g} seconds."
        raise InvalidData(cause, "Check that the disk or database answers, or raise data_limits.silence.")

    def _died(self) -> InvalidData:
        where, limits = self._request.where, self._limits
        try:
            code = self._process.wait(_ENDING)
        except subprocess.TimeoutExpired:  # it says no more, and stays
            return self.garbled()
        self.close()
        if code == -signal.SIGXCPU:
            cause = f"{where}: reading took too much of the processor's time."
            return InvalidData(cause, "Ask for less at once, or raise data_limits.seconds.")
        how = f"signal {-code}" if code < 0 else f"code {code}"
        cause = f"{where}: the reader broke down ({how})."
        fix = (
            "The table may be damaged, or need more memory than data_limits.memory "
            f"({limits.memory:,} bytes): export it anew or in smaller parts."
        )
        return InvalidData(cause, fix)


class _Rooms:
    """Memory for what is read, used again once nobody holds what came before: new pages must all be cleared first."""

    def __init__(self) -> None:
        self._rooms: list[tuple[NDArray[np.uint8], weakref.ref[NDArray[np.uint8]]]] = []

    def of(self, size: int) -> NDArray[np.uint8]:
        """So many bytes, for as long as anybody holds this array or a buffer of it (a slice of it does not count)."""
        if size < _LARGE:
            return np.empty(size, np.uint8)
        free = (at for at, (room, lent) in enumerate(self._rooms) if lent() is None and len(room) >= size)
        at = next(free, None)
        room = np.empty(size + size // 8, np.uint8) if at is None else self._rooms.pop(at)[0]
        piece = room[:size]
        self._rooms = [*self._rooms[1 - _MOST_ROOMS :], (room, weakref.ref(piece))]
        return piece


# -- starting ----------------------------------------------------------------------------------------------------------
_spawning = threading.Lock()
_spawner: ThreadPoolExecutor | None = None


def _start(files: Sequence[int]) -> subprocess.Popen[bytes]:
    """A process with an empty environment and nothing open but these files.

    The kernel ends it with the thread that started it. So one thread starts them all, and lives as long as the site.
    """
    global _spawner  # noqa: PLW0603
    with _spawning:
        if _spawner is None:
            _spawner = ThreadPoolExecutor(1, thread_name_prefix="connectors")
    return _spawner.submit(_popen, tuple(files)).result()


def _popen(files: tuple[int, ...]) -> subprocess.Popen[bytes]:
    folders = dict.fromkeys(str(Path(module.__file__ or "").parents[1]) for module in (crossward_connector, crossward))
    return subprocess.Popen(
        [sys.executable, "-I", "-B", "-X", "utf8", "-c", _BOOT, *folders],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=dict(_ENVIRONMENT),
        close_fds=True,
        pass_fds=files,
        start_new_session=True,
        bufsize=0,
    )


def _request(source: Source, wanted: Sequence[str] | None, lenient: bool, limits: Limits) -> Request:
    if source.seconds is not None:
        limits = replace(limits, seconds=source.seconds)
    return Request(
        source.kind,
        source.where,
        requests.names(wanted),
        lenient,
        limits,
        source.files,
        source.options,
        source.connection,
        source.query,
    )


@dataclass(frozen=True, slots=True)
class Protections:
    """What keeps a connector in (`in_force`), and what it could do all the same (`gaps`)."""

    in_force: tuple[str, ...]
    gaps: tuple[str, ...]

    def __str__(self) -> str:
        shown = "; ".join(self.in_force)
        return f"{shown}; but it could still: {', '.join(self.gaps)}" if self.gaps else shown


def protections(files: Sequence[Path] = (), limits: Limits | None = None) -> Protections:
    """Start a connector, and see which of these files it can open and what else it can do."""
    probe = tuple(str(path) for path in files) or (os.devnull,)
    with closing(_Child(Request(CSV, "The connector", limits=limits or Limits(), probe=probe))) as child:
        try:
            answer = child.answer()
            return Protections(tuple(map(str, answer["in_force"])), tuple(map(str, answer["can"])))
        except (wire.Garbled, KeyError, TypeError, json.JSONDecodeError):
            raise child.garbled() from None
