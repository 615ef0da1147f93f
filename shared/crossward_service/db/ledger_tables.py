"""The ledger's tables, and one transaction's book: it reads through to them, and writes what it took in one go."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    ForeignKeyConstraint,
    Index,
    MetaData,
    Select,
    String,
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from crossward.errors import Malformed, NotNext
from crossward.privacy.filters import Spend
from crossward.protocol.canonical import canonical
from crossward.protocol.ledger.chain import broken
from crossward.protocol.ledger.lines import (
    START,
    Body,
    Head,
    Line,
    LineKind,
    OpenBody,
    ReserveBody,
    body_of,
    values_of,
)
from crossward.protocol.ledger.rules import Balance, judge
from crossward_service.db.engine import new_row

PAGE = 1000  # a page at a time: an open cursor would outlive a reader who stops at a fault


@dataclass(frozen=True, slots=True)
class LedgerTables:
    """Lines are the ledger; heads and spend follow from them and are kept so that a line need not read all others."""

    lines: Table
    heads: Table
    spend: Table


def tables(metadata: MetaData) -> LedgerTables:
    """Define the tables. One database may hold the chains of many owners: a site's own, or the mirror of each party."""
    heads = Table(
        "ledger_heads",
        metadata,
        Column("owner", String(200), primary_key=True),
        Column("sequence", BigInteger, nullable=False),
        Column("hash", String(64), nullable=False),
    )
    lines = Table(
        "ledger_lines",
        metadata,
        Column("owner", String(200), primary_key=True),
        Column("sequence", BigInteger, primary_key=True, autoincrement=False),
        Column("previous", String(64), nullable=False),
        Column("kind", String(16), nullable=False),
        Column("subject", String(200), nullable=False),  # the task of a reserve or release, the number of any other
        Column(
            "study", String(200)
        ),  # the study of a reserve: what a site asks of a study it finds without reading all
        Column("time", BigInteger, nullable=False),
        Column("body", Text, nullable=False),
        Column("hash", String(64), nullable=False),
        ForeignKeyConstraint(["owner"], ["ledger_heads.owner"], name="ledger_lines_owner"),
        UniqueConstraint("owner", "kind", "subject", name="ledger_lines_once"),
        Index("ledger_lines_study", "owner", "study"),
    )
    spend = Table(
        "ledger_spend",
        metadata,
        Column("owner", String(200), primary_key=True),
        Column("cell", BigInteger, primary_key=True, autoincrement=False),
        # Decimal digits: an epsilon of 5 is 1.25e19 atto-rho, which no integer column of either database holds.
        Column("nano_epsilon", String(80), nullable=False),
        Column("atto_delta", String(80), nullable=False),
        Column("atto_rho", String(80), nullable=False),
        Column("releases", BigInteger, nullable=False),
        ForeignKeyConstraint(["owner"], ["ledger_heads.owner"], name="ledger_spend_owner"),
    )
    return LedgerTables(lines, heads, spend)


class Queries:
    """What is asked of a ledger's tables, with places for what differs: each is written once, and so compiled once."""

    def __init__(self, tables: LedgerTables) -> None:
        lines, heads, spend = tables.lines, tables.heads, tables.spend
        owner = lines.c.owner == bindparam("owner")
        self.head = select(heads.c.sequence, heads.c.hash).where(heads.c.owner == bindparam("owner"))
        self.locked_head = self.head.with_for_update()
        self.last = select(lines.c.sequence, lines.c.hash).where(owner).order_by(lines.c.sequence.desc()).limit(1)
        self.hash = select(lines.c.hash).where(owner, lines.c.sequence == bindparam("sequence"))
        every = select(lines).where(owner).order_by(lines.c.sequence)
        self.one = every.where(lines.c.kind == bindparam("kind"), lines.c.subject == bindparam("subject"))
        # Few lines are of a kind that is asked for: by the index of kinds, and not back from the end of the chain.
        of_kind = select(lines).where(owner, lines.c.kind == bindparam("kind"))
        self.last_of_kind = of_kind.order_by((lines.c.sequence + 0).desc()).limit(1)
        self.of_study = every.where(lines.c.study == bindparam("study"))
        self.page = every.where(lines.c.sequence > bindparam("after")).limit(bindparam("most"))
        self.spends = select(spend).where(spend.c.owner == bindparam("owner")).order_by(spend.c.cell)
        self.new_line, self.new_spend = insert(lines), insert(spend)
        self.changed_spend = (
            update(spend).where(spend.c.owner == bindparam("of_owner")).where(spend.c.cell == bindparam("of_cell"))
        )
        self.moved_head = (
            update(heads)
            .where(heads.c.owner == bindparam("of_owner"))
            .where(heads.c.sequence == bindparam("from_sequence"), heads.c.hash == bindparam("from_hash"))
        )


