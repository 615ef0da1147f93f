"""Queries on PostgreSQL: they read, and nothing else; what the server says is told in our words."""

from __future__ import annotations

import re
import secrets
import socket
import struct
import threading
from contextlib import closing, suppress

import psycopg
import pytest
from psycopg import pq

from crossward.errors import CrosswardError, EmptyData, InvalidData, InvalidSetting
from crossward_connector.postgres import PostgresReading, PostgresSession, called
from crossward_connector.tables import Limits, Opened


class Clinic:
    """A schema with a table, and a role that may read it and, worse, write it."""

    def __init__(self, url):
        self.url = url
        self.name = f"t{secrets.token_hex(6)}"
        self.admin = psycopg.connect(url, autocommit=True)
        name = self.name
        self.admin.execute(f"CREATE ROLE {name} LOGIN")
        self.admin.execute(f"CREATE SCHEMA {name} AUTHORIZATION {name}")
        self.admin.execute(f"SET search_path = {name}")
        self.admin.execute("CREATE TABLE visit (pid text, value float8, amount numeric, day date, ok bool, n int)")
        self.admin.execute(
            "INSERT INTO visit VALUES ('a', 0.1, 12.50, '2024-02-29', true, 1), ('b', null, 1e30, null, null, 2)"
        )
        self.admin.execute(
            "CREATE FUNCTION sneak() RETURNS int LANGUAGE sql VOLATILE "
            "AS 'INSERT INTO visit (pid) VALUES (''z''); SELECT 1'"
        )
        self.admin.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA {name} TO {name}")
        self.host = url.partition("host=")[2]

    def parameters(self, **more):
        return {
            "host": self.host,
            "dbname": "postgres",
            "user": self.name,
            "options": f"-csearch_path={self.name}",
        } | more

    def read(self, query, wanted=None, limits=None, lenient=False, **more):
        limits = limits or Limits()
        session = PostgresSession("clinic", self.parameters(**more), limits)
        with closing(session.connection), closing(PostgresReading(session, query, wanted, limits, lenient)) as reading:
            table = Opened("clinic", reading, limits)
            return table, [row for batch in table.batches() for row in batch.to_pylist()]

    def hide(self, head, call):
        """A function that is not what it is declared to be: no plan shows what it calls."""
        self.admin.execute(f"CREATE FUNCTION {head} LANGUAGE plpgsql STABLE AS 'BEGIN RETURN {_quoted(call)}; END'")

    def count(self):
        return self.admin.execute("SELECT count(*) FROM visit").fetchone()[0]


def _quoted(text):
    return text.replace("'", "''")


@pytest.fixture
def clinic(postgresql):
    clinic = Clinic(postgresql)
    yield clinic
    clinic.admin.execute(f"DROP SCHEMA {clinic.name} CASCADE")
    clinic.admin.execute(f"DROP ROLE {clinic.name}")
    clinic.admin.close()


def test_values_come_as_plain_columns(clinic):
    table, rows = clinic.read("SELECT * FROM visit ORDER BY pid", ["pid", "value", "amount", "day", "ok", "n"])
    assert rows == [
        {"pid": "a", "value": 0.1, "amount": "12.50", "day": "2024-02-29", "ok": True, "n": 1},
        {"pid": "b", "value": None, "amount": "1" + "0" * 30, "day": None, "ok": None, "n": 2},
    ]
    assert (table.form.kind, table.line(1)) == ("sql", "row 2")


def test_short_floating_point_numbers_are_known(clinic):
    table, _ = clinic.read("SELECT 1::real AS short, 1::float8 AS long")
    assert table.form.short == ("short",)


