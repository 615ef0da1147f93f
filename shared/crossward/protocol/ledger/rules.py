"""The one rule of the ledger: which line may come next. Site and coordinator both run it, and neither trusts the other.

    spend(cell) = the filter's sum over the reserve lines that name the cell

Use of disjoint cells costs once and overlapping use adds up; the dataset's spend is the largest of its cells. Why this
is sound: docs/proofs/cells.md. The rule is a pure function of a `View` (what was there) and a line.
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
    NotReserved,
    UnknownCell,
    UnknownDataset,
)
from crossward.privacy.budget import Budget, Cost
from crossward.privacy.filters import NOTHING, BasicFilter, Filter, Spend, ZcdpFilter
from crossward.protocol.constants import FilterKind
from crossward.protocol.ledger.lines import START, Head, Line, OpenBody, ReleaseBody, ReserveBody

_FILTERS: Mapping[FilterKind, Callable[[Budget], Filter]] = {
    FilterKind.BASIC: BasicFilter,
    FilterKind.ZCDP: ZcdpFilter,
}


@dataclass(frozen=True, slots=True)
class Balance:
    """A dataset's budget, and what each of its cells has spent of it."""

    opened: OpenBody
    spends: tuple[Spend, ...]

    @classmethod
    def of(cls, opened: OpenBody) -> Balance:
        """A dataset just opened."""
        return cls(opened, (NOTHING,) * opened.cells)

    @property
    def rule(self) -> Filter:
        """The filter that guards each cell."""
        return _FILTERS[self.opened.filter](self.opened.budget)

    @property
    def spend(self) -> Spend:
        """What the dataset has spent: no person has lost more than the largest of the cells, number by number."""
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
                raise CellSpent(f"Cell {cell} of dataset {self.opened.dataset}: {refusal.cause}", refusal.fix) from None
        spends = list(self.spends)
        for cell in cells:
            spends[cell] = after[spends[cell]]
        return replace(self, spends=tuple(spends))

    def _known(self, cells: Iterable[int]) -> tuple[int, ...]:
        cells = tuple(cells)
        for cell in cells:
            if not 0 <= cell < self.opened.cells:
                raise UnknownCell(
                    f"Dataset {self.opened.dataset} has no cell {cell}.",
                    f"Its cells are 0 to {self.opened.cells - 1}.",
                )
        return cells


class View(Protocol):
    """What the rule needs to know of the lines so far."""

    @property
    def head(self) -> Head:
        """Where the chain ends."""
        ...

    def balance(self, dataset: str) -> Balance | None:
        """A dataset's balance, if it was opened."""
        ...

    def has_reserved(self, task: str) -> bool:
        """Whether the task holds a reservation."""
        ...

    def has_released(self, task: str) -> bool:
        """Whether the task has fixed the bytes it publishes."""
        ...


def judge(view: View, line: Line) -> Balance | None:
    """Admit a line or raise. Answers with the balance that the line changes, as it is afterwards."""
    _extends(view.head, line)
    match line.body:
        case OpenBody() as body:
            return _judge_open(view, body)
        case ReserveBody() as body:
            return _judge_reserve(view, body)
        case ReleaseBody() as body:
            _judge_release(view, body)
            return None


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
    if view.balance(body.dataset) is not None:
        raise AlreadyOpen(
            f"Dataset {body.dataset} is open, with its lifetime budget.",
            "Register other persons' data by another name.",
        )
    return Balance.of(body)


def _judge_reserve(view: View, body: ReserveBody) -> Balance:
    if view.has_reserved(body.task):
        raise AlreadyReserved(f"Task {body.task} holds a reservation.", "Run it under that one.")
    balance = view.balance(body.dataset)
    if balance is None:
        raise UnknownDataset(f"Dataset {body.dataset} was never opened.", "Open it with its lifetime budget first.")
    return balance.charge(body.cells, body.cost)


def _judge_release(view: View, body: ReleaseBody) -> None:
    if not view.has_reserved(body.task):
        raise NotReserved(f"Task {body.task} reserved nothing.", "Reserve, then train, then release.")
    if view.has_released(body.task):
        raise AlreadyReleased(f"Task {body.task} has a release.", "Publish those bytes.")


@dataclass(frozen=True, slots=True)
class State:
    """Everything a chain says: its head, each dataset's balance, which tasks reserved and what they released."""

    head: Head = START
    balances: Mapping[str, Balance] = field(default_factory=dict)
    reserved: Mapping[str, ReserveBody] = field(default_factory=dict)
    released: Mapping[str, str] = field(default_factory=dict)


class Replay:
    """Reads a chain line by line, in time linear in its length."""

    def __init__(self, state: State | None = None) -> None:
        state = state or State()
        self.head = state.head
        self._balances = dict(state.balances)
        self._reserved = dict(state.reserved)
        self._released = dict(state.released)

    def balance(self, dataset: str) -> Balance | None:
        """A dataset's balance, if it was opened."""
        return self._balances.get(dataset)

    def has_reserved(self, task: str) -> bool:
        """Whether the task holds a reservation."""
        return task in self._reserved

    def has_released(self, task: str) -> bool:
        """Whether the task has fixed the bytes it publishes."""
        return task in self._released

    def take(self, line: Line) -> None:
        """Take one more line, or raise and be as before."""
        balance = judge(self, line)
        if balance is not None:
            self._balances[balance.opened.dataset] = balance
        if isinstance(line.body, ReserveBody):
            self._reserved[line.body.task] = line.body
        if isinstance(line.body, ReleaseBody):
            self._released[line.body.task] = line.body.digest
        self.head = line.head

    @property
    def state(self) -> State:
        """What was read so far."""
        return State(self.head, dict(self._balances), dict(self._reserved), dict(self._released))


def admit(state: State, line: Line) -> State:
    """The state after this line, or a named refusal."""
    replay = Replay(state)
    replay.take(line)
    return replay.state
