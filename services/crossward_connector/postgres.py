"""A query on PostgreSQL: one statement, in a read-only transaction, through a cursor, rolled back at the end.

The query follows `DECLARE ... CURSOR FOR` in the extended protocol, which takes a single statement: nothing but a
SELECT can stand there, and nothing after it. A role that could read files of the database's machine, or become one
that can, is refused, since a SELECT can do that too. A SELECT can also switch the session's own limits off, so they are
set anew before each batch.

Functions can do what a read-only transaction does not forbid: fill the server's log, hold locks, end other sessions.
So the server is asked for the query's plan before any row, and a query that calls a VOLATILE function is refused, but
for a few that are harmless. This is a second wall: the rights of the role are the first. It sees neither what a
function calls inside, nor what an operator, a cast or an aggregate does, and it believes what a function is declared to
be. Plans do not show the calls in LIMIT, in lists of VALUES and in frames of windows: there the words of the query are
looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import pq
from psycopg.types.string import TextLoader

from crossward.errors import CrosswardError, InvalidData, InvalidSetting
from crossward_connector.tables import (
    Fault,
    Faults,
    Form,
    Limits,
    Piece,
    check_cells,
    check_count,
    check_rows,
    check_some,
    columns_of,
    shown,
    too_long,
)

_WHOLE = (20, 21, 23, 26)
_SHORT = 700
_REAL = (700, 701)
_YES_NO = 16
_TEXTS = frozenset((18, 19, 25, 1042, 1043, 1700, 1082, 1083, 1114, 1184, 1266, 2950, 705))
"""Characters, names, texts, numerics, dates and times, UUIDs, unknown: as the server writes them."""
_PLAIN_KINDS = frozenset("BDEINST")
"""pg_type.typcategory of what is a single value: no array, composite, range, JSON or bytes."""

_HARMLESS = [
    *("random", "random_normal", "setseed", "array_sample", "array_shuffle", "gen_random_uuid", "uuidv4", "uuidv7"),
    *("clock_timestamp", "timeofday", "pg_sleep", "pg_sleep_for", "pg_sleep_until"),
]
"""VOLATILE functions of PostgreSQL that change nothing and harm nobody; their time is bounded."""
_HARMFUL = ["txid_current", "pg_current_xact_id"]
"""Functions that are called STABLE and write all the same: each gives away one of the server's numbers."""
_NAME = r'(?:"[^"]*+(?:""[^"]*+)*+"|[^\W\d][\w$]*+)'
_WORD = re.compile(rf'(?<![\w$"]){_NAME}')
_CALL = re.compile(rf'(?<![\w$"])(?:({_NAME})\s*+\.\s*+)?({_NAME})\s*+\(')
_LITERAL = re.compile(r"""("[^"]*+(?:""[^"]*+)*+")|'[^']*+(?:''[^']*+)*+'""")
_VOLATILE = """
    SELECT asked.name FROM unnest(%s::text[], %s::text[]) AS asked (schema, name)
    JOIN pg_catalog.pg_proc AS p ON p.proname = asked.name::name
    JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
    WHERE (p.provolatile = 'v' OR n.nspname = 'pg_catalog' AND p.proname = ANY (%s::text[]))
    AND NOT 2281 = ANY (p.proargtypes)
    AND CASE WHEN asked.schema = '' THEN pg_catalog.pg_function_is_visible(p.oid)
             ELSE n.nspname = asked.schema::name END
    AND NOT (n.nspname = 'pg_catalog' AND p.proname = ANY (%s::text[]))
    ORDER BY 1 LIMIT 1
"""
"""The first of the functions asked for that is VOLATILE. Type 2281 is "internal": no query can give such a value."""