def test_rows_are_streamed_in_order(clinic):
    _, rows = clinic.read("SELECT k AS n FROM generate_series(1, 200000) AS k ORDER BY k")
    assert [row["n"] for row in rows] == list(range(1, 200_001))


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("INSERT INTO visit (pid) VALUES ('z') RETURNING pid", "not one SELECT"),
        ("WITH x AS (INSERT INTO visit (pid) VALUES ('z') RETURNING pid) SELECT * FROM x", "more than read"),
        ("SELECT sneak()", "more than read"),
        ("SELECT 1; INSERT INTO visit (pid) VALUES ('z')", "not one SELECT"),
        ("SELECT 1; COMMIT; INSERT INTO visit (pid) VALUES ('z')", "not one SELECT"),
        ("SELECT 1; ROLLBACK; BEGIN READ WRITE; DELETE FROM visit; COMMIT", "not one SELECT"),
        ("SELECT 1) TO PROGRAM 'id' --", "not one SELECT"),
        ("SELECT pid INTO copy FROM visit", "not one SELECT|more than read|not understood"),
        ("SELECT * FROM visit FOR UPDATE", "more than read"),
        ("COMMIT", "not one SELECT"),
        ("COPY visit TO STDOUT", "not one SELECT"),
        ("COPY (SELECT 1) TO PROGRAM 'id'", "not one SELECT"),
        ("DO $$ BEGIN DELETE FROM visit; END $$", "not one SELECT"),
        ("SET default_transaction_read_only = off", "not one SELECT"),
        ("CREATE TEMP TABLE t AS SELECT 1", "not one SELECT"),
        ("DROP TABLE visit", "not one SELECT"),
        ("SELECT set_config('transaction_read_only', 'off', false), sneak()", "more than read"),
        ("SELECT set_config('transaction_read_only', 'off', true)", "more than read|refuses"),
        ("SELECT pg_read_file('/etc/passwd')", "may not read this"),
        ("SELECT * FROM pg_authid", "may not read this"),
        ("SELECT lo_import('/etc/passwd')", "may not read this|more than read"),
        ("SELECT * FROM hunter2", "a table that is not there"),
        ("SELECT hunter2 FROM visit", "a column that is not there"),
        ("SELECT 'hunter2'::int", "cannot be computed"),
        ("SELECT 1 / (n - n) FROM visit", "cannot be computed"),
        ("hunter2", "not one SELECT"),
        ("SELECT 'a\0b'", "characters that no query"),
        ("SELECT n AS a, n AS a FROM visit", "'a' is there twice"),
        ("SELECT ARRAY[1, 2] AS a", "'a' holds no single values"),
        ("SELECT '{}'::jsonb AS a", "'a' holds no single values"),
        ("SELECT 'x'::bytea AS a", "'a' holds no single values"),
    ],
)
def test_what_does_more_than_read_is_refused(clinic, query, words):
    with pytest.raises(InvalidData, match=words) as refusal:
        clinic.read(query)
    assert "hunter2" not in str(refusal.value)
    assert clinic.count() == 2


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("pg_logical_emit_message(false, 'x', 'y')::text", "pg_logical_emit_message"),
        ("pg_terminate_backend(-1)", "pg_terminate_backend"),
        ("pg_catalog . pg_cancel_backend (-1)", "pg_cancel_backend"),
        ("pg_advisory_lock(1)::text", "pg_advisory_lock"),
        ("PG_ADVISORY_XACT_LOCK(1)::text", "pg_advisory_xact_lock"),
        ("lo_create(0)", "lo_create"),
        ("txid_current()", "txid_current"),
        ("pg_notify/**/('a', 'b')::text", "pg_notify"),
        ("query_to_xml('SELECT 1', true, true, '')::text", "query_to_xml"),
        ("set_config('statement_timeout', '0', false)", "set_config"),
        ("nextval('numbers')", "nextval"),
        ('"Odd one"(1)', "Odd one"),
        ('odd . "Odd one"(1)', "Odd one"),
        ("v.hint", "hint"),
    ],
)
def test_a_call_of_a_function_that_may_do_more_than_read_is_refused_by_name(clinic, call, name):
    clinic.admin.execute("CREATE SEQUENCE numbers")
    clinic.admin.execute("CREATE FUNCTION \"Odd one\"(n int) RETURNS int LANGUAGE sql VOLATILE AS 'SELECT 1'")
    clinic.admin.execute('ALTER FUNCTION "Odd one" COST 7')
    clinic.admin.execute("CREATE FUNCTION hint(v visit) RETURNS int LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN 1; END'")
    call = call.replace("odd .", f"{clinic.name} .")
    places = (
        f"SELECT {call} AS a FROM visit AS v",
        f"SELECT n FROM visit AS v WHERE ({call})::text <> ''",
        f"WITH w AS MATERIALIZED (SELECT {call} AS a FROM visit AS v) SELECT a::text FROM w",
        f"SELECT n FROM visit AS v ORDER BY ({call})::text",
    )
    for query in places:
        with pytest.raises(InvalidData, match=f"'{name}', which may do more than read"):
            clinic.read(query)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM pg_notify('a', 'b') AS a",
        "SELECT * FROM ROWS FROM (pg_notify('a', 'b'), generate_series(1, 2)) AS a",
        "SELECT a::text FROM (VALUES (pg_notify('a', 'b')), (null)) AS v (a)",
        "SELECT 1 AS a LIMIT length(pg_notify('a', 'b')::text)",
        "SELECT 1 AS a OFFSET length(pg_notify('a', 'b')::text)",
        "SELECT sum(n) OVER (ROWS length(\"pg_notify\"/* /* ( */ */('a', 'b')::text) PRECEDING) AS a FROM visit",
        "SELECT notices.n FROM notices",
    ],
)
def test_a_call_that_stands_elsewhere_is_found_too(clinic, query):
    clinic.admin.execute("CREATE VIEW notices AS SELECT n, pg_notify('a', 'b')::text AS sent FROM visit OFFSET 0")
    clinic.admin.execute(f"GRANT SELECT ON notices TO {clinic.name}")
    with pytest.raises(InvalidData, match="'pg_notify', which may do more than read"):
        clinic.read(query)
    with pytest.raises(InvalidData, match="by the numbers of its characters"):
        clinic.read("SELECT 1 AS a LIMIT length(U&\"\\0070g_notify\"('a', 'b')::text)")


