"""A database that is full, read-only, locked or gone: a named error, and nothing half-written."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from sqlalchemy import Engine, MetaData, exc, text

from crossward.errors import ChainBroken, InvalidSetting, StorageBusy, StorageFailed
from crossward.protocol.ledger.lines import OpenBody, ReserveBody, SeatsBody
from crossward_service.db.engine import connect, read, storage, write
from crossward_service.db.ledger import SqlLedger
from crossward_service.db.ledger_tables import stored_line, tables
from rights import obey_rights

ZEROS = "0" * 64
OPEN, SEATS = OpenBody(1, 4, "basic", 10**11), SeatsBody(1, ZEROS)


def reserve(number: int) -> ReserveBody:
    return ReserveBody(f"{number:0200d}", "s" * 200, ZEROS, (0, 1, 2, 3), 1, 0, ZEROS)


@pytest.fixture
def ledger() -> SqlLedger:
    return SqlLedger(tables(MetaData()), "site")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = prepared(tmp_path)
    yield engine
    engine.dispose()


def prepared(folder: Path) -> Engine:
    engine, metadata = connect(f"sqlite:///{folder}/ledger.db"), MetaData()
    ledger = SqlLedger(tables(metadata), "site")
    with write(engine) as connection:
        metadata.create_all(connection)
        ledger.append(connection, OPEN, 0)
        ledger.append(connection, SEATS, 0)
    return engine


def test_sqlite_is_set_up_to_last(engine):
    with write(engine) as connection:
        settings = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 10_000}


def test_a_full_disk_stops_the_ledger_and_harms_nothing(engine, ledger):
    with write(engine) as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
    number = 0

    def append_until_full() -> None:
        nonlocal number
        while True:
            with write(engine) as connection:
                connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 6}")
                ledger.append(connection, reserve(number), 0)
            number += 1

    with pytest.raises(StorageFailed, match="full"):
        append_until_full()
    with read(engine) as connection:
        verified = ledger.verify(connection)
    assert verified.head.sequence == number + 2 > 4
    assert verified.state.balance.spend.nano_epsilon == number
    with write(engine) as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 100000")
        ledger.append(connection, reserve(number), 0)
        assert ledger.verify(connection).head.sequence == number + 3


def test_a_caller_who_swallows_the_error_cannot_commit_half(engine, ledger):
    """SQLite may end the whole transaction when the disk is full; what the caller wrote before is then gone."""
    with write(engine) as connection:
        connection.execute(text("CREATE TABLE notes (text TEXT)"))
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()

    def swallow() -> None:
        with write(engine) as connection:
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
            connection.execute(text("INSERT INTO notes VALUES ('before')"))
            for number in range(100):
                try:
                    ledger.append(connection, reserve(number), 0)
                except StorageFailed:
                    break
            connection.execute(text("INSERT INTO notes VALUES ('after')"))

    try:
        swallow()
        kept = True
    except StorageFailed:
        kept = False
    with read(engine) as connection:
        assert connection.execute(text("SELECT count(*) FROM notes")).scalar() == 2 * kept
        verified = ledger.verify(connection)
    assert (verified.head.sequence > 2) == kept


CHILD = """
import os, sys
from sqlalchemy import MetaData
from crossward.errors import StorageFailed
from crossward.protocol.ledger.lines import SeatsBody
from crossward_service.db.engine import connect, write
from crossward_service.db.ledger import SqlLedger
from crossward_service.db.ledger_tables import tables
engine = connect(sys.argv[1])
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)  # root may write what is read-only
try:
    with write(engine) as connection:
        SqlLedger(tables(MetaData()), "site").append(connection, SeatsBody(2, "0" * 64), 0)
except StorageFailed as error:
    print("StorageFailed:", error)
engine.dispose()
"""


def test_a_read_only_file_stops_the_ledger_and_harms_nothing(ledger):
    folder = Path(tempfile.mkdtemp(prefix="crossward-"))  # not below tmp_path, which others may not even enter
    try:
        engine = prepared(folder)
        engine.dispose()
        for path in folder.iterdir():
            path.chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
        folder.chmod(0o555)
        command = [sys.executable, "-c", CHILD, f"sqlite:///{folder}/ledger.db"]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
        assert answer.stdout.startswith("StorageFailed:")
        folder.chmod(0o755)
        (folder / "ledger.db").chmod(0o644)
        with read(engine) as connection:
            assert ledger.verify(connection).head.sequence == 2
        engine.dispose()
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


OBEDIENT = """
import sys
from contextlib import ExitStack
from sqlalchemy import MetaData
from crossward.errors import StorageFailed
from crossward.protocol.ledger.lines import SeatsBody
from crossward_service.db.engine import connect, read, write
from crossward_service.db.ledger import SqlLedger
from crossward_service.db.ledger_tables import tables
engine, ledger = connect(sys.argv[1]), SqlLedger(tables(MetaData()), "site")
for order in sys.stdin:
    try:
        with ExitStack() as stack:
            if order == "read\\n":  # by several at once
                found = [ledger.head(stack.enter_context(read(engine))).sequence for _ in range(3)]
            else:
                if order == "write beside a reader\\n":
                    ledger.head(stack.enter_context(read(engine)))
                connection = stack.enter_context(write(engine))
                names = "journal_mode", "synchronous", "foreign_keys"
                found = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names]
                ledger.append(connection, SeatsBody(ledger.seats(connection).version + 1, "0" * 64), 0)
        print(*found, flush=True)
    except StorageFailed as error:
        print(error, flush=True)
