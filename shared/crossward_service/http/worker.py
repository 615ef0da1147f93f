"""One worker of a service: `python -m crossward_service.http.worker PIPE LISTENER`, two open files by number.

It ends with its parent from its first moment on, so it loads next to nothing before it watches for that. What it
does comes through the pipe: where modules are found, how long a stop may take, and a function, whose modules are
imported when it is unpickled.
"""

from __future__ import annotations

import os
import pickle
import socket
import sys
from multiprocessing.connection import Connection

from crossward_service.http.parent import end_with_parent


def main(pipe: Connection, listener: socket.socket) -> None:
    """A worker's life."""
    try:
        path, seconds, work = pickle.loads(pipe.recv_bytes())
    except (EOFError, OSError):  # the parent is gone already
        return
    end_with_parent(pipe.fileno(), seconds)
    sys.path = path
    pickle.loads(work)(listener, pipe)


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    for number in numbers:
        os.set_inheritable(number, False)
    main(Connection(numbers[0]), socket.socket(fileno=numbers[1]))
