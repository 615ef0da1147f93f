"""The one rule of the ledger: which line may come next. Site and coordinator both run it, and neither trusts the other.

    open       gives each person a lifetime budget; final with the first reserve
    seats      commits to who sits in which cell
    reserve    charges the cells that a task reads, where the filter of each admits it
    release    fixes the bytes of a task that reserved
    recover    the table of seats is lost: every cell has spent the largest spend, new seats are due, and what was
               reserved and not released never will be

Use of disjoint cells costs once and overlapping use adds up; no person has lost more than the largest spend of the
cells. Why this is sound: docs/proofs/cells.md. The rule is a pure function of a `View` (what was there) and a line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from crossward.errors import (
    AlreadyOpen,
    AlreadyReleased,
    AlreadyReserved,
    BudgetExceeded,
    CellSpent,
    NotNext,
    NotOpen,
    NotReserved,
    NotSeated,
    OutOfTurn,
    UnknownCell,
)
from crossward.privacy.budget import Budget, Cost
from crossward.privacy.filters import NOTHING, BasicFilter, Filter, Spend, ZcdpFilter
from crossward.protocol.constants import FilterKind
from crossward.protocol.ledger.lines import (
    START,
    Head,
    Line,
    LineKind,
    OpenBody,
    RecoverBody,
    ReleaseBody,
    ReserveBody,
    SeatsBody,
)

_FILTERS: Mapping[FilterKind, Callable[[Budget], Filter]] = {
    FilterKind.BASIC: BasicFilter,
    FilterKind.ZCDP: ZcdpFilter,
}


@dataclass(frozen=True, slots=True)
class Balance:
    """A person's budget at a site, and what each of the site's cells has spent of it."""

    opened: OpenBody
    spends: tuple[Spend, ...]

    @classmethod
    def of(cls, opened: OpenBody) -> Balance:
        """A ledger just opened."""
        return cls(opened, (NOTHING,) * opened.cells)

    @property
    def rule(self) -> Filter:
        """The filter that guards each cell."""
        return _FILTERS[self.opened.filter](self.opened.budget)

    @property
    def spend(self) -> Spend:
        """The largest of the cells, number by number: no person has lost more."""
        return Spend(
            max(spend.nano_epsilon for spend in self.spends),
            max(spend.atto_delta for spend in self.spends),
            max(spend.atto_rho for spend in self.spends),
            max(spend.releases for spend in self.spends),
        )

    def left(self, cells: Iterable[int]) -> float:
        """The largest epsilon of one pure release that these cells would all still admit."""
        rule = self.rule
        return min(rule.left(spend) for spend in {self.spends[cell] for cell in self._known(cells)})

    def charge(self, cells: Iterable[int], cost: Cost) -> Balance:
        """The balance once each of these cells has paid, or `CellSpent` and none has."""
        cells, rule = self._known(cells), self.rule
        # Cells that have spent the same are asked once. The poorest come first: the refusal then says what all can pay.
        after: dict[Spend, Spend] = {}
        for spend in sorted(
            {self.spends[cell] for cell in cells}, key=lambda spend: (rule.left(spend), -spend.atto_delta)
        ):
            try:
                after[spend] = rule.admit(spend, cost)
            except BudgetExceeded as refusal:
                cell = next(cell for cell in cells if self.spends[cell] == spend)
                raise CellSpent(f"Cell {cell}: {refusal.cause}", refusal.fix) from None
        spends = list(self.spends)
        for cell in cells:
            spends[cell] = after[spends[cell]]
        return replace(self, spends=tuple(spends))

    def recover(self) -> Balance:
        """The balance once nobody knows who sat where: whoever sits in a cell has lost at most the largest spend."""
        return replace(self, spends=(self.spend,) * self.opened.cells)

    def _known(self, cells: Iterable[int]) -> tuple[int, ...]:
        cells = tuple(cells)
        for cell in cells:
            if not 0 <= cell < self.opened.cells:
                raise UnknownCell(f"There is no cell {cell}.", f"The cells are 0 to {self.opened.cells - 1}.")
        return cells


class View(Protocol):
    """What the rule needs to know of the lines so far."""

    @property
    def head(self) -> Head:
        """Where the chain ends."""
        ...

    def balance(self) -> Balance | None:
        """The budget and the spends, if it was opened."""
        ...

    def last(self, kind: LineKind) -> Line | None:
        """The last line of this kind."""
        ...

    def find(self, kind: LineKind, subject: str) -> Line | None:
        """The one line of this kind about a task, or with this number."""
        ...


def judge(view: View, line: Line) -> Balance | None:
    """Admit a line or raise. Answers with the balance that the line changes, as it is afterwards."""
    _extends(view.head, line)
    match line.body:
        case OpenBody() as body:
            return _judge_open(view, body)
        case SeatsBody() as body:
            _opened(view)
            _check_turn(view, body)
            return None
        case ReserveBody() as body:
            return _judge_reserve(view, body)
        case ReleaseBody() as body:
            _judge_release(view, body)
            return None
        case RecoverBody() as body:
            balance = _opened(view)
            _check_turn(view, body)
            return balance.recover()


def _extends(head: Head, line: Line) -> None:
    if line.sequence != head.sequence + 1:
        raise NotNext(
            f"Line {line.sequence} cannot follow line {head.sequence}.",
            "Send the lines between them." if line.sequence > head.sequence + 1 else "Read the ledger again.",
        )
    if line.previous != head.hash:
        raise NotNext(
            f"Line {line.sequence} follows a line {head.sequence} that hashes to {line.previous}; ours is {head.hash}.",
            "One of the two ledgers was rewritten or restored from an old backup: compare them.",
        )


def _judge_open(view: View, body: OpenBody) -> Balance:
    balance = view.balance()
    if balance is not None and balance.spend.releases:
        raise AlreadyOpen("The budget has been charged, and is final.", "Keep to it.")
    _check_turn(view, body)
    if balance is not None and balance.opened.cells != body.cells:
        raise AlreadyOpen(f"There are {balance.opened.cells} cells, for good.", "Open the budget with as many.")
    return Balance.of(body)


def _check_turn(view: View, body: OpenBody | SeatsBody | RecoverBody) -> None:
    last = view.last(body.kind)
    due = 1 if last is None else int(last.body.subject) + 1
    if body.subject != str(due):
        raise OutOfTurn(f"{body.kind} {body.subject} cannot come next.", f"The next one is {body.kind} {due}.")


def _opened(view: View) -> Balance:
    balance = view.balance()
    if balance is None:
        raise NotOpen("The ledger has no budget yet.", "Open it with the lifetime budget of a person first.")
    return balance


def _judge_reserve(view: View, body: ReserveBody) -> Balance:
    if view.find(LineKind.RESERVE, body.task) is not None:
        raise AlreadyReserved(f"Task {body.task} holds a reservation.", "Run it under that one.")
    balance = _opened(view)
    if not is_seated(view.last):
        raise NotSeated(
            "No line commits to who sits in which cell, or the table of seats was lost since.",
            "Seat the persons first.",
        )
    return balance.charge(body.cells, body.cost)


def is_seated(last: Callable[[LineKind], Line | None]) -> bool:
    """Whether there is a table of seats: the last line `seats` comes after the last `recover`."""
    seats, recovery = last(LineKind.SEATS), last(LineKind.RECOVER)
    return seats is not None and (recovery is None or recovery.sequence < seats.sequence)


def _judge_release(view: View, body: ReleaseBody) -> None:
    reserved, recovery = view.find(LineKind.RESERVE, body.task), view.last(LineKind.RECOVER)
    if reserved is None:
        raise NotReserved(f"Task {body.task} reserved nothing.", "Reserve, then train, then release.")
    if view.find(LineKind.RELEASE, body.task) is not None:
        raise AlreadyReleased(f"Task {body.task} has a release.", "Publish those bytes.")
    if recovery is not None and reserved.sequence < recovery.sequence:  # it would read others than it charged
        raise NotReserved(f"Task {body.task} reserved before the table of seats was lost.", "Give the task up.")


@dataclass(frozen=True, slots=True)
class State:
    """Everything a chain says: its head, the balance, every line by kind and subject, the last line of each kind."""

    head: Head = START
    balance: Balance | None = None
    lines: Mapping[tuple[LineKind, str], Line] = field(default_factory=dict)
    last: Mapping[LineKind, Line] = field(default_factory=dict)

    @property
    def seats(self) -> SeatsBody | None:
        """The last version of the table of seats, also where it was lost since."""
        return seats_of(self.last.get(LineKind.SEATS))

    @property
    def seated(self) -> bool:
        """Whether there is a table of seats."""
        return is_seated(self.last.get)

    @property
    def reserved(self) -> dict[str, ReserveBody]:
        """What each task reserved."""
        return {line.body.task: line.body for line in self.lines.values() if isinstance(line.body, ReserveBody)}

    @property
    def released(self) -> dict[str, str]:
        """The digest of what each task released."""
        return {line.body.task: line.body.digest for line in self.lines.values() if isinstance(line.body, ReleaseBody)}


def seats_of(line: Line | None) -> SeatsBody | None:
    """What a line says of the seats."""
    return line.body if line is not None and isinstance(line.body, SeatsBody) else None


class Replay:
    """Reads a chain line by line, in time linear in its length."""

    def __init__(self, state: State | None = None) -> None:
        state = state or State()
        self.head = state.head
        self._balance = state.balance
        self._lines, self._last = dict(state.lines), dict(state.last)

    def balance(self) -> Balance | None:
        """The budget and the spends, if it was opened."""
        return self._balance

    def last(self, kind: LineKind) -> Line | None:
        """The last line of this kind."""
        return self._last.get(kind)

    def find(self, kind: LineKind, subject: str) -> Line | None:
        """The one line of this kind about a task, or with this number."""
        return self._lines.get((kind, subject))

    def take(self, line: Line) -> None:
        """Take one more line, or raise and be as before."""
        self._balance = judge(self, line) or self._balance
        self._lines[line.kind, line.body.subject] = self._last[line.kind] = line
        self.head = line.head

    @property
    def state(self) -> State:
        """What was read so far."""
        return State(self.head, self._balance, dict(self._lines), dict(self._last))


def admit(state: State, line: Line) -> State:
    """The state after this line, or a named refusal."""
    replay = Replay(state)
    replay.take(line)
    return replay.state
