"""The ledger in a database. All methods run inside the caller's transaction and are whole or not at all within it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from sqlalchemy import Connection

from crossward.errors import (
    AlreadyOpen,
    AlreadyReleased,
    AlreadyReserved,
    ChainBroken,
    LedgerRefused,
    NotNext,
    OutOfTurn,
)
from crossward.protocol.ledger.chain import Verified, broken, verify
from crossward.protocol.ledger.lines import (
    START,
    Body,
    Head,
    Line,
    LineKind,
    OpenBody,
    RecoverBody,
    ReserveBody,
    SeatsBody,
)
from crossward.protocol.ledger.rules import Balance, State, is_seated, seats_of
from crossward_service.db.engine import storage, whole
from crossward_service.db.ledger_tables import Book, LedgerTables, queries, stored_head, stored_spend


class Ledger(Protocol):
    """One owner's chain. A write transaction that fails leaves it as it was."""

    def append(self, connection: Connection, body: Body, time: int) -> Line:
        """Extend the chain by one line, or raise `LedgerRefused`.

        A task reserves once and releases once, and of a version or number there is one line: the same body again gives
        the line that is there, so a caller that does not know whether it was killed before or after appends again.
        """
        ...

    def extend(self, connection: Connection, lines: Sequence[Line]) -> Head:
        """Take over the owner's own lines, all or none. Lines that are there already must be the same."""
        ...

    def head(self, connection: Connection) -> Head:
        """Where the chain ends."""
        ...

    def contains(self, connection: Connection, head: Head) -> bool:
        """Whether the chain once ended here: False for a head of another chain, or of a later state of this one."""
        ...

    def lines(self, connection: Connection, after: int = 0, limit: int | None = None) -> Iterator[Line]:
        """The lines after this one, in order."""
        ...

    def find(self, connection: Connection, kind: LineKind, subject: str) -> Line | None:
        """The reserve or release line of a task, or the line of a kind that counts with this number."""
        ...

    def charges(self, connection: Connection, study: str) -> list[Line]:
        """The reserve lines that name this study, in order, without reading any other."""
        ...

    def opened(self, connection: Connection) -> OpenBody | None:
        """The person's budget, if there is one."""
        ...

    def balance(self, connection: Connection) -> Balance | None:
        """The person's budget, and what each cell has spent of it."""
        ...

    def seats(self, connection: Connection) -> SeatsBody | None:
        """The last version of the table of seats, also where it was lost since."""
        ...

    def seated(self, connection: Connection) -> bool:
        """Whether there is a table of seats: one was committed to, and not lost since."""
        ...

    def recovery(self, connection: Connection) -> Line | None:
        """The last line that says that the table of seats was lost; no release of a charge before it is admitted."""
        ...

    def state(self, connection: Connection) -> State:
        """Everything the chain says, read from its lines alone."""
        ...

    def verify(self, connection: Connection, head: Head | None = None) -> Verified:
        """Check the lines by the rule and the tables by the lines; `ChainBroken` names the first line that is wrong."""
        ...


_OTHER: dict[LineKind, type[LedgerRefused]] = {
    LineKind.OPEN: AlreadyOpen,
    LineKind.SEATS: OutOfTurn,
    LineKind.RESERVE: AlreadyReserved,
    LineKind.RELEASE: AlreadyReleased,
    LineKind.RECOVER: OutOfTurn,
}