def test_functions_that_only_read_or_are_harmless_are_called(clinic):
    clinic.admin.execute(
        "CREATE FUNCTION twice(n int) RETURNS int LANGUAGE plpgsql STABLE AS 'BEGIN RETURN 2 * n; END'"
    )
    query = """
        SELECT twice(n) AS n, 'a notice (it''s)' || E'\\\\' AS "lo_create (", now()::date::text AS day, -- a remark
               random() AS r, gen_random_uuid()::text AS u, clock_timestamp()::text AS t, count(*) OVER () AS system
        FROM visit JOIN (VALUES (1, 'one'), (2, 'two')) AS v (k, word) ON k = n ORDER BY 1 LIMIT 5
    """
    _, rows = clinic.read(query)
    assert [row["n"] for row in rows] == [2, 4]


@pytest.mark.parametrize(
    ("query", "fix"),
    [
        ("SELECT pid FROM visit WHERE nowhere = 1", "character 29 of it"),
        ("SELECT 'ä€𝄞', nothing(1)", "character 15 of it"),
        ("SELEC pid FROM visit", "character 1 of it"),
        ("INSERT INTO visit (pid) VALUES ('z')", "character 1 of it"),
    ],
)
def test_where_a_query_is_misspelt_is_told(clinic, query, fix):
    with pytest.raises(InvalidData) as refusal:
        clinic.read(query)
    assert re.search(fix, refusal.value.fix)


def test_too_much_too_long_and_nothing_are_named(clinic):
    with pytest.raises(InvalidData, match="more than 1,000 rows"):
        clinic.read("SELECT generate_series(1, 1000000000) AS n", limits=Limits(rows=1000))
    with pytest.raises(InvalidData, match="took too long"):
        clinic.read("SELECT pg_sleep(600)::text AS n", limits=Limits(seconds=0.2))
    with pytest.raises(InvalidData, match="3 columns; 2 are the limit"):
        clinic.read("SELECT 1 AS a, 2 AS b, 3 AS c", limits=Limits(columns=2))
    with pytest.raises(InvalidData, match="row 1: A cell of the column 'a' is longer"):
        clinic.read("SELECT repeat('x', 2000) AS a", limits=Limits(cell=1000))
    with pytest.raises(EmptyData, match="no records"):
        clinic.read("SELECT * FROM visit WHERE pid = 'nobody'")
    with pytest.raises(CrosswardError, match="no columns"):
        clinic.read("SELECT FROM visit")


def test_a_server_that_ends_the_connection_is_named(clinic):
    clinic.hide("hang_up(n int) RETURNS bool", "pg_terminate_backend(pg_backend_pid())")
    end = "CASE WHEN k = 90000 THEN hang_up(k::int) END"
    query = f"SELECT k, {end} AS x FROM generate_series(1, 100000) AS k"
    with pytest.raises(InvalidData, match="ended the connection"):
        clinic.read(query)


def test_a_role_that_could_read_the_servers_files_is_refused(clinic):
    clinic.admin.execute(f"GRANT pg_read_server_files TO {clinic.name}")
    for user in (clinic.name, "tester"):
        with pytest.raises(InvalidSetting, match="may do more than read tables"):
            clinic.read("SELECT 1 AS a", user=user)


