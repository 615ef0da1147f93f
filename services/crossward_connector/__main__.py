"""The connector's process: one request in, one table out.

Its own words are all that leaves it: an exception's text may quote a cell, and is never sent.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
from typing import Any

from crossward.errors import CrosswardError, InvalidData
from crossward_connector import requests, wire
from crossward_connector.requests import POSTGRES, SQLITE, Request
from crossward_connector.sandbox import LOOK_UP, Sandbox
from crossward_connector.tables import parts

_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")


class _WithoutPandas:
    """Arrow looks for pandas at its first array: large, and of no use here."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def main() -> None:
    """Read the request, load what it needs, give up the rest, read the table."""
    request = Request.from_json(_whole(0))
    sys.meta_path.insert(0, _WithoutPandas())
    requests.load(request.kind)
    gc.freeze()
    try:
        database, sandbox = _prepare(request)
        if request.probe:
            wire.send_json(_write, wire.TRAILER, {"in_force": sandbox.in_force, "can": _probe(request.probe)})
            return
        _read(request, database)
    except CrosswardError as error:
        wire.send_error(_write, error)
    except MemoryError:
        wire.send_error(_write, _too_much(request))
    except BrokenPipeError:  # the site has heard enough
        pass
    except Exception as error:  # its text may quote a cell
        words = f"{request.where}: the reader failed ({type(error).__name__})."
        wire.send_error(_write, InvalidData(words, "Export the table again; if that does not help, report it."))


def _prepare(request: Request) -> tuple[Any, Sandbox]:
    limits, sandbox = request.limits, Sandbox()
    sandbox.enter(request.parent, limits.memory, limits.seconds, request.files)
    database = None
    if request.kind == POSTGRES:
        sandbox.only_read([*LOOK_UP, *(request.connection[key] for key in _FILES if key in request.connection)], True)
        database = requests.connect(request)
    elif request.kind == SQLITE:
        sandbox.only_read([os.path.dirname(request.connection["path"])])
        database = requests.connect(request)
    sandbox.leave(request.parent)
    return database, sandbox


def _read(request: Request, database: Any) -> None:
    reading = requests.begin(request, database)
    try:
        wire.send_form(_write, reading.form, reading.schema)
        pieces = wire.Pieces(_write, reading.schema)
        for piece in reading.pieces():
            for part in parts(piece, request.limits, reading.faults):
                pieces.send(part)
        wire.send_trailer(_write, reading.faults.all())
    finally:
        reading.close()


def _too_much(request: Request) -> InvalidData:
    return InvalidData(
        f"{request.where}: reading it takes more than {request.limits.memory:,} bytes of memory.",
        "Export fewer columns or in smaller parts, or raise data_limits.memory.",
    )


def _whole(descriptor: int) -> bytes:
    parts = []
    while part := os.read(descriptor, 1 << 16):
        parts.append(part)
    return b"".join(parts)


def _write(data: Any) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def _probe(paths: tuple[str, ...]) -> list[str]:
    """What this process can still do of what it must not: for the site's doctor, and for tests."""

    def opens(path: str) -> None:
        os.close(os.open(path, os.O_RDONLY))

    def connects() -> None:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM).close()

    def starts() -> None:
        if not os.fork():
            os._exit(0)

    attempts: dict[str, Any] = {path: lambda path=path: opens(path) for path in paths}
    attempts |= {"socket": connects, "fork": starts, "signal": lambda: os.kill(os.getppid(), 0)}
    attempts |= {"write": lambda: os.close(os.open("/tmp/crossward-probe", os.O_CREAT | os.O_WRONLY))}
    can = []
    for name, attempt in attempts.items():
        try:
            attempt()
            can.append(name)
        except OSError:
            pass
    return can


if __name__ == "__main__":
    main()
    os._exit(0)
