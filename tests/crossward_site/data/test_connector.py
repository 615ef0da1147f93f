"""Connectors: the same table from a process of its own as from this one; and whatever happens there, it ends."""

from __future__ import annotations

import datetime as dt
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import SecretStr

from crossward.errors import CrosswardError, InvalidData
from crossward_connector.tables import Limits
from crossward_site.data import connector
from crossward_site.data.connector import InProcess, Processes, protections
from crossward_site.data.places import Connection, FilePlace, QueryPlace, Sources

SECRET = "hunter2"
BOTH = pytest.mark.parametrize("kind", [InProcess, Processes])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "exports").mkdir()
    (tmp_path / "site").mkdir()
    return tmp_path / "exports"


@pytest.fixture
def sources(root: Path) -> Sources:
    connections = {"clinic": Connection(url=SecretStr(f"sqlite:///{root.parent}/clinic.db"))}
    return Sources({"exports": root}, connections, (root.parent / "site",))


def csv(path: str = "table.csv", **more) -> FilePlace:
    return FilePlace(kind="csv", path=path, **more)


PARQUET = FilePlace(kind="parquet", path="table.parquet")


def query(text: str) -> QueryPlace:
    return QueryPlace(kind="sql", connection="clinic", query=text)


def read(connectors, place, wanted=None, lenient=False):
    with connectors.open(place, wanted, lenient=lenient) as table:
        return table, [row for batch in table.batches() for row in batch.to_pylist()]


STARTED: list[int] = []


@pytest.fixture(autouse=True)
def _watched(monkeypatch):
    """Remember what is started."""
    popen = connector._popen

    def start(files):
        process = popen(files)
        STARTED.append(process.pid)
        return process

    monkeypatch.setattr(connector, "_popen", start)
    STARTED.clear()


def gone(pid: int) -> bool:
    """Whether a process is no more; a zombie still is."""
    return not Path(f"/proc/{pid}").exists()


def children() -> set[int]:
    return {pid for pid in STARTED if not gone(pid)}


# -- what is read ------------------------------------------------------------------------------------------------------
@BOTH
def test_a_csv(kind, root, sources) -> None:
    (root / "table.csv").write_bytes('pid;größe\n1;2,5\n\n"a\nb";3\n7;8\n'.encode("cp1252"))
    table, rows = read(kind(sources), csv(), ["größe", "pid"])
    assert rows == [{"größe": "2,5", "pid": "1"}, {"größe": "3", "pid": "a\nb"}, {"größe": "8", "pid": "7"}]
    assert [table.line(row) for row in range(3)] == ["line 2", "line 4", "line 6"]
    assert (table.where, table.progress, table.faults) == ("exports/table.csv", 1.0, [])
    form = table.form
    assert (form.kind, form.names, form.delimiter) == ("csv", ("pid", "größe"), ";")
    assert (form.encoding, form.decimal) == ("cp1252", ",")


@BOTH
def test_every_encoding_is_there_when_no_file_can_be_opened_any_more(kind, root, sources) -> None:
    for encoding in ("utf-16", "cp1251", "gb18030", "shift_jis", "iso8859-15", "mac-roman", "big5", "euc_kr"):
        (root / "table.csv").write_bytes("pid,a\n1,x\n".encode(encoding))
        assert read(kind(sources), csv(encoding=encoding))[1] == [{"pid": "1", "a": "x"}]


@BOTH
def test_faults(kind, root, sources) -> None:
    (root / "table.csv").write_bytes(b"pid,a\n1,2\n3\n\n4,5,6\n7,8\n")
    with pytest.raises(InvalidData, match=r"exports/table.csv, line 3: The header has 2 columns, this record 1"):
        read(kind(sources), csv())
    table, rows = read(kind(sources), csv(), lenient=True)
    assert [row["pid"] for row in rows] == ["1", "7"]
    assert [fault.line for fault in table.faults] == [3, 5]
    assert table.line(1) == "line 6"


