"""What the vault asks of a disk: that names stay, that room is left, and large files that go straight to it.

Those go past the system's cache of pages.

To copy a gigabyte into that cache takes longer than to seal it, and what is in use makes room for what nobody reads
soon. Worse, others wait: when the ledger flushes its few bytes, a file system may first write out all that others left
in the cache. Where a file system cannot do without its cache, or a file ends within a block, the cache is used.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import numpy as np

BLOCK = 4096
"""Where a write past the cache begins and ends, in memory as in the file."""

_STRAIGHT: int = getattr(os, "O_DIRECT", 0)
_UNKNOWN = (errno.EINVAL, errno.EOPNOTSUPP)


SPARE = 64 << 20
"""So many bytes of the disk are left to everything else."""


def leave_some(descriptor: int, size: int) -> None:
    """Room for so many bytes more: a table that is too large for the disk must not take what the ledger needs."""
    about = os.fstatvfs(descriptor)
    if about.f_bavail * about.f_frsize < size + SPARE:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def settle(folder: Path) -> None:
    """A name is on disk once its folder is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Room:
    """Memory that is used again and again: to touch new pages takes longer than to fill known ones."""

    def __init__(self) -> None:
        self._bytes = np.empty(0, np.uint8)

    def of(self, size: int, kept: int = 0) -> memoryview:
        """So many bytes, until it is asked for again; the first of them are as they were."""
        if len(self._bytes) < size:
            larger = np.empty(size + size // 8 + BLOCK, np.uint8)
            larger = larger[-larger.ctypes.data % BLOCK :]
            larger[:kept] = self._bytes[:kept]
            self._bytes = larger
        return self._bytes[:size].data


class Outflow:
    """A new file that only its owner can read. It is filled in memory, and flows out block by block."""

    def __init__(self, path: Path) -> None:
        create = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        try:
            self._descriptor = os.open(path, create | _STRAIGHT, 0o600)
        except OSError as error:
            if error.errno not in _UNKNOWN:
                raise
            self._descriptor = os.open(path, create, 0o600)
        self._room, self.filled, self._closed = Room(), 0, False

    def fileno(self) -> int:
        """Its descriptor."""
        return self._descriptor

    @property
    def closed(self) -> bool:
        """Whether it was finished, or given up."""
        return self._closed

    def room(self, size: int) -> memoryview:
        """Memory for so many bytes more. What was put there counts once `filled` says so."""
        return self._room.of(self.filled + size, self.filled)[self.filled :]

    def put(self, data: bytes) -> None:
        """Add a few bytes."""
        self.room(len(data))[:] = data
        self.filled += len(data)

    def put_at(self, place: int, data: bytes) -> None:
        """Write over what was filled, and has not flowed out."""
        self._room.of(self.filled)[place : place + len(data)] = data

    def flow(self) -> None:
        """Write out all whole blocks; what is left over waits for more."""
        whole = self.filled - self.filled % BLOCK
        filled = self._room.of(self.filled)
        self._write(filled[:whole])
        rest = bytes(filled[whole:])
        filled[: len(rest)] = rest
        self.filled = len(rest)

    def finish(self) -> None:
        """All that was filled is on disk when this returns."""
        self.flow()
        self._use_cache()
        self._write(self._room.of(self.filled))
        os.fsync(self._descriptor)
        self.close()

    def close(self) -> None:
        """Give up what has not flowed out."""
        if not self._closed:
            self._closed = True
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self, data: memoryview) -> None:
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except OSError as error:
                if error.errno not in _UNKNOWN or not self._use_cache():
                    raise

    def _use_cache(self) -> bool:
        """From here on write by way of the cache; False if it was so already."""
        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        if not flags & _STRAIGHT:
            return False
        fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags & ~_STRAIGHT)
        return True
