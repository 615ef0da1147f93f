"""A line of the ledger: an immutable value with one byte string and one hash.

    text = canonical({sequence, previous, kind, time, body})        hash = sha256(text)

`previous` is the hash of the line before, so a line fixes everything before it. All quantities are integers: there is
no float to round and no NaN to compare. A line travels as its text, and the hash is that of the bytes received. A line
that breaks the form cannot be built.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, ClassVar, NoReturn, get_args

from crossward.errors import InvalidMessage, Malformed
from crossward.privacy.budget import Budget, Cost
from crossward.protocol.canonical import canonical, is_large, read_canonical, sha256
from crossward.protocol.constants import (
    DIGEST,
    LATEST,
    LINE_BYTES,
    MOST_ATTO_DELTA,
    MOST_BUDGET_ATTO_DELTA,
    MOST_BUDGET_NANO_EPSILON,
    MOST_CELLS,
    MOST_NANO_EPSILON,
    FilterKind,
)
from crossward.values import LARGEST

GENESIS = "0" * 64

_NAME = re.compile(r"[!-~]{1,200}")
_DIGEST = re.compile(DIGEST)


class LineKind(StrEnum):
    """What a line does."""

    OPEN = "open"
    SEATS = "seats"
    RESERVE = "reserve"
    RELEASE = "release"
    RECOVER = "recover"


def _refuse(rule: str, value: object) -> NoReturn:
    large = isinstance(value, int) and value.bit_length() > 64  # Python refuses to print very long numbers
    raise Malformed(f"{rule}, not {'a larger number' if large else reprlib.repr(value)}.", "Was the line changed?")


def _check_name(value: object, what: str) -> None:
    if not (isinstance(value, str) and _NAME.fullmatch(value)):
        _refuse(f"{what} is up to 200 printable ASCII characters", value)


def _check_digest(value: object, what: str) -> None:
    if not (isinstance(value, str) and _DIGEST.fullmatch(value)):
        _refuse(f"{what} is a sha256 in hex", value)


def _check_whole(value: object, low: int, high: int, what: str) -> None:
    if type(value) is not int or not low <= value <= high:  # a bool is an int, but no quantity
        _refuse(f"{what} is a whole number from {low} to {high}", value)


@dataclass(frozen=True, slots=True)
class OpenBody:
    """The lifetime budget of each person, and the number of cells that persons sit in.

    A later version replaces the budget, until the first charge: from then on it is final.
    """

    kind: ClassVar[LineKind] = LineKind.OPEN

    version: int
    cells: int
    filter: FilterKind
    nano_epsilon: int
    atto_delta: int = 0

    def __post_init__(self) -> None:
        _check_whole(self.version, 1, LARGEST, "version")
        _check_whole(self.cells, 1, MOST_CELLS, "cells")
        if not isinstance(self.filter, str) or self.filter not in set(FilterKind):
            _refuse("filter is basic or zcdp", self.filter)
        object.__setattr__(self, "filter", FilterKind(self.filter))  # a line that was read says it in plain text
        what = "nano_epsilon of a budget (an epsilon of at most 100; common choices are 0.1 to 10)"
        _check_whole(self.nano_epsilon, 0, MOST_BUDGET_NANO_EPSILON, what)
        zcdp = self.filter is FilterKind.ZCDP  # it turns rho into (epsilon, delta): without a delta it says nothing
        what = "atto_delta of a budget (a delta of at most 0.001; common choices are far below 1/n)"
        _check_whole(
            self.atto_delta, int(zcdp), MOST_BUDGET_ATTO_DELTA, f"{what}{' with the zcdp filter' if zcdp else ''}"
        )

    @property
    def subject(self) -> str:
        """What there is one such line of."""
        return str(self.version)

    @property
    def budget(self) -> Budget:
        """The lifetime budget of each person, and so of each cell."""
        return Budget(self.nano_epsilon, self.atto_delta)


@dataclass(frozen=True, slots=True)
class SeatsBody:
    """A version of the table of seats: a salted digest, which binds the site to who sits in which cell, untold."""

    kind: ClassVar[LineKind] = LineKind.SEATS

    version: int
    commitment: str

    def __post_init__(self) -> None:
        _check_whole(self.version, 1, LARGEST, "version")
        _check_digest(self.commitment, "commitment")

    @property
    def subject(self) -> str:
        """What there is one such line of."""
        return str(self.version)


@dataclass(frozen=True, slots=True)
class ReserveBody:
    """A task takes part of the budget of the cells it will read: this is the charge, and it is never refunded."""

    kind: ClassVar[LineKind] = LineKind.RESERVE

    task: str
    study: str
    study_hash: str
    cells: tuple[int, ...]
    nano_epsilon: int
    atto_delta: int
    release: str

    def __post_init__(self) -> None:
        for name in ("task", "study"):
            _check_name(getattr(self, name), name)
        for name in ("study_hash", "release"):
            _check_digest(getattr(self, name), name)
        if type(self.cells) is not tuple or not self.cells:
            _refuse("cells is a list of at least one cell", self.cells)
        for cell in self.cells:
            _check_whole(cell, 0, MOST_CELLS - 1, "A cell")
        if list(self.cells) != sorted(set(self.cells)):
            _refuse("cells are in order, each once", self.cells)
        _check_whole(self.nano_epsilon, 1, MOST_NANO_EPSILON, "nano_epsilon")  # nothing is released for nothing
        _check_whole(self.atto_delta, 0, MOST_ATTO_DELTA, "atto_delta")

    @property
    def subject(self) -> str:
        """What there is one such line of."""
        return self.task

    @property
    def cost(self) -> Cost:
        """What each of the cells pays."""
        return Cost(self.nano_epsilon, self.atto_delta)


@dataclass(frozen=True, slots=True)
class ReleaseBody:
    """The bytes that a task will publish, by their sha256: from here on no others may leave."""

    kind: ClassVar[LineKind] = LineKind.RELEASE

    task: str
    digest: str

    def __post_init__(self) -> None:
        _check_name(self.task, "task")
        _check_digest(self.digest, "digest")

    @property
    def subject(self) -> str:
        """What there is one such line of."""
        return self.task


@dataclass(frozen=True, slots=True)
class RecoverBody:
    """The site has lost its table of seats: as nobody knows who sat where, every cell has spent the largest spend."""

    kind: ClassVar[LineKind] = LineKind.RECOVER

    number: int

    def __post_init__(self) -> None:
        _check_whole(self.number, 1, LARGEST, "number")

    @property
    def subject(self) -> str:
        """What there is one such line of."""
        return str(self.number)


Body = OpenBody | SeatsBody | ReserveBody | ReleaseBody | RecoverBody

_BODIES: Mapping[str, type[Body]] = {body.kind: body for body in get_args(Body)}


def values_of(body: Body) -> dict[str, Any]:
    """A body as plain values."""
    return {item.name: _plain(getattr(body, item.name)) for item in fields(body)}


def _plain(value: Any) -> Any:
    if isinstance(value, StrEnum):
        return value.value
    return list(value) if type(value) is tuple else value


def body_of(kind: object, values: object) -> Body:
    """A body from plain values: exactly its fields, each in range."""
    shape = _BODIES.get(kind) if isinstance(kind, str) else None
    if shape is None:
        _refuse(f"kind is one of {', '.join(LineKind)}", kind)
    names = {item.name for item in fields(shape)}
    if not isinstance(values, dict) or values.keys() != names:
        raise Malformed(f"The body of {kind} has the fields {sorted(names)}.", "Give these and no others.")
    return shape(**{name: _read(name, value) for name, value in values.items()})


def _read(name: str, value: Any) -> Any:
    """A value as a body has it: lists as tuples, large amounts as numbers."""
    if name == "cells" and isinstance(value, list):
        return tuple(value)
    amount = name in ("nano_epsilon", "atto_delta") and isinstance(value, str)
    return int(value) if amount and is_large(value) else value


@dataclass(frozen=True, slots=True)
class Head:
    """Where a chain ends. Two chains with the same head are the same chain."""

    sequence: int
    hash: str

    def __post_init__(self) -> None:
        _check_whole(self.sequence, 0, LARGEST, "sequence")
        _check_digest(self.hash, "hash")


START = Head(0, GENESIS)


@dataclass(frozen=True, slots=True)
class Line:
    """One line. Lines count from 1; `time` is in milliseconds since 1970 (UTC) and says when, not in which order."""

    sequence: int
    previous: str
    time: int
    body: Body
    hash: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        _check_whole(self.sequence, 1, LARGEST, "sequence")
        _check_digest(self.previous, "previous")
        _check_whole(self.time, 0, LATEST, "time")
        if not isinstance(self.body, Body):
            _refuse("body is the body of a line", self.body)
        object.__setattr__(self, "hash", sha256(self.text.encode()))

    @classmethod
    def after(cls, head: Head, body: Body, time: int) -> Line:
        """The line that extends this head."""
        return cls(head.sequence + 1, head.hash, time, body)

    @property
    def kind(self) -> LineKind:
        """What the line does."""
        return self.body.kind

    @property
    def head(self) -> Head:
        """The head of the chain that ends with this line."""
        return Head(self.sequence, self.hash)

    @property
    def values(self) -> dict[str, Any]:
        """Plain values, the hash not among them."""
        return {
            "sequence": self.sequence,
            "previous": self.previous,
            "kind": self.kind.value,
            "time": self.time,
            "body": values_of(self.body),
        }

    @property
    def text(self) -> str:
        """The line as it travels, and as it is hashed."""
        return canonical(self.values).decode()

    @classmethod
    def from_text(cls, text: bytes | str) -> Line:
        """Read a line. Another spelling of the same values is refused: a line has one byte string."""
        try:
            values = read_canonical(text, LINE_BYTES)
        except InvalidMessage as error:
            raise Malformed(f"The line cannot be read: {error.cause}", "It was changed or cut.") from None
        names = {"sequence", "previous", "kind", "time", "body"}
        if not isinstance(values, dict) or values.keys() != names:
            raise Malformed(f"A line has the fields {sorted(names)}.", "Give these and no others.")
        line = cls(values["sequence"], values["previous"], values["time"], body_of(values["kind"], values["body"]))
        object.__setattr__(line, "hash", sha256(text.encode() if isinstance(text, str) else text))
        return line