@cache
def queries(tables: LedgerTables) -> Queries:
    """The queries of these tables."""
    return Queries(tables)


def stored_line(row: Any, number: int) -> Line:
    """The line in a row, or `ChainBroken` at this number: every column must be what the line's own bytes say."""
    if not isinstance(row.body, str):  # a damaged SQLite file may hold a number where text was, or nothing
        raise broken(number, "its body is not JSON.")
    try:
        line = Line(row.sequence, row.previous, row.time, body_of(row.kind, json.loads(row.body)))
    except Malformed as error:
        raise broken(number, error.cause) from None
    except (ValueError, RecursionError):
        raise broken(number, "its body is not JSON.") from None
    columns = _columns(line.body)
    if columns != {name: getattr(row, name) for name in columns}:
        raise broken(number, "its columns contradict one another.")
    if line.hash != row.hash:
        raise broken(number, f"it hashes to {line.hash}, not to the {row.hash} stored with it.")
    return line


def _columns(body: Body) -> dict[str, Any]:
    """A body as it is stored: its bytes, and what lines are looked up by."""
    return {
        "kind": body.kind.value,
        "subject": body.subject,
        "study": body.study if isinstance(body, ReserveBody) else None,
        "body": canonical(values_of(body)).decode(),
    }


def stored_head(row: Any) -> Head:
    """The head in a row; a ledger without one has not begun."""
    try:
        return START if row is None else Head(row.sequence, row.hash)
    except Malformed as error:
        raise broken(0, f"the head stored is none: {error.cause}") from None


def stored_spend(row: Any) -> Spend | None:
    """The spend in a row, if it is one."""
    amounts = (row.nano_epsilon, row.atto_delta, row.atto_rho, str(row.releases))
    if not all(isinstance(text, str) and text.isascii() and text.isdecimal() for text in amounts):
        return None
    spend = Spend(*map(int, amounts))
    return spend if _digits(spend) == {name: getattr(row, name) for name in _digits(spend)} else None


def _digits(spend: Spend) -> dict[str, Any]:
    return {
        "nano_epsilon": str(spend.nano_epsilon),
        "atto_delta": str(spend.atto_delta),
        "atto_rho": str(spend.atto_rho),
        "releases": spend.releases,
    }


