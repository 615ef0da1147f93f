"""Programs of ours as processes of their own, forked from one that has imported everything: they start at once.

`Forked` is `subprocess.Popen` for `[sys.executable, "-m", module, ...]` and `[sys.executable, file, ...]`: a process to
be waited for, stopped and killed, with its own environment, streams and working directory. A test that is about a
fresh interpreter, what it imports, its options or its hashes, needs `subprocess.Popen` itself.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import io
import os
import pickle
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

LIBRARIES = ("cryptography.x509", "httpx", "numpy", "pydantic", "rich.console", "rich.progress", "rich.table")
LIBRARIES += ("scipy.special", "scipy.optimize", "typer.rich_utils", "yaml")
"""What everybody who installs the command line has."""

OURS = ("crossward_cli.main", "crossward_cli.services", "crossward_cli.site", "crossward_cli.studies")
OURS += ("crossward_coordinator.main", "crossward_site.main", "crossward_source.settings", "crossward_target.settings")
OURS += ("crossward_lab.demo.federation", "crossward_lab.disasters.campaign", "uvicorn.lifespan.on", "psycopg")
"""What a service, or a command beside it, imports."""

PRELOADED = {"libraries": LIBRARIES, "all": (*LIBRARIES, *OURS)}
# Read while a module is imported: whoever is forked has an environment of its own, and that comes too late for them.
LOOKS = ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "TTY_COMPATIBLE", "TERMINAL_WIDTH", "COLUMNS")
HASHES = "7"  # other hashes than in the process that runs the tests, and the same in all that are forked
HEAD = 8  # bytes of a number


class Nursery:
    """The process that others are forked from."""

    def __init__(self, preloaded: str) -> None:
        environment = {name: value for name, value in os.environ.items() if name not in LOOKS}
        environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # a process with threads is not forked
        environment |= {"PYTHONHASHSEED": HASHES}
        self._channel, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, preloaded, str(theirs.fileno())],
                env=environment,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self._lock = threading.Lock()

    def fork(self, order: dict[str, Any], streams: list[int]) -> tuple[int, int]:
        """A new process: its number, and a pipe that its status comes through once it has ended."""
        status, theirs = os.pipe()
        data = pickle.dumps(order)
        try:
            with self._lock:
                socket.send_fds(self._channel, [len(data).to_bytes(HEAD, "big")], [*streams, theirs])
                self._channel.sendall(data)
                answer = _received(self._channel, HEAD)
        finally:
            os.close(theirs)
        return int.from_bytes(answer, "big"), status

    def close(self) -> None:
        """End it; what was forked goes on."""
        self._channel.close()
        self._process.wait(120)


@functools.cache
def nursery(preloaded: str = "all") -> Nursery:
    """The one of this process, started when it is first needed."""
    made = Nursery(preloaded)
    atexit.register(made.close)
    return made


class Forked(subprocess.Popen):  # type: ignore[type-arg]
    """A program as a process that is forked. `preexec_fn` is a function of a module: it is sent by its name."""

    preloaded = "all"

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest):  # type: ignore[no-untyped-def]
        shell, pipes = rest[2], rest[3:9]
        words = [os.fspath(word) for word in args]
        if words[0] != sys.executable or words[1] in ("-c", "-I") or pass_fds or shell:
            raise ValueError(f"Only a program of ours is forked, with no more than its three streams: {words}")
        order = {"words": words[1:], "cwd": os.fspath(cwd or Path.cwd()), "before": preexec_fn}
        order["environment"] = dict(os.environ if env is None else env)
        ends = pipes[0], pipes[3], pipes[5]  # it reads the first, and writes to the others
        streams = [own if end == -1 else end for own, end in enumerate(ends)]
        try:
            self.pid, self._status = nursery(self.preloaded).fork(order, streams)
            self._child_created = True
        finally:
            self._close_pipe_fds(*pipes)

    def _status_now(self, wait: bool) -> int | None:
        """How it ended, as `waitpid` says it; None while it runs."""
        if not wait and not select.select([self._status], [], [], 0)[0]:
            return None
        told = os.read(self._status, HEAD)
        os.close(self._status)
        return int.from_bytes(told, "big") if told else signal.SIGKILL  # nobody is there who could tell

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        status = self._status_now(not wait_flags & os.WNOHANG)
        return (0, 0) if status is None else (self.pid, status)

    def _internal_poll(self, _deadstate: int | None = None, **_: Any) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(False):
            try:
                if self.returncode is None and (status := self._status_now(False)) is not None:
                    self._handle_exitstatus(status)
            finally:
                self._waitpid_lock.release()
        return self.returncode


class ForkedEarly(Forked):
    """The same, from a process that has imported nothing of ours, nor what only services or the laboratory need."""

    preloaded = "libraries"


def run(command: list[Any], *, kind: type[subprocess.Popen] = Forked, timeout: float = 600.0, **options: Any) -> Any:
    """`subprocess.run` of such a program, with its output as text."""
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
    with kind([str(word) for word in command], **given) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def fork_services(patch: Any) -> None:
    """Services that this process starts are forked from now on, until the patch is undone."""
    from crossward_lab.demo import processes  # noqa: PLC0415 - other tests need no services

    names = {name: getattr(subprocess, name) for name in ("PIPE", "STDOUT", "TimeoutExpired")}
    patch.setattr(processes, "subprocess", SimpleNamespace(Popen=Forked, **names))


# -- the process that others are forked from --------------------------------------------------------------------------
def _received(channel: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = channel.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def _next_order(channel: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork for each order; returns in the new process alone. Ends with whoever sends orders."""
    statuses: dict[int, int] = {}

    def reap(*_: Any) -> None:
        while statuses:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            pipe = statuses.pop(pid)
            with suppress(BrokenPipeError):
                os.write(pipe, status.to_bytes(HEAD, "big"))
            os.close(pipe)

    signal.signal(signal.SIGCHLD, reap)
    while True:
        head, pipes, _, _ = socket.recv_fds(channel, HEAD, 4)
        if not head:
            os._exit(0)
        head += _received(channel, HEAD - len(head))
        order = pickle.loads(_received(channel, int.from_bytes(head, "big")))
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        pid = os.fork()
        if not pid:
            for pipe in (*statuses.values(), pipes.pop()):
                os.close(pipe)
            return order, pipes
        statuses[pid] = pipes.pop()
        for pipe in pipes:
            os.close(pipe)
        channel.sendall(pid.to_bytes(HEAD, "big"))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])