@BOTH
def test_a_title_and_column_names_that_come_again(kind, root, sources) -> None:
    (root / "table.csv").write_text("pid,a\n1,2\npid,a\n3,4\n")
    table, rows = read(kind(sources), csv(), lenient=True)
    assert ([row["pid"] for row in rows], [fault.line for fault in table.faults]) == (["1", "3"], [3])
    (root / "table.csv").write_text("Ward 3\n\npid,a,b\n1,2,3\n4,5,6\n")
    with pytest.raises(InvalidData, match="The table begins in line 3"):
        read(kind(sources), csv(), lenient=True)


@BOTH
def test_parquet(kind, root, sources) -> None:
    table = {"a": np.arange(200_000), "b": [f"x{k}" for k in range(200_000)], "c": np.arange(200_000) / 7}
    pq.write_table(pa.table(table), root / "table.parquet", row_group_size=30_000)
    with kind(sources).open(PARQUET, ["c", "b"]) as found:
        whole = pa.Table.from_batches(found.batches())
    assert whole.column_names == ["c", "b"]
    assert whole.column("b").to_pylist() == table["b"]
    assert (whole.column("c").to_numpy() == table["c"]).all()
    assert (found.form.total_rows, found.line(5)) == (200_000, "row 6")


@BOTH
def test_what_is_kept_of_a_batch_stays_as_it_was(kind, root, sources) -> None:
    """Memory is used again, but not while anybody holds even a few values of what was read into it."""
    numbers = np.arange(4_000_000).reshape(4, -1)
    pq.write_table(pa.table(list(numbers), names=list("abcd")), root / "table.parquet", row_group_size=50_000)
    start, kept = 0, []
    with kind(sources).open(PARQUET, list("abcd")) as found:
        for number, batch in enumerate(found.batches()):
            rows = slice(start, start + len(batch))
            if number % 4:
                kept.append((rows, batch.column(2).slice(5, 10), batch.column(3).to_numpy()[-10:]))
            start = rows.stop
            del batch
    assert start == numbers.shape[1]
    assert len(kept) > 10
    for rows, few, last in kept:
        assert few.to_pylist() == numbers[2, rows][5:15].tolist()
        assert (last == numbers[3, rows][-10:]).all()


@BOTH
def test_every_plain_type_of_parquet(kind, root, sources) -> None:
    amounts = pa.array([Decimal("1.25"), None, Decimal("-3.50")], pa.decimal128(10, 2))
    wide = pa.array([Decimal("1" * 30), None, Decimal("-3")], pa.decimal128(38, 0))
    day = dt.datetime(2024, 2, 29, 13, 5, tzinfo=dt.UTC)
    plain = {
        "large": pa.array([2**63, None, 1], pa.uint64()),
        "day": pa.array([day.date(), None, day.date()]),
        "moment": pa.array([day, None, day], pa.timestamp("us", "Europe/Berlin")),
        "time": pa.array([day.time(), None, day.time()]),
        "word": pa.array(["x", None, "y"]).dictionary_encode(),
        "long": pa.array(["x", None, "y"], pa.large_string()),
        "yes": [True, None, False],
        "small": pa.array([1.5, None, 2.5], pa.float32()),
        "none": pa.nulls(3),
    }
    pq.write_table(pa.table({"pid": ["a", "b", "c"], "amount": amounts, "wide": wide} | plain), root / "table.parquet")
    _, rows = read(kind(sources), PARQUET)
    assert [row["amount"] for row in rows] == [1.25, None, -3.5]
    texts = ["1" * 30, str(2**63), "2024-02-29", "2024-02-29T13:05:00.000000Z", "13:05:00.000000", "x", "x"]
    assert list(rows[0].values())[2:] == [*texts, True, 1.5, None]


@BOTH
def test_ten_thousand_columns_fit_into_the_usual_memory(kind, root, sources) -> None:
    names = [f"c{k}" for k in range(10_000)]
    with (root / "table.csv").open("w") as file:
        file.write(",".join(names) + "\n")
        for row in range(300):
            file.write(",".join([f'"{row},x"', *["1.5"] * 9_998, ""]) + "\n")
    with kind(sources).open(csv(), None) as table:
        batches = list(table.batches())
    assert sum(batch.num_rows for batch in batches) == 300
    assert len(batches) < 10
    assert table.form.names == tuple(names)
    whole = pa.Table.from_batches(batches)
    assert whole["c0"].to_pylist() == [f"{row},x" for row in range(300)]
    assert (whole["c9998"].unique().to_pylist(), whole["c9999"].unique().to_pylist()) == (["1.5"], [""])
    assert table.line(299) == "line 301"