class Book:
    """Takes lines by the rule, each on top of the last; `write` stores them all.

    Whoever takes lines must hold the head's lock: `locked` gives a book that does.
    """

    def __init__(self, connection: Connection, tables: LedgerTables, owner: str, head: Head) -> None:
        self.head = head
        self._connection, self._owner = connection, owner
        self._queries = queries(tables)
        self._start = head
        self._taken: dict[tuple[LineKind, str], Line] = {}
        self._last: dict[LineKind, Line | None] = {}
        self._balance: Balance | None = None
        self._touched: dict[int, None] = {}

    @classmethod
    def locked(cls, connection: Connection, tables: LedgerTables, owner: str) -> Book:
        """Waits until no other transaction writes this ledger, then reads its head."""
        query, whose = queries(tables).locked_head, {"owner": owner}
        row = connection.execute(query, whose).one_or_none()
        if row is None:
            first = {"owner": owner, "sequence": START.sequence, "hash": START.hash}
            connection.execute(new_row(connection, tables.heads).values(first).on_conflict_do_nothing())
            row = connection.execute(query, whose).one()
        book = cls(connection, tables, owner, stored_head(row))
        book._check_head()
        return book

    def _check_head(self) -> None:
        last = self._connection.execute(self._queries.last, {"owner": self._owner}).one_or_none()
        if last is None and self.head == START:
            return
        if last is None or (last.sequence, last.hash) != (self.head.sequence, self.head.hash):
            raise broken(self.head.sequence, "the head stored is not the last line stored.")

    # -- what the rule asks ---------------------------------------------------------------------------------------
    def balance(self) -> Balance | None:
        """The budget and the spends, if it was opened."""
        if self._balance is None:
            opened = self.last(LineKind.OPEN)
            if opened is not None and isinstance(opened.body, OpenBody):
                self._balance = Balance(opened.body, self._spends(opened, opened.body))
        return self._balance

    def last(self, kind: LineKind) -> Line | None:
        """The last line of this kind."""
        if kind not in self._last:
            self._last[kind] = next(self._select(self._queries.last_of_kind, kind=kind.value), None)
        return self._last[kind]

    def find(self, kind: LineKind, subject: str) -> Line | None:
        """The one line of this kind about a task, or with this number."""
        if (kind, subject) in self._taken:
            return self._taken[kind, subject]
        return next(self._select(self._queries.one, kind=kind.value, subject=subject), None)

    def charges(self, study: str) -> Iterator[Line]:
        """The stored reservations for a study, in order."""
        return self._select(self._queries.of_study, study=study)

    def _select(self, query: Select[Any], **values: str) -> Iterator[Line]:
        rows = self._connection.execute(query, {"owner": self._owner, **values}).all()
        return (stored_line(row, row.sequence) for row in rows)

    def stored(self, after: int, limit: int | None = None) -> Iterator[Line]:
        """The stored lines after this one, in order."""
        number, last, left = after, after, sys.maxsize if limit is None else limit
        while most := min(left, PAGE):
            values = {"owner": self._owner, "after": last, "most": most}
            rows = self._connection.execute(self._queries.page, values).all()
            for row in rows:
                number += 1
                yield stored_line(row, number)
            if len(rows) < most:
                return
            last, left = rows[-1].sequence, left - len(rows)

    def _spends(self, opened: Line, body: OpenBody) -> tuple[Spend, ...]:
        rows = self._connection.execute(self._queries.spends, {"owner": self._owner}).all()
        spends = [stored_spend(row) for row in rows]
        if [row.cell for row in rows] != list(range(body.cells)) or None in spends:
            raise broken(opened.sequence, "the spend stored for its cells is incomplete.")
        return tuple(spend for spend in spends if spend is not None)

    # -- taking and writing ---------------------------------------------------------------------------------------
    def take(self, line: Line) -> None:
        """Take one more line by the rule, or raise and be as before."""
        balance = judge(self, line)
        if balance is not None:
            cells = line.body.cells if isinstance(line.body, ReserveBody) else range(balance.opened.cells)
            self._balance = balance
            self._touched |= dict.fromkeys(cells)
        self._taken[line.kind, line.body.subject] = self._last[line.kind] = line
        self.head = line.head

    def write(self) -> None:
        """Store the lines taken, the spends they lead to and the new head."""
        if not self._taken:
            return
        move = {"from_sequence": self._start.sequence, "from_hash": self._start.hash} | asdict(self.head)
        moved = self._connection.execute(self._queries.moved_head, {"of_owner": self._owner} | move)
        if moved.rowcount != 1:  # the lock makes this impossible; a lock that does not hold must not cost a budget
            raise NotNext("Another process extended this ledger at the same time.", "Try again.")
        taken = list(self._taken.values())
        try:
            self._connection.execute(self._queries.new_line, [self._row(line) for line in taken])
            self._write_spends(new=(LineKind.OPEN, "1") in self._taken)
        except IntegrityError:
            raise broken(
                self._start.sequence, "the tables hold rows that the lines up to here do not explain."
            ) from None
        self._start, self._taken, self._touched = self.head, {}, {}

    def _row(self, line: Line) -> dict[str, Any]:
        return {
            "owner": self._owner,
            "sequence": line.sequence,
            "previous": line.previous,
            "time": line.time,
            "hash": line.hash,
            **_columns(line.body),
        }

    def _write_spends(self, *, new: bool) -> None:
        if self._balance is None or not self._touched:
            return
        query = self._queries.new_spend if new else self._queries.changed_spend
        owner, cell = ("owner", "cell") if new else ("of_owner", "of_cell")
        spends = self._balance.spends
        rows = [{owner: self._owner, cell: number, **_digits(spends[number])} for number in self._touched]
        self._connection.execute(query, rows)