_ONLY_READ = "Give one SELECT that only reads."
_MORE = ("The query does more than read.", _ONLY_READ)
_SLOW = ("The query took too long.", "Ask for less, or raise the connection's seconds.")
_ENDED = ("The database ended the connection.", "Check that it is well, and ask again.")
_MEANING = ("The query is not understood.", "Check its words, tables and columns where you wrote it.")
_STRANGE = ("The database answers what no PostgreSQL does.", "Check that the connection's url leads to PostgreSQL.")
_NUMBERED = ("The query writes a name by the numbers of its characters.", 'Write names as they are, without U&"...".')
_IN_CLEAR = (
    "The database asks for the password in clear text, where others could read it.",
    "Have it ask by scram-sha-256, or say sslmode=verify-full in the connection's url.",
)
_LOGIN = ("The database refuses the login.", "Check user and password of the connection in the settings file.")
_STATES: dict[str, tuple[str, str]] = {
    "25006": _MORE,
    "25001": _MORE,
    "0A000": _MORE,
    "57014": _SLOW,
    "25P03": _SLOW,
    "42501": ("The role may not read this.", "Grant SELECT on these tables to the connection's role."),
    "42P01": ("The query names a table that is not there.", "Check its tables and the role's search_path."),
    "42703": ("The query names a column that is not there.", "Check its columns."),
    "42601": ("The query is not one SELECT, or is misspelt.", _ONLY_READ),
    "3D000": ("There is no such database.", "Correct the connection's url."),
    "08P01": _MEANING,  # a parameter, which nobody gives
    "53300": ("The database has too many connections.", "Ask again later."),
    "22021": ("A text is not in the database's encoding.", "Convert it in the query."),
    "22P05": ("A text has characters that UTF-8 lacks.", "Convert it in the query."),
}
_CLASSES: dict[str, tuple[str, str]] = {
    "28": _LOGIN,
    "42": _MEANING,
    "08": _ENDED,
    "57": _ENDED,
    "53": ("The database lacks memory or space for this query.", "Ask for less."),
    "22": ("A value of the query cannot be computed.", "Check its conversions and divisions."),
}


_REQUIRES_WAYS = 160000
"""The version of libpq from which on it can be told which ways to log in are refused."""


class PostgresSession:
    """A connection in a read-only transaction."""

    def __init__(self, where: str, parameters: Mapping[str, str], limits: Limits) -> None:
        self.where = where
        self._set = ""
        milliseconds = max(1, min(int(limits.seconds * 1000), 2**31 - 1))
        options = " ".join(
            [
                str(parameters.get("options", "")),
                f"-c default_transaction_read_only=on -c statement_timeout={milliseconds}",
                "-c DateStyle=ISO,YMD -c IntervalStyle=iso_8601 -c extra_float_digits=3 -c TimeZone=UTC",
            ]
        )
        told = {**parameters, "options": options.strip(), "client_encoding": "UTF8"}
        told.setdefault("connect_timeout", str(max(2, int(min(30, limits.silence)))))
        told.setdefault("application_name", "crossward")
        if pq.version() >= _REQUIRES_WAYS and not _is_private(told):
            told.setdefault("require_auth", "!password")
        try:
            self.connection = psycopg.connect(autocommit=True, prepare_threshold=None, **told)  # type: ignore[arg-type]
        except psycopg.Error as error:
            raise self._unreached(error) from None
        except (ValueError, OSError, UnicodeError):
            raise InvalidSetting(f"{where}: the connection makes no sense.", "Correct its url.") from None
        try:
            self._begin(milliseconds)
        except psycopg.Error as error:
            refusal = self.refusal(error)
            self.close()
            raise refusal from None
        except InvalidSetting:
            self.close()
            raise

    def close(self) -> None:
        """Roll back and leave."""
        self.connection.close()

    def keep_limits(self) -> None:
        """Set the session's limits again: a query's functions may have changed them, for the statements to come."""
        self.connection.execute(self._set.encode())

    def _begin(self, milliseconds: int) -> None:
        connection = self.connection
        notice = "SET client_connection_check_interval = '5s'"
        try:  # from version 14 on the server notices by itself that nobody listens any more
            connection.execute(notice)
        except psycopg.Error:
            if connection.closed:
                raise
            notice = ""
        self._set = f"SET statement_timeout = {milliseconds}; {notice}"
        strong = connection.execute(
            "SELECT EXISTS (SELECT FROM pg_catalog.pg_roles AS r WHERE (r.rolsuper OR r.rolreplication OR r.rolname IN "
            "('pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program')) "
            "AND pg_catalog.pg_has_role(session_user, r.oid, 'MEMBER'))"
        ).fetchone()
        if strong is None or strong[0]:
            raise InvalidSetting(
                f"{self.where}: the connection's role may do more than read tables: it is, or may become, one that is "
                "a superuser, replicates, or uses the files of the database's machine.",
                "Create a role that may only SELECT what studies need, and name it in the connection's url.",
            )
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def refusal(self, error: psycopg.Error) -> CrosswardError:
        """Words for a failure; never the server's, which may quote the query or a value."""
        state = error.sqlstate or ""
        if not state and self.connection.closed:
            state = "08000"
        cause, fix = _words(state)
        return InvalidData(f"{self.where}: {cause}", fix)

    def _unreached(self, error: psycopg.Error) -> CrosswardError:
        """Why there is no connection. libpq says it in words alone, in which a host and a user may stand."""
        words = str(error).lower()
        if "authentication method requirement" in words:
            cause, fix = _IN_CLEAR
        elif "password" in words or "authentication" in words or "pg_hba" in words or "role" in words:
            cause, fix = _LOGIN
        elif "does not exist" in words and "database" in words:
            cause, fix = _STATES["3D000"]
        elif "certificate" in words or "ssl" in words:
            cause, fix = "The database's TLS is refused.", "Check sslmode and sslrootcert of the connection."
        elif "timeout" in words or "timed out" in words:
            cause, fix = "The database does not answer.", "Check host, port, firewall and whether it runs."
        else:
            cause, fix = "The database cannot be reached.", "Check host, port, name and whether it runs."
        return InvalidData(f"{self.where}: {cause}", fix)


