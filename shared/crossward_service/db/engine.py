"""Databases as the ledger needs them: what is committed is on disk, and writers take turns.

- SQLite: write-ahead log with a flush at every commit. A write transaction takes the write lock when it begins
  (BEGIN IMMEDIATE), so it never acts on numbers that another process is about to change.
- PostgreSQL: a commit waits for its flush; writers queue at the row they lock.

A read sees one moment: all its statements agree with one another, and none of them can write.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from sqlalchemy import Column, Connection, Engine, Table, create_engine, event, exc
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, ExceptionContext, make_url
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection

from crossward.errors import InvalidSetting, StorageBusy, StorageFailed

LOCK_SECONDS = 10.0
READING = "crossward_reading"
"""In the `info` of a connection that may not write in its next transaction."""
_QUERY_ONLY = "crossward_query_only"
_POOL = "crossward_pool"
# Codes, because messages come in the server's language. SQLite: BUSY, LOCKED, and the BUSY of a stale snapshot.
# PostgreSQL: serialization failure, deadlock, lock not available.
_BUSY = {5, 6, 517, "40001", "40P01", "55P03"}
# SQLite: READONLY, IOERR, CANTOPEN, each with all its kinds. How a file was opened outlasts what was wrong with it.
_SICK = {8, 10, 14}


def connect(url: str, patience: float = LOCK_SECONDS) -> Engine:
    """An engine for sqlite:///file or postgresql://host/name that waits `patience` seconds for a lock."""
    parsed = _parse(url)
    if parsed.get_backend_name() == "sqlite":
        engine = _sqlite(parsed, patience)
    else:
        engine = _postgresql(parsed.set(drivername="postgresql+psycopg"), patience)
    event.listen(engine, "handle_error", _unstorable, retval=True)
    return engine


def _unstorable(context: ExceptionContext) -> BaseException | None:
    """A number too large or a text that is none is the value's fault, also where a driver says so in Python's words."""
    error = context.original_exception
    if context.statement is not None and isinstance(error, (OverflowError, UnicodeEncodeError)):
        return exc.DataError(context.statement, None, error)
    return None


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except exc.ArgumentError:
        raise InvalidSetting("This is no database URL.", "Write sqlite:///file.db or postgresql://host/name.") from None
    if parsed.drivername in ("sqlite", "sqlite+pysqlite"):
        if parsed.database in (None, "", ":memory:"):
            raise InvalidSetting("A database in memory forgets what was spent.", "Name a file: sqlite:///file.db.")
        return parsed
    if parsed.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return parsed.set(drivername="postgresql")
    raise InvalidSetting(f"Databases of kind {parsed.drivername} are not supported.", "Use SQLite or PostgreSQL.")


def _sqlite(url: URL, patience: float) -> Engine:
    engine = create_engine(url, connect_args={"timeout": patience})

    def configure(connection: Any, entry: ConnectionPoolEntry) -> None:
        entry.info[_POOL] = engine.pool
        try:
            _set_up(connection)
        except BaseException:
            connection.close()
            raise

    def reopen(context: ExceptionContext) -> None:
        """Where a file could not be written, SQLite opens it for reading, and it stays so: open all anew.

        All at once, because the connections of a process share what is open as long as one of them is left.
        """
        if getattr(context.original_exception, "sqlite_errorcode", 0) & 0xFF in _SICK:
            context.is_disconnect = True
            if context.execution_context is not None:
                context.execution_context.cursor.close()  # its error would hold it, and so keep the file open
            engine.dispose()

    def leave(_: Any, entry: ConnectionPoolEntry) -> None:
        """Close what was in use meanwhile, as it comes back."""
        entry.info.pop(READING, None)
        if entry.info.get(_POOL) is not engine.pool:  # it has none if it could not be opened
            entry.invalidate()

    def begin(connection: PoolProxiedConnection) -> None:
        """Begin to read or to write, by the driver itself: a transaction is short, and this is a good part of it."""
        driver: Any = connection.driver_connection
        reading = connection.info.get(READING, False)
        if connection.info.get(_QUERY_ONLY) is not reading:
            connection.info[_QUERY_ONLY] = None  # unknown, should this fail
            driver.execute(f"PRAGMA query_only = {'ON' if reading else 'OFF'}").close()
            connection.info[_QUERY_ONLY] = reading
        driver.execute("BEGIN" if reading else "BEGIN IMMEDIATE").close()

    event.listen(engine, "connect", configure)
    engine.dialect.do_begin = begin  # type: ignore[method-assign,assignment]
    event.listen(engine, "handle_error", reopen)
    event.listen(engine, "checkin", leave)
    return engine


def _set_up(connection: Any) -> None:
    """Make a new connection one that a ledger may use, or refuse it: SQLite may leave a setting as it was."""
    connection.isolation_level = None  # the driver would begin transactions by itself, too late
    settings = (("journal_mode", "WAL", "wal"), ("synchronous", "FULL", 2), ("foreign_keys", "ON", 1))
    for name, word, value in (*settings, ("secure_delete", "ON", 1)):
        connection.execute(f"PRAGMA {name} = {word}").close()
        if connection.execute(f"PRAGMA {name}").fetchone() != (value,):
            raise sqlite3.OperationalError(f"{name} cannot be {word} here")


def _postgresql(url: URL, patience: float) -> Engine:
    engine = create_engine(url, pool_pre_ping=True)

    def configure(connection: Any, _: ConnectionPoolEntry) -> None:
        connection.autocommit = True
        connection.execute("SELECT set_config('lock_timeout', %s, false)", (f"{round(patience * 1000)}ms",))
        connection.execute(  # a server may be set to acknowledge before the flush; a ledger must not
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )
        connection.autocommit = False

    event.listen(engine, "connect", configure)
    return engine


