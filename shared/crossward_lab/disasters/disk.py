"""Databases on a simulated disk: real SQLite files, and a disk that fills, refuses, or forgets what was not flushed.

A process may end before a commit, after it, or in the middle, where only the disk knows whether it happened. What a
commit flushed stays. What it did not, by its own `PRAGMA synchronous`, the power may take away.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.pool import PoolProxiedConnection

from crossward_lab.disasters.host import Disk, Host
from crossward_service.db.engine import READING, connect

if TYPE_CHECKING:
    from crossward_lab.disasters.host import Process

FULL_SYNC = 2  # PRAGMA synchronous
SYNCHRONOUS = ""
"""How much is flushed at a commit, where a fault is planted; else the services decide."""
MOST_PAGES = 1_073_741_823
_SUFFIXES = ("", "-wal")
_FULL = "crossward_disk_full"


_SPARE: dict[str, list[_Engine]] = defaultdict(list)
"""Engines that no process uses now, by the name of the database's file: what they have compiled, they still know."""


def database(process: Process, url: str) -> Engine:
    """An engine whose every transaction is a step of the process."""
    path = Path(str(make_url(url).database))
    spare = _SPARE[path.name]
    engine = spare.pop() if spare else _Engine(url)
    engine.belong(process, path)
    process.at_end(lambda: engine.give_back(spare))
    return engine.engine


def files_of(path: Path) -> dict[str, bytes]:
    """A database as it lies on the disk."""
    files = {suffix: path.with_name(path.name + suffix) for suffix in _SUFFIXES}
    return {suffix: file.read_bytes() for suffix, file in files.items() if file.exists()}


def put_files(path: Path, files: dict[str, bytes]) -> None:
    """Make a database what it was."""
    for suffix in (*_SUFFIXES, "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    for suffix, content in files.items():
        path.with_name(path.name + suffix).write_bytes(content)


def cut_power(host: Host) -> None:
    """What was never flushed is gone. All processes of the host have ended."""
    for path, files in host.unflushed.items():
        put_files(path, files)
    host.unflushed.clear()


class _Engine:
    """An engine of the services' own making, which belongs to one process after the other."""

    def __init__(self, url: str) -> None:
        self.engine = connect(url, patience=0.0)  # waiting would be real: here a transaction ends before another begins
        event.listen(self.engine, "do_connect", self._open)
        event.listen(self.engine, "connect", _opened)
        engine: Any = self.engine
        self._connect, engine.connect = engine.connect, self.connect
        self._begin, engine.dialect.do_begin = engine.dialect.do_begin, self.begin
        self._commit, engine.dialect.do_commit = engine.dialect.do_commit, self.commit

    def belong(self, process: Process, path: Path) -> None:
        """From now on it is this process's, for this file."""
        self._process, self._path = process, path

    def give_back(self, spare: list[_Engine]) -> None:
        """The process has ended, and its files are closed."""
        self.engine.dispose()
        spare.append(self)

    def _open(self, dialect: Any, record: Any, positional: list[Any], named: dict[str, Any]) -> None:
        positional[0] = str(self._path)

    def connect(self) -> Connection:
        """Others have their turn before it holds a connection: from here to the commit, nobody has."""
        self._process.step("asks its database")
        connection: Connection = self._connect()
        return connection

    def begin(self, connection: PoolProxiedConnection) -> None:
        """The disk may not let a transaction begin."""
        disk, full = self._process.host.disk, connection.info.get(_FULL, False)
        if not connection.info.get(READING):
            if disk is Disk.READ_ONLY:
                raise _error("attempt to write a readonly database", sqlite3.SQLITE_READONLY)
            if full is not (disk is Disk.FULL):
                connection.info[_FULL] = full = not full
                driver: Any = connection.driver_connection
                driver.execute(f"PRAGMA max_page_count = {1 if full else MOST_PAGES}").close()
        self._begin(connection)

    def commit(self, connection: Any) -> None:
        """Commit, or end before or after it; or fail, so that nobody here knows whether it happened."""
        if connection.info.get(READING):
            self._commit(connection)
            return
        process = self._process
        process.check_alive()
        fate = process.world.fate_of_commit(process)
        if fate == "dies before":
            process.world.die(process, "before a commit")
        if fate == "fails":
            raise _error("disk I/O error", sqlite3.SQLITE_IOERR)
        self._keep_flushed(connection.driver_connection)
        self._commit(connection)
        process.world.judge.committed(process, self._path)
        if fate == "dies after":
            process.world.die(process, "after a commit")
        if fate == "fails after":
            raise _error("disk I/O error", sqlite3.SQLITE_IOERR)

    def _keep_flushed(self, driver: Any) -> None:
        """Of a commit that is not flushed, keep what the disk has for sure."""
        [level] = driver.execute("PRAGMA synchronous").fetchone()
        host = self._process.host
        if level >= FULL_SYNC:
            host.unflushed.pop(self._path, None)  # a flush takes all that came before with it
        elif self._path not in host.unflushed:
            host.unflushed[self._path] = files_of(self._path)


def _opened(connection: Any, _: Any) -> None:
    if SYNCHRONOUS:
        connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS}").close()
    connection.execute("PRAGMA wal_autocheckpoint = 100000").close()  # files that are copied stay together


def _error(words: str, code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(words)
    error.sqlite_errorcode = code
    return error