def _become(order: dict[str, Any], streams: list[int]) -> None:
    """Be the program: what Python does at its start, without the imports."""
    for own, stream in enumerate(streams):
        os.dup2(stream, own)
        os.close(stream)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["cwd"])
    if order["before"]:
        order["before"]()
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = _output(1, "strict", line_buffering=False)
    sys.stderr = sys.__stderr__ = _output(2, "backslashreplace", line_buffering=True)


def _output(stream: int, errors: str, *, line_buffering: bool) -> io.TextIOWrapper:
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    file = open(stream, "wb", buffering=0 if at_once else -1, closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(file, encoding="utf-8", errors=errors, line_buffering=line_buffering, write_through=at_once)


def _program(words: list[str]) -> None:
    """The module or file, as the interpreter would run it."""
    before = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place and place not in sys.path]
    for place in before:
        if (custom := Path(place, "sitecustomize.py")).is_file():
            runpy.run_path(str(custom))
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path[:1] = [os.getcwd(), *before]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path[:1] = [str(Path(words[0]).parent), *before]
        runpy.run_path(words[0], run_name="__main__")


def _end(code: Any) -> None:
    """End as the interpreter does, but for freeing every module: that would first copy it."""
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit((code or 0) & 0xFF)


def _main() -> None:
    channel = socket.socket(fileno=int(sys.argv[2]))
    for module in PRELOADED[sys.argv[1]]:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # nor is it copied, to be looked through for garbage
    order, streams = _next_order(channel)
    channel.close()
    _become(order, streams)
    try:
        _program(order["words"])
    except SystemExit as end:
        _end(end.code)
    _end(0)


if __name__ == "__main__":
    _main()