def forget(engine: Engine) -> None:
    """Let what was deleted or overwritten go from SQLite's log too, unless somebody is reading what was before."""
    if engine.dialect.name == "sqlite":
        with closing(engine.raw_connection()) as connection:
            driver: Any = connection.driver_connection
            driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()


@contextmanager
def write(engine: Engine) -> Iterator[Connection]:
    """One write transaction: committed at the end, rolled back on any error.

    A `StorageFailed` from the commit itself may leave open whether it happened: ask again, every call is idempotent.
    """
    with _transaction(engine, reading=False) as connection:
        yield connection
        _check_unbroken(connection)


@contextmanager
def read(engine: Engine) -> Iterator[Connection]:
    """One moment of the database, for reading only."""
    with _transaction(engine, reading=True) as connection:
        yield connection


@contextmanager
def _transaction(engine: Engine, *, reading: bool) -> Iterator[Connection]:
    with _NAMED, ExitStack() as stack:
        with _STORAGE:
            connection = stack.enter_context(engine.connect())
            connection.info[READING] = reading
            if reading and engine.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            stack.enter_context(connection.begin())
        yield connection


def new_row(connection: Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    """An INSERT that can say what happens where the row is there already, which each database spells its own way."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)


class UnlessThere:
    """An INSERT that does nothing where the row is there already, and gives `column` where it was not.

    It is written once for each database, and so compiled once.
    """

    def __init__(self, table: Table, column: Column[Any]) -> None:
        self._statements = {
            "sqlite": sqlite.insert(table).on_conflict_do_nothing().returning(column),
            "postgresql": postgresql.insert(table).on_conflict_do_nothing().returning(column),
        }

    def insert(self, connection: Connection, row: dict[str, Any]) -> bool:
        """Insert a row; False if it was there already."""
        return connection.execute(self._statements[connection.dialect.name], row).first() is not None


class InPlace:
    """An INSERT that changes `value` where the row is there already; `larger`: only if the new value is the larger.

    It is written once for each database, and so compiled once.
    """

    def __init__(self, table: Table, value: Column[Any], *, larger: bool = False) -> None:
        self._statements = {}
        for dialect, new in (("sqlite", sqlite.insert(table)), ("postgresql", postgresql.insert(table))):
            other = new.excluded[value.name]
            self._statements[dialect] = new.on_conflict_do_update(
                index_elements=list(table.primary_key),
                set_={value.name: other},
                where=value < other if larger else None,
            )

    def put(self, connection: Connection, row: dict[str, Any]) -> None:
        """Insert a row, or change the one that has its key."""
        connection.execute(self._statements[connection.dialect.name], row)


def _check_unbroken(connection: Connection) -> None:
    """A transaction that the database ended by itself must not look committed, whatever errors the caller swallowed."""
    if connection.invalidated or (connection.dialect.name == "sqlite" and not _in_transaction(connection)):
        raise StorageFailed("The database gave up the transaction.", "Free space or repair it, then try again.")


def _in_transaction(connection: Connection) -> bool:
    driver: Any = connection.connection.driver_connection
    return bool(driver.in_transaction)


@contextmanager
def whole(connection: Connection) -> Iterator[None]:
    """All or nothing within a transaction: a caller who catches our error and commits does not commit half of this."""
    with storage():
        savepoint = connection.begin_nested()
    try:
        with storage():
            yield
            savepoint.commit()
    except BaseException:
        try:
            savepoint.rollback()
        except exc.SQLAlchemyError:
            # SQLite ends the transaction by itself on some errors, as on a full disk. What the caller wrote next would
            # be committed at once, so there must be no next.
            connection.invalidate()
        raise


class _Named:
    """The database's own errors. Mistakes in statements and broken constraints pass: they are not storage."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None and (name := self.name(error)) is not None:
            raise name from error

    def name(self, error: BaseException) -> StorageFailed | None:
        """What the error is called here; None for one that is none of the database's own."""
        match error:
            case exc.IntegrityError() | exc.DataError() | exc.ProgrammingError():
                return None
            case LookupError() if type(error) is LookupError:  # a KeyError or IndexError is a mistake in the code
                return StorageFailed(
                    "The database holds a word that this version does not know.",  # SQLAlchemy's Enum, about a row
                    "Run the version that wrote it, or restore a backup, then verify the ledger.",
                )
            case exc.PendingRollbackError():
                return StorageFailed("The database gave up the transaction.", "Begin again.")
            case exc.TimeoutError():
                return StorageBusy("All connections to the database are in use.", "Try again.")
            case exc.DBAPIError():
                return _of_driver(error.orig)
        return None


def _of_driver(error: BaseException | None) -> StorageFailed:
    what = str(error).strip().partition("\n")[0]  # without the statement and the values in it
    if {getattr(error, "sqlite_errorcode", None), getattr(error, "sqlstate", None)} & _BUSY:
        return StorageBusy(f"The database is busy: {what}.", "Try again.")
    return StorageFailed(
        f"The database cannot be used: {what}.", "Nothing was written. Check its disk, rights and migrations."
    )


class _Storage(_Named):
    """Around code that does nothing but talk to the database."""

    def name(self, error: BaseException) -> StorageFailed | None:
        """As before, and what SQLite's driver says of a damaged file."""
        if isinstance(error, UnicodeDecodeError):
            return StorageFailed("The database holds text that is none.", "Restore it, then verify the ledger.")
        return super().name(error)


_NAMED, _STORAGE = _Named(), _Storage()


def storage() -> _Storage:
    """Names what the database cannot do, around code that does nothing but talk to it."""
    return _STORAGE