"""
KILLED = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("CREATE TABLE more (word TEXT)")
os._exit(0)
"""


@contextmanager
def obedient(folder: Path) -> Iterator[Callable[[str], str]]:
    """A process that reads or writes when it is told to; gives its answers."""
    with subprocess.Popen(
        [sys.executable, "-c", OBEDIENT, f"sqlite:///{folder}/ledger.db"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        preexec_fn=obey_rights,  # noqa: PLW1509 - it takes no lock
    ) as process:
        assert process.stdin
        assert process.stdout

        def tell(order: str) -> str:
            process.stdin.write(f"{order}\n")
            return process.stdout.readline().strip()

        yield tell


def let_write(folder: Path, *, files: bool, new_files: bool = True) -> None:
    for path in folder.iterdir():
        path.chmod(0o600 if files else 0o400)
    folder.chmod(0o700 if new_files else 0o500)


def test_a_file_opened_while_read_only_is_opened_anew_when_it_is_not(tmp_path):
    prepared(tmp_path).dispose()
    let_write(tmp_path, files=False)
    with obedient(tmp_path) as tell:
        assert tell("read") == "2 2 2"
        assert "readonly" in tell("write")
        assert tell("read") == "2 2 2"
        let_write(tmp_path, files=True)
        assert "readonly" in tell("write")  # with what was open
        assert tell("write") == "wal 2 1"
        assert tell("read") == "3 3 3"


def test_a_disk_that_was_read_only_with_the_log_of_a_killed_process(tmp_path):
    """The processes' shared index of the log is then opened for reading, once for all connections of a process."""
    prepared(tmp_path).dispose()
    subprocess.run([sys.executable, "-c", KILLED, tmp_path / "ledger.db"], check=True)
    assert len(list(tmp_path.iterdir())) == 3
    let_write(tmp_path, files=False, new_files=False)
    with obedient(tmp_path) as tell:
        first = tell("read")
        assert "readonly" in tell("write")
        assert tell("read") == first
        let_write(tmp_path, files=True)
        assert "readonly" in tell("write")  # with what was open
        assert tell("write") == "wal 2 1"
        assert tell("read") == "3 3 3"


def test_what_was_in_use_as_a_write_failed_is_closed_too(tmp_path):
    prepared(tmp_path).dispose()
    subprocess.run([sys.executable, "-c", KILLED, tmp_path / "ledger.db"], check=True)
    let_write(tmp_path, files=False, new_files=False)
    with obedient(tmp_path) as tell:
        assert "readonly" in tell("write beside a reader")
        let_write(tmp_path, files=True)
        assert tell("write") == "wal 2 1"


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_a_folder_that_was_read_only_is_refused_until_it_is_not(tmp_path, mode):
    prepared(tmp_path).dispose()
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as database:
        database.execute(f"PRAGMA journal_mode = {mode}")
    let_write(tmp_path, files=False, new_files=False)
    with obedient(tmp_path) as tell:
        for order in ("read", "write"):
            assert "The database cannot be used: attempt to write a readonly database." in tell(order)
        let_write(tmp_path, files=True)
        assert tell("write") == "wal 2 1"


def test_a_database_that_is_not_there(tmp_path, ledger):
    for engine in (
        connect(f"sqlite:///{tmp_path}/missing/ledger.db"),
        connect(f"postgresql://nobody@/nothing?host={tmp_path}"),
    ):
        with pytest.raises(StorageFailed) as caught, write(engine) as connection:
            ledger.append(connection, OPEN, 0)
        assert caught.value.fix
        engine.dispose()


def test_a_file_that_is_gone_after_an_error_costs_no_connection(tmp_path):
    """A connection that was given up is opened anew by whoever asks next: also where that fails, it is given back."""
    home, away = tmp_path / "here", tmp_path / "away"
    home.mkdir()
    engine = connect(f"sqlite:///{home}/database")
    with pytest.raises(StorageFailed), write(engine) as connection:
        connection.invalidate()
    home.rename(away)
    for _ in range(engine.pool.size() + 1):
        with pytest.raises(StorageFailed), read(engine):
            pass
        assert engine.pool.checkedout() == 0
    away.rename(home)
    with write(engine) as connection:
        connection.execute(text("CREATE TABLE t (x)"))
    engine.dispose()


def test_a_transaction_that_may_not_write_does_not_and_the_next_may(engine):
    """Whatever the last one on its connection was, and however it ended."""
    for _ in range(3):
        with pytest.raises(StorageFailed, match="readonly"), read(engine) as connection:
            connection.execute(text("CREATE TABLE t (x)"))
        with write(engine) as connection:
            connection.execute(text("CREATE TABLE t (x)"))
        with pytest.raises(StorageFailed, match="no such table"), write(engine) as connection:
            connection.execute(text("DROP TABLE none"))
        with engine.begin() as connection:  # as whoever does not say that it reads
            connection.execute(text("DROP TABLE t"))


def test_a_file_that_is_no_database(tmp_path, ledger):
    (tmp_path / "ledger.db").write_bytes(os.urandom(8192))
    engine = connect(f"sqlite:///{tmp_path}/ledger.db")
    with pytest.raises(StorageFailed, match="not a database"), read(engine) as connection:
        ledger.head(connection)
    engine.dispose()


def test_a_missing_table_is_named(tmp_path, ledger):
    engine = connect(f"sqlite:///{tmp_path}/ledger.db")
    with pytest.raises(StorageFailed, match="no such table"), write(engine) as connection:
        ledger.append(connection, OPEN, 0)
    engine.dispose()


def test_the_error_does_not_repeat_the_values():
    error = exc.OperationalError("INSERT INTO t VALUES (?)", ("Mrs Smith",), Exception("disk I/O error\nDETAIL: Smith"))
    with pytest.raises(StorageFailed) as caught, storage():
        raise error
    assert str(caught.value).startswith("The database cannot be used: disk I/O error.")
    assert "Smith" not in str(caught.value)


@pytest.mark.parametrize("error", [psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected])
def test_what_may_be_tried_again_says_so(error):
    with pytest.raises(StorageBusy), storage():
        raise exc.OperationalError("", (), error("in any language"))


def test_a_flipped_byte_of_the_file_never_passes_as_another_history(engine, ledger, tmp_path):
    """Wherever the file is hit: it still says the same, or somebody notices."""
    with write(engine) as connection:
        for number in range(3):
            ledger.append(connection, reserve(number), number)
        expected = ledger.verify(connection)
    engine.dispose()
    whole, chance, noticed = (tmp_path / "ledger.db").read_bytes(), random.Random(1), 0
    for _ in range(150):
        changed = bytearray(whole)
        changed[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        (tmp_path / "hit.db").write_bytes(changed)
        hit = connect(f"sqlite:///{tmp_path}/hit.db")
        try:
            with read(hit) as connection:
                assert ledger.verify(connection) == expected
        except (ChainBroken, StorageFailed):
            noticed += 1
        hit.dispose()
        for path in tmp_path.glob("hit.db*"):
            path.unlink()
    assert noticed > 10


@pytest.mark.parametrize("body", [None, 5, 0.5, b"\xff", "", "[1"])
def test_a_body_that_damage_left_no_text_in_breaks_the_chain(body):
    row = SimpleNamespace(sequence=1, previous=ZEROS, kind="open", subject="1", time=0, body=body, hash=ZEROS)
    with pytest.raises(ChainBroken, match=r"^Line 1: its body is not JSON\."):
        stored_line(row, 1)


def test_too_few_connections_are_busy_too():
    with pytest.raises(StorageBusy), storage():
        raise exc.TimeoutError


@pytest.mark.parametrize("error", [exc.IntegrityError, exc.ProgrammingError, exc.DataError])
def test_mistakes_are_not_called_storage(error):
    with pytest.raises(error), storage():
        raise error("", (), Exception("x"))


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "mysql://host/name", "oracle+x://h/n", "x"])
def test_databases_that_cannot_hold_a_ledger(url):
    with pytest.raises(InvalidSetting) as caught:
        connect(url)
    assert caught.value.fix


def test_postgres_urls_use_the_one_driver():
    for url in ("postgresql://h/n", "postgres://h/n", "postgresql+psycopg://h/n"):
        engine = connect(url)
        assert engine.url.drivername == "postgresql+psycopg"
        engine.dispose()
