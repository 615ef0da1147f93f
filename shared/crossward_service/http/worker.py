"""How a worker of a service begins: `python -m PROGRAM PIPE LISTENER`, two open files by number.

PROGRAM is a module of the service that calls `begin` first of all, then imports the service and serves (`serve.work`).
A worker ends with its parent from its first moment on, so it loads next to nothing before it watches for that. What it
is told comes through the pipe, as JSON: where modules are found, how long a stop may take, and the settings.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import sys
from dataclasses import dataclass
from multiprocessing.connection import Connection

from crossward_service.http.parent import end_with_parent


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker is told: the service's settings as text, the socket to serve, the pipe to its parent."""

    settings: str
    listener: socket.socket
    pipe: Connection


def order_bytes(path: list[str], stop_seconds: float, settings: str) -> bytes:
    """What the parent sends."""
    return json.dumps({"path": path, "stop_seconds": stop_seconds, "settings": settings}).encode()


def begin() -> Order:
    """Watch for the parent's end from now on, and hear what to do."""
    gc.set_threshold(200_000)  # as the command does
    numbers = [int(word) for word in sys.argv[1:]]
    for number in numbers:
        os.set_inheritable(number, False)
    pipe, listener = Connection(numbers[0]), socket.socket(fileno=numbers[1])
    try:
        order = json.loads(pipe.recv_bytes())
    except (EOFError, OSError):  # the parent is gone already
        sys.exit()
    end_with_parent(pipe.fileno(), order["stop_seconds"])
    sys.path = order["path"]
    return Order(order["settings"], listener, pipe)