@BOTH
def test_sqlite(kind, root, sources) -> None:
    with closing(sqlite3.connect(root.parent / "clinic.db")) as connection, connection:
        connection.execute("CREATE TABLE visit (pid, a)")
        connection.executemany("INSERT INTO visit VALUES (?, ?)", [(k, k / 2) for k in range(5000)])
    rows = read(kind(sources), query("SELECT * FROM visit ORDER BY a DESC"))[1]
    assert (len(rows), rows[0]) == (5000, {"pid": "4999", "a": "2499.5"})
    with pytest.raises(InvalidData, match="clinic: The query does more than read"):
        read(kind(sources), query("DELETE FROM visit"))


@BOTH
def test_postgresql(kind, postgresql, tmp_path) -> None:
    name = f"reader_{kind.__name__.lower()}_{os.getpid()}"
    host = postgresql.partition("host=")[2]
    (tmp_path / "password").write_text("not asked for")
    url = f"postgresql+psycopg://{name}@/postgres?host={host}"
    clinic = Connection(url=SecretStr(url), password_file=tmp_path / "password", seconds=60)
    with psycopg.connect(postgresql, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {name} LOGIN")
        body = "BEGIN RETURN pg_terminate_backend(pg_backend_pid()); END"
        admin.execute(f"CREATE FUNCTION {name}_end() RETURNS bool LANGUAGE plpgsql STABLE AS '{body}'")
        try:
            connectors = kind(Sources({}, {"clinic": clinic}))
            rows = read(connectors, query("SELECT k, k::text AS t, k::numeric / 4 AS q FROM generate_series(1, 3) k"))[
                1
            ]
            assert [row["t"] for row in rows] == ["1", "2", "3"]
            assert float(rows[0]["q"]) == 0.25
            with pytest.raises(InvalidData, match=r"more than read|not one SELECT"):
                read(connectors, query("WITH x AS (DELETE FROM pg_class RETURNING 1) SELECT * FROM x"))
            with pytest.raises(InvalidData, match="ended the connection"):
                read(connectors, query(f"SELECT {name}_end() AS t"))
            with pytest.raises(InvalidData, match="calls 'pg_terminate_backend', which may do more than read"):
                read(connectors, query("SELECT pg_terminate_backend(pg_backend_pid()) AS t"))
        finally:
            admin.execute(f"DROP FUNCTION {name}_end")
            admin.execute(f"DROP ROLE {name}")


# -- what is given up --------------------------------------------------------------------------------------------------
def test_a_connector_cannot_reach_what_is_the_sites(tmp_path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    found = protections([secret, Path("/etc/passwd"), Path(sys.executable)])
    words = str(found)
    if "Landlock" in words or "seccomp" in words:
        assert found.gaps == ()
    elif "another user" in words:
        assert str(secret) not in found.gaps
    assert "no new privileges" in words
    assert ("another user" in words) == (os.geteuid() == 0)


def test_a_connector_has_no_environment_no_files_and_no_words_of_its_own(root, sources, monkeypatch) -> None:
    monkeypatch.setenv("CROSSWARD_SECRET", SECRET)
    (root / "table.csv").write_bytes(b"pid,a\n" + b"1,2\n" * 4_000_000)
    with Path(os.devnull).open("rb") as other, Processes(sources).open(csv(), None) as table:
        os.set_inheritable(other.fileno(), True)
        batches = table.batches()
        next(batches)
        (pid,) = children()
        status = dict(
            line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line
        )
        assert SECRET.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
        assert SECRET.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
        open_files = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
        assert sum(name.endswith("table.csv") for name in open_files) == 1
        assert open_files.count(os.devnull) == 1
        assert all(name.endswith("table.csv") or name == os.devnull or name.startswith("pipe:") for name in open_files)
        assert status["NoNewPrivs"].strip() == "1"
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
        assert os.getpgid(pid) == pid
        limits = Path(f"/proc/{pid}/limits").read_text()
        assert "Max file size             0 " in limits
        assert "Max core file size        0 " in limits
    assert gone(pid)


def test_a_password_is_on_no_command_line(monkeypatch, tmp_path) -> None:
    seen = []
    popen = connector._popen
    monkeypatch.setattr(connector, "_popen", lambda files: seen.append(popen(files)) or seen[-1])
    url = SecretStr(f"postgresql://reader:{SECRET}@127.0.0.1:1/clinic")
    with pytest.raises(InvalidData, match="cannot be reached") as refusal:
        read(Processes(Sources({}, {"clinic": Connection(url=url)})), query("SELECT 1"))
    assert SECRET not in repr(seen[0].args) + str(refusal.value)


# -- how it ends -------------------------------------------------------------------------------------------------------
def test_it_ends_when_nobody_wants_more(root, sources) -> None:
    (root / "table.csv").write_bytes(b"pid,a\n" + b"1,2\n" * 4_000_000)
    with Processes(sources).open(csv(), None) as table:
        batches = table.batches()
        next(batches)
        (pid,) = children()
        batches.close()
        assert gone(pid)
    with Processes(sources).open(csv(), None) as table:
        (pid,) = children()
    assert gone(pid)
    with pytest.raises(KeyboardInterrupt), Processes(sources).open(csv(), None):
        raise KeyboardInterrupt
    assert not children()


def test_it_ends_with_the_site(root, sources) -> None:
    (root / "table.csv").write_bytes(b"pid,a\n" + b"1,2\n" * 4_000_000)
    script = f"""
import os
from pathlib import Path
from crossward_site.data import connector
from crossward_site.data.places import FilePlace, Sources
popen, started = connector._popen, []
connector._popen = lambda files: started.append(popen(files)) or started[0]
connectors = connector.Processes(Sources({{"exports": Path({str(root)!r})}}))
with connectors.open(FilePlace(kind="csv", path="table.csv"), None) as table:
    batches = table.batches()
    next(batches)
    print(started[0].pid, flush=True)
    os.kill(os.getpid(), 9)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, env=environment)
    assert done.stdout, done.stderr
    pid = int(done.stdout)
    while Path(f"/proc/{pid}").exists() and "zombie" not in Path(f"/proc/{pid}/status").read_text():
        time.sleep(0.01)


def test_it_ends_when_it_takes_too_long_or_says_nothing(sources, root) -> None:
    with closing(sqlite3.connect(root.parent / "clinic.db")) as connection:
        connection.execute("CREATE TABLE t (a)")
    endless = query("WITH RECURSIVE k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k) SELECT count(n) AS n FROM k")
    with pytest.raises(InvalidData, match=r"clinic: nothing came for 1.5 seconds"):
        read(Processes(sources, Limits(silence=1.5)), endless)
    with pytest.raises(InvalidData, match=r"took longer than 1.5 seconds|took too long"):
        read(Processes(sources, Limits(seconds=1.5)), endless)
    everything = query("WITH RECURSIVE k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k) SELECT n FROM k")
    with pytest.raises(InvalidData, match="more than 100,000 rows"):
        read(Processes(sources, Limits(rows=100_000)), everything)
    assert not children()


def test_a_process_that_dies_is_named(root, sources) -> None:
    (root / "table.csv").write_bytes(b"pid,a\n" + b"1,2\n" * 4_000_000)
    with pytest.raises(InvalidData, match=r"exports/table.csv: the reader broke down .signal 9"):  # noqa: PT012, SIM117
        with Processes(sources).open(csv(), None) as table:
            for _ in table.batches():
                for pid in children():
                    os.kill(pid, 9)
    assert not children()


@pytest.mark.parametrize(
    "words",
    [
        b"hello",
        b"F" + (1 << 60).to_bytes(8, "little"),
        b"F" + (2).to_bytes(8, "little") + b"[]",
        b"B" + (2).to_bytes(8, "little") + b"[]",
        b"E" + (2).to_bytes(8, "little") + b"[]",
        b"E" + (25).to_bytes(8, "little") + b'["SystemExit", "a", "b"] ',
        b"",
    ],
)
def test_words_that_are_not_ours_are_refused(words, root, sources, monkeypatch) -> None:
    (root / "table.csv").write_bytes(b"pid,a\n1,2\n")
    monkeypatch.setattr(connector, "_BOOT", f"import os; os.read(0, 1 << 20); os.write(1, {words!r})")
    with pytest.raises(InvalidData, match=r"answers what it should not|broke down"):
        read(Processes(sources), csv())
    assert not children()


def test_a_process_that_says_no_more_and_stays_is_ended(root, sources, monkeypatch) -> None:
    (root / "table.csv").write_bytes(b"pid,a\n1,2\n")
    monkeypatch.setattr(connector, "_ENDING", 0.2)
    boot = "import os, time; os.read(0, 1 << 20); os.close(1); time.sleep(3600)"
    monkeypatch.setattr(connector, "_BOOT", boot)
    with pytest.raises(InvalidData, match="answers what it should not"):
        read(Processes(sources), csv())
    assert not children()


# -- bad input ---------------------------------------------------------------------------------------------------------
@BOTH
@pytest.mark.parametrize("change", ["longer", "shorter", "replaced", "removed"])
def test_a_file_that_changes_while_it_is_read_is_named(kind, change, root, sources) -> None:
    path = root / "table.csv"
    path.write_bytes(b"pid,a\n" + b"1,2\n" * 4_000_000)
    with pytest.raises(InvalidData, match=r"exports/table.csv changed while it was read"):  # noqa: PT012, SIM117
        with kind(sources).open(csv(), None) as table:
            for number, _ in enumerate(table.batches()):
                if number:
                    continue
                if change == "longer":
                    with path.open("ab") as file:
                        file.write(b"1,2\n")
                elif change == "shorter":
                    os.truncate(path, 1000)
                elif change == "replaced":
                    path.with_name("new").write_bytes(path.read_bytes())
                    path.with_name("new").rename(path)
                else:
                    path.unlink()


def test_large_and_empty_files_cost_nothing(root, sources) -> None:
    """A sparse file of 8 GB: one line without an end, or bytes that are zero."""
    with (root / "table.csv").open("wb") as file:
        file.write(b"pid,a\n")
        file.truncate(8 << 30)
    with pytest.raises(InvalidData, match=r"line 2: The line is longer than|zero byte"):
        read(Processes(sources), csv())
    with (root / "table.csv").open("wb") as file:
        file.truncate(8 << 30)
    with pytest.raises(CrosswardError):
        read(Processes(sources), csv())
    with (root / "table.parquet").open("wb") as file:
        file.write(b"PAR1")
        file.truncate(8 << 30)
    with pytest.raises(InvalidData, match="ends early"):
        read(Processes(sources), PARQUET)


def test_a_parquet_file_that_bursts_only_when_it_is_unpacked_is_stopped_by_its_memory(root, sources) -> None:
    """A dictionary of one long text, named by every row: small by its own words."""
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(60_000, np.int32)), pa.array(["x" * 100_000]))
    pq.write_table(pa.table({"a": text}), root / "table.parquet", store_schema=False)
    assert (root / "table.parquet").stat().st_size < 1 << 20
    with pytest.raises(InvalidData, match=r"memory|damaged|broke down") as refusal:
        read(Processes(sources, Limits(memory=128 << 20)), PARQUET)
    assert "memory" in str(refusal.value)
    assert not children()


def test_no_word_of_a_cell_leaves_the_process(root, sources) -> None:
    for data in (f"a,b\n{SECRET},1,2\n", f'a,b\n"{SECRET}', f"a,b\n{SECRET}\0,1\n", f"{SECRET},3\n7,8\n"):
        (root / "table.csv").write_text(data)
        with pytest.raises(CrosswardError) as refusal:
            read(Processes(sources), csv(), ["zzz"] if "," not in data else None)
        assert SECRET not in str(refusal.value)