def test_a_database_that_is_not_there_or_lets_nobody_in_is_named(clinic):
    with pytest.raises(InvalidData, match="refuses the login"):
        clinic.read("SELECT 1", user="nobody-of-that-name")
    with pytest.raises(InvalidData, match="no such database"):
        clinic.read("SELECT 1", dbname="nowhere")
    with pytest.raises(InvalidData, match="cannot be reached"):
        clinic.read("SELECT 1", host="/nowhere")


def test_a_server_that_takes_the_call_and_says_nothing_is_named():
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        parameters = {"host": "127.0.0.1", "port": str(silent.getsockname()[1]), "dbname": "x", "connect_timeout": "2"}
        with pytest.raises(InvalidData, match="does not answer"):
            PostgresSession("clinic", parameters, Limits())


def test_a_server_that_hangs_up_is_named():
    with closing(socket.create_server(("127.0.0.1", 0))) as rude:

        def hang_up():
            for _ in range(4):
                try:
                    rude.accept()[0].close()
                except OSError:
                    return

        threading.Thread(target=hang_up, daemon=True).start()
        parameters = {"host": "127.0.0.1", "port": str(rude.getsockname()[1]), "dbname": "x", "sslmode": "disable"}
        with pytest.raises(InvalidData, match=r"cannot be reached|ended the connection|TLS"):
            PostgresSession("clinic", parameters, Limits())


def test_a_role_that_could_become_a_stronger_one_is_refused(clinic):
    boss = f"{clinic.name}boss"
    for strength in ("SUPERUSER", "NOSUPERUSER REPLICATION"):
        clinic.admin.execute(f"CREATE ROLE {boss} {strength}")
        clinic.admin.execute(f"GRANT {boss} TO {clinic.name}")
        try:
            with pytest.raises(InvalidSetting, match="may do more than read tables"):
                clinic.read("SELECT 1 AS a")
        finally:
            clinic.admin.execute(f"DROP ROLE {boss}")


@pytest.mark.parametrize("setting", ["statement_timeout", "client_connection_check_interval"])
def test_a_query_cannot_switch_its_limits_off(clinic, setting):
    clinic.hide("switch_off(name text) RETURNS text", "set_config(name, '0', false)")
    off = f"CASE WHEN k <= 64 THEN switch_off('{setting}') ELSE current_setting('{setting}') END"
    _, rows = clinic.read(f"SELECT k, {off} AS now FROM generate_series(1, 65) AS k", limits=Limits(seconds=77))
    assert {row["now"] for row in rows[:64]} == {"0"}
    assert rows[64]["now"] == {"statement_timeout": "77s"}.get(setting, "5s")


# -- a server that is none --------------------------------------------------------------------------------------------
SECRET = b"hunter2"


def message(kind, body):
    return kind + struct.pack("!i", len(body) + 4) + body


def refusing(state):
    return message(b"E", b"SERROR\0C" + state + b"\0M" + SECRET + b"\0D" + SECRET + b"\0\0")


def described(*columns):
    fields = (name + b"\0" + struct.pack("!iHihih", 0, 0, oid, -1, -1, 0) for name, oid in columns)
    return message(b"T", struct.pack("!H", len(columns)) + b"".join(fields))


def row(*cells):
    return message(b"D", struct.pack("!H", len(cells)) + b"".join(struct.pack("!i", len(c)) + c for c in cells))


