"""Queries on SQLite: they read, and nothing else."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

import pytest

from crossward.errors import EmptyData, InvalidData
from crossward_connector.sqlite import SqliteFile, SqliteReading
from crossward_connector.tables import Limits, Opened


@pytest.fixture
def clinic(tmp_path):
    path = tmp_path / "clinic data.sqlite3"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE visit (pid TEXT, value REAL, note, n INTEGER)")
        connection.execute("INSERT INTO visit VALUES ('a', 0.1, 'x', 1), ('b', NULL, 5, 2), ('c', 2.5, NULL, 3)")
    return path


def read(path, query, wanted=None, limits=None, lenient=False):
    limits = limits or Limits()
    with closing(SqliteReading(SqliteFile("clinic", str(path), limits), query, wanted, limits, lenient)) as reading:
        table = Opened("clinic", reading, limits)
        return table, [row for batch in table.batches() for row in batch.to_pylist()]


def test_every_value_is_a_text_whatever_stands_in_other_rows(clinic):
    table, rows = read(clinic, "SELECT * FROM visit ORDER BY pid", ["note", "value", "n"])
    assert rows == [
        {"note": "x", "value": "0.1", "n": "1"},
        {"note": "5", "value": None, "n": "2"},
        {"note": None, "value": "2.5", "n": "3"},
    ]
    assert (table.form.kind, table.form.names, table.line(1)) == ("sql", ("pid", "value", "note", "n"), "row 2")


def test_questions_of_every_reading_kind_are_answered(clinic):
    for query in (
        "WITH RECURSIVE k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k WHERE n < 3) SELECT n FROM k",
        "SELECT upper(pid) AS n FROM visit",
        "SELECT pid AS n FROM visit WHERE value > (SELECT 0) OR value IS NULL;",
        "VALUES (1), (2), (3)",
    ):
        assert len(read(clinic, query)[1]) == 3


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("INSERT INTO visit VALUES ('d', 1, 1, 1) RETURNING pid", "more than read"),
        ("WITH x AS (SELECT 1) INSERT INTO visit SELECT 'd', 1, 1, 1 RETURNING pid", "more than read"),
        ("DELETE FROM visit RETURNING pid", "more than read"),
        ("UPDATE visit SET n = 5 RETURNING pid", "more than read"),
        ("DROP TABLE visit", "more than read"),
        ("CREATE TABLE t (a)", "more than read"),
        ("CREATE TEMP TABLE t AS SELECT 1", "more than read"),
        ("ATTACH DATABASE 'other' AS other", "more than read"),
        ("VACUUM INTO 'copy'", "more than read|not understood"),
        ("PRAGMA query_only = OFF", "more than read"),
        ("PRAGMA table_info(visit)", "more than read"),
        ("COMMIT", "more than read"),
        ("SELECT load_extension('x')", "more than read|not understood"),
        ("SELECT 1; DROP TABLE visit", "more than one statement"),
        ("SELECT 1; COMMIT; SELECT 2", "more than one statement"),
        ("SELECT * FROM hunter2", "not understood"),
        ("SELEKT hunter2", "not understood"),
        ("", "gives no table"),
        ("SELECT 'a\0b'", "more than one|characters|not understood"),
        ("SELECT x'ff00' AS a", "row 1: A cell holds bytes"),
        ("SELECT zeroblob(500000000) AS a", "larger than a cell"),
        ("SELECT pid, pid FROM visit", "'pid' is there twice"),
    ],
)
def test_what_does_more_than_read_is_refused(clinic, query, words):
    before = clinic.read_bytes()
    with pytest.raises(InvalidData, match=words) as refusal:
        read(clinic, query)
    assert "hunter2" not in str(refusal.value)
    assert clinic.read_bytes() == before
    assert sorted(os.listdir(clinic.parent)) == ["clinic data.sqlite3"]


def test_a_mistyped_path_makes_no_file(tmp_path):
    with pytest.raises(InvalidData, match="not there"):
        read(tmp_path / "nowhere.sqlite3", "SELECT 1")
    assert os.listdir(tmp_path) == []
    (tmp_path / "text").write_text("this is a text, and no database at all" * 100)
    with pytest.raises(InvalidData, match="no SQLite database"):
        read(tmp_path / "text", "SELECT 1")


def test_too_much_too_long_and_nothing_are_named(clinic):
    endless = "WITH RECURSIVE k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k) SELECT {} FROM k"
    with pytest.raises(InvalidData, match="more than 1,000 rows"):
        read(clinic, endless.format("n"), limits=Limits(rows=1000))
    with pytest.raises(InvalidData, match="took too long"):
        read(clinic, endless.format("count(n)"), limits=Limits(seconds=0.05))
    with pytest.raises(InvalidData, match="3 columns; 2 are the limit"):
        read(clinic, "SELECT 1 AS a, 2 AS b, 3 AS c", limits=Limits(columns=2))
    with pytest.raises(EmptyData, match="no records"):
        read(clinic, "SELECT * FROM visit WHERE pid = 'nobody'")


def test_a_database_that_others_hold_is_named(clinic):
    with closing(sqlite3.connect(clinic)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(InvalidData, match="locked"):
            read(clinic, "SELECT * FROM visit", limits=Limits(silence=0.1))


def test_a_database_that_writes_ahead_is_read_without_a_trace(clinic):
    with closing(sqlite3.connect(clinic)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    assert len(read(clinic, "SELECT * FROM visit")[1]) == 3
    assert os.listdir(clinic.parent) == ["clinic data.sqlite3"]


def test_a_change_that_was_cut_off_is_named(clinic, tmp_path):
    copy = tmp_path / "copy.sqlite3"
    with closing(sqlite3.connect(clinic)) as connection:
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO visit (note) VALUES (?)", [("x" * 3000,)] * 200)
        connection.execute("UPDATE visit SET note = note || 'y'")
        copy.write_bytes(clinic.read_bytes())
        journal = clinic.with_name(f"{clinic.name}-journal").read_bytes()
    copy.with_name(f"{copy.name}-journal").write_bytes(journal)
    with pytest.raises(InvalidData, match="left in the middle of a change"):
        read(copy, "SELECT * FROM visit")
    assert copy.with_name(f"{copy.name}-journal").read_bytes() == journal