class PostgresReading:
    """One reading of a query's result."""

    def __init__(
        self, session: PostgresSession, query: str, wanted: Sequence[str] | None, limits: Limits, lenient: bool = False
    ) -> None:
        self.faults = Faults(session.where, lenient, "row")
        self._session, self._limits = session, limits
        self._cursor = session.connection.cursor()
        self._declare(query)
        self._check(query)
        try:
            self._cursor.execute("FETCH 0 FROM crossward_rows")
            columns = self._cursor.description or []
            kinds = self._kinds({column.type_code for column in columns})
        except psycopg.Error as error:
            raise session.refusal(error) from None
        names = [column.name for column in columns]
        check_count(len(names), limits, self.faults)
        chosen = columns_of(names, wanted, self.faults)
        for index in chosen:
            if kinds[columns[index].type_code] is None:
                cause = f"The column {shown(names[index])} holds no single values."
                self.faults.add(Fault(cause, "Convert it to a number or a text in the query.", column=names[index]))
        self._columns = [index for index in chosen if kinds[columns[index].type_code] is not None]
        self.schema = pa.schema([(names[index], kinds[columns[index].type_code]) for index in self._columns])
        self.form = Form("sql", tuple(names), short=tuple(c.name for c in columns if c.type_code == _SHORT))
        for kind in {column.type_code for column in columns} - {*_WHOLE, *_REAL, _YES_NO}:
            self._cursor.adapters.register_loader(kind, TextLoader)

    def close(self) -> None:
        """Roll back."""
        self._session.close()

    def pieces(self) -> Iterator[Piece]:
        """All rows."""
        rows, size = 0, 64
        while batch := self._fetch(size):
            plain = self._make(batch)
            rows += len(batch)
            check_rows(rows, self._limits, self.faults)
            if long := check_cells(plain, self._limits):
                raise self.faults.fatal(too_long(self._limits, rows - len(batch) + long[0] + 1, long[1]))
            yield Piece(plain, 0.0)
            width = max(plain.nbytes // len(batch), 64 * len(self._columns), 1)
            size = max(1, min(self._limits.batch_rows, self._limits.batch_bytes // width, 4 * size))
        check_some(rows, self.faults)
        try:
            self._session.connection.execute("ROLLBACK")
        except psycopg.Error as error:
            raise self._session.refusal(error) from None

    def _check(self, query: str) -> None:
        """Refuse a query with a function that may do more than read; it was not called yet, as no row was asked for."""
        if 'u&"' in query.lower():
            raise self._error(_NUMBERED)
        result = self._run("EXPLAIN (VERBOSE, FORMAT JSON) ", query)
        try:
            plan = json.loads(result.get_value(0, 0) or b"")
            calls = called(query, plan)
        except (ValueError, RecursionError):
            raise self._error(_STRANGE) from None
        if name := self._volatile(calls):
            cause = f"The query calls {shown(name)}, which may do more than read."
            fix = "Leave it out; where it only reads, have the database's owner declare it STABLE."
            raise self._error((cause, fix))

    def _volatile(self, calls: set[tuple[str, str]]) -> str | None:
        """One of these functions, each by schema and name, that is VOLATILE and not known as harmless."""
        schemas, names = [schema for schema, _ in calls], [name for _, name in calls]
        try:
            found = self._session.connection.execute(_VOLATILE, [schemas, names, _HARMFUL, _HARMLESS]).fetchone()
        except psycopg.Error as error:
            raise self._session.refusal(error) from None
        except ValueError:
            raise self._error(_STRANGE) from None
        if found is None:
            return None
        name = next((name for name in names if found == (name,)), None)
        if name is None:  # no word of a strange server is told
            raise self._error(_STRANGE)
        return name

    def _declare(self, query: str) -> None:
        if "\0" in query:
            raise InvalidData(f"{self.faults.where}: The query holds characters that no query does.", _ONLY_READ)
        self._run("DECLARE crossward_rows NO SCROLL CURSOR WITHOUT HOLD FOR ", query)

    def _run(self, before: str, query: str) -> pq.abc.PGresult:
        """One statement that ends with the query, by the extended protocol, which takes no second one."""
        result = self._session.connection.pgconn.exec_params((before + query).encode("utf-8", "replace"), [])
        if result.status in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
            return result
        state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode("ascii", "replace")
        cause, fix = _words(state) if state else _ENDED
        position = (result.error_field(pq.DiagnosticField.STATEMENT_POSITION) or b"").decode("ascii", "replace")
        if state.startswith("42") and re.fullmatch(r"[0-9]{1,9}", position):
            place = int(position) - len(before)
            fix += f" The server points to character {place:,} of it." if 0 < place <= len(query) else ""
        raise self._error((cause, fix))

    def _kinds(self, oids: set[int]) -> dict[int, Any]:
        """The plain type of each of the server's types; None where it holds no single values."""
        kinds: dict[int, Any] = dict.fromkeys(_WHOLE, pa.int64()) | dict.fromkeys(_REAL, pa.float64())
        kinds |= {_YES_NO: pa.bool_()} | dict.fromkeys(_TEXTS, pa.string())
        if strange := sorted(oids - kinds.keys()):
            found = self._session.connection.execute(
                "SELECT oid::int8, typcategory::text FROM pg_catalog.pg_type WHERE oid = ANY(%s::oid[])", [strange]
            ).fetchall()
            plain = {oid for oid, category in found if category in _PLAIN_KINDS}
            kinds |= {oid: pa.string() if oid in plain else None for oid in strange}
        return kinds

    def _fetch(self, size: int) -> list[Any]:
        try:
            self._session.keep_limits()
            self._cursor.execute(f"FETCH FORWARD {size} FROM crossward_rows".encode())
            return self._cursor.fetchall()
        except psycopg.Error as error:
            raise self._session.refusal(error) from None
        except UnicodeDecodeError:
            raise self._error(_STATES["22021"]) from None
        except (ValueError, TypeError, OverflowError):
            raise self._error(_STRANGE) from None

    def _make(self, rows: list[Any]) -> pa.RecordBatch:
        try:
            arrays = [
                pa.array([row[index] for row in rows], kind)
                for index, kind in zip(self._columns, self.schema.types, strict=True)
            ]
        except MemoryError:
            raise
        except (pa.ArrowException, ValueError, TypeError, OverflowError, IndexError):
            raise self._error(_STRANGE) from None
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _error(self, words: tuple[str, str]) -> InvalidData:
        cause, fix = words
        return InvalidData(f"{self.faults.where}: {cause}", fix)


def called(query: str, plan: object) -> set[tuple[str, str]]:
    """The functions that a query may call, each by its schema (empty where none is written) and its name.

    From the plan: names before a bracket, outside literals. From the query, whose literals and comments cannot be told
    for sure: names before a bracket, and each word as if it were the name of a function of PostgreSQL's own.

    >>> sorted(called("", [{"Output": ["app.f('g(1)')", '"My f"(1)'], "Schema": "app", "Function Name": "h"}]))
    [('', 'My f'), ('app', 'f'), ('app', 'h')]
    """
    calls = {("pg_catalog", _name(word)) for word in _WORD.findall(query)} | _calls(query)
    rest = [plan]
    while rest:
        part = rest.pop()
        if isinstance(part, dict):
            if isinstance(name := part.get("Function Name"), str):
                calls.add((str(part.get("Schema", "")), name))
            rest += part.values()
        elif isinstance(part, list):
            rest += part
        elif isinstance(part, str):
            calls |= _calls(_LITERAL.sub(lambda found: found[1] or "''", part))
    return {(schema, name) for schema, name in calls if not re.search("[\0\ud800-\udfff]", schema + name)}


def _calls(text: str) -> set[tuple[str, str]]:
    return {(_name(schema), _name(name)) for schema, name in _CALL.findall(text)}


def _name(written: str) -> str:
    """A name as the server keeps it: in small letters, but for one in quotes."""
    return written[1:-1].replace('""', '"') if written.startswith('"') else written.lower()


def _words(state: str) -> tuple[str, str]:
    """Cause and fix of a state; one that is in no public list may be a cell, and is not told."""
    if not state:
        return _STRANGE
    if known := _STATES.get(state) or _CLASSES.get(state[:2]):
        return known
    try:
        psycopg.errors.lookup(state)
    except KeyError:
        return "The database refuses with a state of its own.", "Check query and database."
    return f"The database refuses with state {state}.", "Check query and database."


def _is_private(told: Mapping[str, str]) -> bool:
    """Whether nobody between can hear what is said: on this machine's own files, or with TLS for sure."""
    return told.get("sslmode") in ("require", "verify-ca", "verify-full") or (
        "hostaddr" not in told and told.get("host", "/").startswith(("/", "@"))
    )