class Impostor(threading.Thread):
    """Speaks the protocol as far as the first rows, which it answers with `rows`; logs in by `login`.

    It answers `plan` when it is asked for a plan, and `found` when it is asked for functions.
    """

    def __init__(self, rows=b"", login=b"", plan=None, found=None):
        super().__init__(daemon=True)
        self._rows, self._login = rows, login
        self._plan = described((b"QUERY PLAN", 114)) + row(b"[]") if plan is None else plan
        self._found = described((b"name", 25)) if found is None else found
        self.heard = b""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.parameters = {
            "host": "127.0.0.1",
            "port": str(self._socket.getsockname()[1]),
            "dbname": "x",
            "user": "u",
            "password": SECRET.decode(),
            "sslmode": "disable",
            "gssencmode": "disable",
        }
        self.start()

    def run(self):
        with suppress(OSError, struct.error), self._socket, self._socket.accept()[0] as peer:
            self._serve(peer, peer.makefile("rb"))  # until the connector has heard enough

    def _serve(self, peer, file):
        file.read(struct.unpack("!i", file.read(4))[0] - 4)
        if self._login:
            peer.sendall(self._login)
            self.heard = file.read(1)
            if not self.heard:
                return
            self.heard = file.read(struct.unpack("!i", file.read(4))[0] - 4)
        ready = message(b"Z", b"T")
        about = message(b"S", b"server_version\x0015.1\0") + message(b"S", b"client_encoding\0UTF8\0")
        peer.sendall(message(b"R", bytes(4)) + about + message(b"Z", b"I"))
        query = b""
        while kind := file.read(1):
            body = file.read(struct.unpack("!i", file.read(4))[0] - 4)
            query = body[:-1] if kind == b"Q" else body.split(b"\0")[1] if kind == b"P" else query
            if kind not in b"QS":
                continue
            answer = message(b"1", b"") + message(b"2", b"") if kind == b"S" else b""
            if b"rolsuper" in query:
                answer += described((b"strong", 16)) + row(b"f")
            elif b"EXPLAIN" in query:
                answer += self._plan
            elif b"pg_proc" in query:
                answer += self._found
            elif b"FETCH 0" in query:
                answer += described((b"pid", 25), (b"n", 23))
            elif b"FETCH" in query:
                answer += self._rows
            peer.sendall(answer + message(b"C", query.split()[0] + b"\0") + ready)

    def read(self):
        session = PostgresSession("clinic", self.parameters, Limits())
        with closing(session), closing(PostgresReading(session, "SELECT 1", None, Limits())) as reading:
            return [piece.batch.to_pylist() for piece in reading.pieces()]


_COLUMNS = described((b"pid", 25), (b"n", 23))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (refusing(b"hunter2"), "with a state of its own"),
        (refusing(b"HUNT2"), "with a state of its own"),
        (refusing(b"22P02"), "cannot be computed"),
        (refusing(b"21000"), "with state 21000"),
        (_COLUMNS + row(b"a", SECRET), "answers what no PostgreSQL does"),
        (_COLUMNS + row(b"a", b"9" * 40), "answers what no PostgreSQL does"),
        (_COLUMNS + row(SECRET), "answers what no PostgreSQL does"),
        (_COLUMNS + row(SECRET + b"\xff", b"1"), "not in the database's encoding"),
        (message(b"H", bytes(3)) + message(b"d", SECRET) + message(b"c", b""), "answers what no PostgreSQL does"),
        (b"D" + struct.pack("!i", -5) + SECRET, "ended the connection|answers what"),
        (message(b"D", struct.pack("!Hi", 2, -7) + SECRET), "answers what no PostgreSQL does"),
    ],
)
def test_whatever_a_server_says_is_told_in_our_words(rows, words):
    with pytest.raises(InvalidData, match=words) as refusal:
        Impostor(rows).read()
    assert "hunter2" not in str(refusal.value).lower()


@pytest.mark.parametrize(
    "told",
    [
        {"plan": b""},
        {"plan": described((b"QUERY PLAN", 114))},
        {"plan": described((b"QUERY PLAN", 114)) + row(SECRET)},
        {"plan": described((b"QUERY PLAN", 114)) + row(b"\xff")},
        {"plan": described((b"QUERY PLAN", 114)) + row(b"[" * 100_000)},
        {"found": described((b"name", 25)) + row(SECRET)},
        {"found": described((b"name", 25)) + row(b"\xff")},
        {"found": described((b"name", 23)) + row(b"1")},
        {"found": described((b"name", 25), (b"more", 25)) + row(b"select", SECRET)},
        {"found": described() + row()},
    ],
)
def test_a_plan_or_a_function_that_no_server_tells_is_refused(told):
    with pytest.raises(InvalidData, match="answers what no PostgreSQL does") as refusal:
        Impostor(_COLUMNS, **told).read()
    assert "hunter2" not in str(refusal.value)


def test_names_that_cannot_be_asked_for_are_left_out():
    plan = [{"Output": ["f(1)", '"\0"(1)'], "Function Name": "\udfff", "Plans": [7, None, {"Filter": "g (2)"}]}]
    calls = called('SELECT "\ud800"', plan)
    assert calls == {("pg_catalog", "select"), ("", "f"), ("", "g")}


@pytest.mark.skipif(pq.version() < 160000, reason="this libpq gives a password to whoever asks")
def test_no_password_is_said_in_clear_text():
    server = Impostor(login=message(b"R", struct.pack("!i", 3)))
    with pytest.raises(InvalidData, match="asks for the password in clear text"):
        server.read()
    server.join(60)
    assert SECRET not in server.heard