class SqlLedger(Ledger):
    """The chain of one owner in SQLite or PostgreSQL.

    A writer first locks the owner's row in `ledger_heads` (SQLite: the database, when its transaction begins), so
    that a line is judged by spends which nobody else can change before it is stored.
    """

    def __init__(self, tables: LedgerTables, owner: str) -> None:
        self._tables, self._queries = tables, queries(tables)
        self.owner = owner

    # -- writing --------------------------------------------------------------------------------------------------
    def append(self, connection: Connection, body: Body, time: int) -> Line:
        """Extend the chain by one line, once for each task reserved, task released, version and number."""
        with self._writing(connection) as book:
            line = book.find(body.kind, body.subject)
            if line is None:
                line = Line.after(book.head, body, time)
                book.take(line)
            elif line.body != body:
                raise _OTHER[body.kind](
                    f"Line {line.sequence} is another {body.kind} of {body.subject}.", "Keep to that one."
                )
        return line

    def extend(self, connection: Connection, lines: Sequence[Line]) -> Head:
        """Take over the owner's own lines, all or none. Lines that are there already must be the same."""
        with self._writing(connection) as book:
            start = book.head.sequence
            known = [line for line in lines if line.sequence <= start]
            if known:
                self._check_same(book, known)
            for line in lines:
                if line.sequence > start:
                    book.take(line)
        return book.head

    @staticmethod
    def _check_same(book: Book, known: Sequence[Line]) -> None:
        first, last = min(line.sequence for line in known), max(line.sequence for line in known)
        ours = {line.sequence: line for line in book.stored(first - 1, last - first + 1)}
        for line in known:
            if ours.get(line.sequence) != line:
                raise NotNext(
                    f"Line {line.sequence} differs from the line {line.sequence} here.",
                    "One of the two ledgers was rewritten or restored from an old backup: compare them.",
                )

    @contextmanager
    def _writing(self, connection: Connection) -> Iterator[Book]:
        with whole(connection):
            book = Book.locked(connection, self._tables, self.owner)
            yield book
            book.write()

    # -- reading --------------------------------------------------------------------------------------------------
    def head(self, connection: Connection) -> Head:
        """Where the chain ends."""
        with storage():
            return stored_head(connection.execute(self._queries.head, {"owner": self.owner}).one_or_none())

    def contains(self, connection: Connection, head: Head) -> bool:
        """Whether the chain once ended here: False for a head of another chain, or of a later state of this one."""
        if head.sequence == 0:
            return head == START
        values = {"owner": self.owner, "sequence": head.sequence}
        with storage():
            return connection.execute(self._queries.hash, values).scalar_one_or_none() == head.hash

    def lines(self, connection: Connection, after: int = 0, limit: int | None = None) -> Iterator[Line]:
        """The lines after this one, in order."""
        with storage():
            yield from self._book(connection).stored(after, limit)

    def find(self, connection: Connection, kind: LineKind, subject: str) -> Line | None:
        """The reserve or release line of a task, or the line of a kind that counts with this number."""
        with storage():
            return self._book(connection).find(kind, subject)

    def charges(self, connection: Connection, study: str) -> list[Line]:
        """The reserve lines that name this study, in order, without reading any other."""
        with storage():
            return list(self._book(connection).charges(study))

    def opened(self, connection: Connection) -> OpenBody | None:
        """The person's budget, if there is one."""
        balance = self.balance(connection)
        return None if balance is None else balance.opened

    def balance(self, connection: Connection) -> Balance | None:
        """The person's budget, and what each cell has spent of it."""
        with storage():
            return self._book(connection).balance()

    def seats(self, connection: Connection) -> SeatsBody | None:
        """The last version of the table of seats, also where it was lost since."""
        with storage():
            return seats_of(self._book(connection).last(LineKind.SEATS))

    def seated(self, connection: Connection) -> bool:
        """Whether there is a table of seats: one was committed to, and not lost since."""
        with storage():
            return is_seated(self._book(connection).last)

    def recovery(self, connection: Connection) -> Line | None:
        """The last line that says that the table of seats was lost; no release of a charge before it is admitted."""
        with storage():
            return self._book(connection).last(LineKind.RECOVER)

    def _book(self, connection: Connection) -> Book:
        return Book(connection, self._tables, self.owner, START)  # only to read: it never learns the head

    def state(self, connection: Connection) -> State:
        """Everything the chain says, read from its lines alone."""
        return verify(self.lines(connection)).state

    # -- verifying ------------------------------------------------------------------------------------------------
    def verify(self, connection: Connection, head: Head | None = None) -> Verified:
        """Check the lines by the rule and the tables by the lines; `ChainBroken` names the first line that is wrong.

        Run it inside `engine.read`, which sees one moment: an append in between would look like a contradiction.
        """
        verified = verify(self.lines(connection), head)
        self._verify_head(connection, verified.head)
        self._verify_spend(connection, verified.state)
        return verified

    def _verify_head(self, connection: Connection, last: Head) -> None:
        try:
            stored = self.head(connection)
        except ChainBroken as error:
            raise broken(last.sequence, error.cause) from None
        if stored.sequence > last.sequence:
            raise broken(last.sequence + 1, f"it is missing; the head stored is line {stored.sequence}.")
        if stored != last:
            raise broken(last.sequence, f"it is the last, and the head stored is {stored.sequence} {stored.hash}.")

    def _verify_spend(self, connection: Connection, state: State) -> None:
        expected = dict(enumerate(state.balance.spends if state.balance is not None else ()))
        with storage():
            rows = connection.execute(self._queries.spends, {"owner": self.owner}).all()
        found = {row.cell: stored_spend(row) for row in rows}
        wrong = [cell for cell in expected.keys() | found.keys() if expected.get(cell) != found.get(cell)]
        if wrong:
            cell = min(wrong, key=str)
            line = self._last_charge(connection, cell) if cell in expected else state.head.sequence
            raise broken(line, f"the spend stored for cell {cell} is not what the lines add up to.")

    def _last_charge(self, connection: Connection, cell: Any) -> int:
        """The last line that changed the spend of a cell."""
        return max(
            line.sequence
            for line in self.lines(connection)
            if isinstance(line.body, OpenBody | RecoverBody)
            or (isinstance(line.body, ReserveBody) and cell in line.body.cells)
        )
