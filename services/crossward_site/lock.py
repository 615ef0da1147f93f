"""One process serves a data directory: keys, data and ledger have one owner.

The lock is the operating system's (flock), on the directory itself: no file that somebody deletes or replaces gives it
two owners. Where the database lies in another folder, that folder is locked too. The file `site.lock` is for people: it
says which process it is. The lock ends with the process, also when that is killed, and commands that only look, or make
a token, do not ask for it.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from crossward.errors import Conflict, StorageFailed
from crossward_site.settings import SiteSettings

FILE = "site.lock"


class DirectoryLock:
    """Held from `take` until `release`, or until the process ends."""

    def __init__(self) -> None:
        self._descriptors: list[int] = []

    @classmethod
    def take(cls, folder: Path, database: Path | None = None) -> DirectoryLock:
        """Lock a data directory and the folder of its database file, or refuse because another process has one."""
        lock = cls()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock._add(folder)
            if database is not None:
                lock._add(database.resolve().parent)
        except OSError as error:
            lock.release()
            raise StorageFailed(
                f"{error.filename or folder} cannot be opened: {error.strerror}.", "Check the directory's rights."
            ) from None
        except BaseException:
            lock.release()
            raise
        return lock

    def _add(self, folder: Path) -> None:
        # A program that this process starts (exec) does not inherit it. A mere fork would share it: none is made here.
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        if any(os.path.sameopenfile(descriptor, held) for held in self._descriptors):
            os.close(descriptor)
            return
        try:
            _lock(descriptor, folder)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptors.append(descriptor)
        _write_process(descriptor)

    def release(self) -> None:
        """Let another process serve the directory."""
        while self._descriptors:
            descriptor = self._descriptors.pop()
            with suppress(OSError):
                os.unlink(FILE, dir_fd=descriptor)
            os.close(descriptor)


def take(settings: SiteSettings) -> DirectoryLock:
    """Lock what a site's settings name."""
    return DirectoryLock.take(settings.data_dir, settings.sqlite_file)


@contextmanager
def held(settings: SiteSettings) -> Iterator[None]:
    """Nobody serves the site meanwhile."""
    lock = take(settings)
    try:
        yield
    finally:
        lock.release()


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Conflict(
            f"Another process{_process(descriptor)} serves the site in {folder}.",
            "A site's keys, data and ledger have one owner: stop that process first, or give this site a data "
            "directory and a database folder of its own.",
        ) from None
    except OSError as error:
        raise StorageFailed(
            f"{folder} cannot be locked: {error.strerror}.", "Put the data directory on a disk of this machine."
        ) from None


# -- which process, for people: what cannot be written or read is left out ------------------------------------------
@contextmanager
def _file(directory: int, flags: int) -> Iterator[int]:
    """The file in a directory, if it is a plain file: no link is followed, and no pipe waited for."""
    descriptor = os.open(FILE, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600, dir_fd=directory)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{FILE} is no plain file")
        yield descriptor
    finally:
        os.close(descriptor)


def _write_process(directory: int) -> None:
    with suppress(OSError), _file(directory, os.O_RDWR | os.O_CREAT) as descriptor:
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


def _process(directory: int) -> str:
    with suppress(OSError, ValueError), _file(directory, os.O_RDONLY) as descriptor:
        return f" ({int(os.pread(descriptor, 20, 0))})"
    return ""
