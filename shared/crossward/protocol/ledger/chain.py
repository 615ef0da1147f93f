"""Does a chain hold? Every hash is computed anew, every line is judged anew, and the first that is wrong is named."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest

from crossward.errors import ChainBroken, LedgerRefused
from crossward.protocol.ledger.lines import Head, Line
from crossward.protocol.ledger.rules import Replay, State

RESTORE = "Stop, keep a copy, and compare with the other side's ledger."


@dataclass(frozen=True, slots=True)
class Verified:
    """A chain that holds, and what it says."""

    state: State

    @property
    def head(self) -> Head:
        """Where it ends. It also tells the number of lines."""
        return self.state.head


def broken(line: int, what: str) -> ChainBroken:
    """The error that names a line."""
    return ChainBroken(f"Line {line}: {what}", RESTORE, line)


def verify(lines: Iterable[Line], head: Head | None = None) -> Verified:
    """Check a chain from its first line, or raise `ChainBroken` with the number of the first line that is wrong.

    A chain cut short is itself a valid chain: only a `head` known from elsewhere, as from a receipt, shows the cut.
    """
    replay = Replay()
    for number, line in enumerate(lines, 1):
        try:
            replay.take(line)
        except LedgerRefused as refusal:
            raise broken(number, refusal.cause) from None
        if head is not None and number == head.sequence and line.hash != head.hash:
            raise broken(number, f"it hashes to {line.hash}, and the head given is {head.hash}.")
    if head is not None and replay.head != head:
        first = min(replay.head.sequence, head.sequence) + 1
        raise broken(first, f"the chain has {replay.head.sequence} lines, and the head given {head.sequence}.")
    return Verified(replay.state)


@dataclass(frozen=True, slots=True)
class Difference:
    """The first line at which two chains differ; None where a chain has ended."""

    line: int
    ours: Line | None
    theirs: Line | None


def first_difference(ours: Iterable[Line], theirs: Iterable[Line]) -> Difference | None:
    """Where two chains part, or None if they are the same."""
    for number, (one, other) in enumerate(zip_longest(ours, theirs), 1):
        if one != other:
            return Difference(number, one, other)
    return None
