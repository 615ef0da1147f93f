"""One process serves a data directory: keys, data and ledger have one owner.

The lock is the operating system's (flock), on a file in the directory. It ends with the process, also when that is
killed, and commands that only look, or make a token, do not ask for it.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from crossward.errors import Conflict, StorageFailed

FILE = "site.lock"


class DirectoryLock:
    """Held from `take` until `release`, or until the process ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def take(cls, folder: Path) -> DirectoryLock:
        """Lock a data directory, or refuse because another process serves it."""
        path = folder / FILE
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)  # no child process inherits it
        except OSError as error:
            raise StorageFailed(
                f"{path} cannot be opened: {error.strerror}.", "Check the directory's rights."
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = _process(descriptor)
            os.close(descriptor)
            raise Conflict(
                f"Another process{owner} serves the site in {folder}.",
                "A site's keys, data and ledger have one owner: stop that process first, or give this site a data "
                "directory of its own.",
            ) from None
        except OSError as error:
            os.close(descriptor)
            raise StorageFailed(
                f"{path} cannot be locked: {error.strerror}.", "Put the data directory on a disk of this machine."
            ) from None
        with suppress(OSError):  # for people only: a full disk is found elsewhere
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return cls(descriptor)

    def release(self) -> None:
        """Let another process serve the directory."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _process(descriptor: int) -> str:
    with suppress(OSError, ValueError):
        return f" ({int(os.pread(descriptor, 20, 0))})"
    return ""
