"""Every error Crossward raises on purpose, each with a cause and a fix.

::

    CrosswardError
    ├── InvalidInput (also a ValueError)   refused before any noise is drawn
    │   ├── InvalidData                    records or labels that cannot be learned from
    │   │   ├── NotFinite                  NaN or infinity
    │   │   ├── EmptyData                  no records or no features
    │   │   ├── OneClass                   labels of one class only, or not two classes
    │   │   ├── WrongShape                 arrays that do not fit one another
    │   │   ├── TooFewRecords              so few that nothing could be learned at this epsilon
    │   │   └── UnknownCategory            a level the feature schema does not list
    │   ├── InvalidMessage                 a wire message that is malformed, or does not fit its study
    │   │   ├── UnknownVersion             written by another version of the protocol
    │   │   └── Forged                     bytes that their key did not sign, or not in this form
    │   └── InvalidSetting                 a public parameter outside its meaning
    │       ├── InvalidEpsilon             epsilon or delta
    │       ├── InvalidImportance          q below zero, all zero, or summing to more than one
    │       ├── InvalidRegularisation      lambda
    │       ├── InvalidBounds              ranges and radii: missing, not finite, low >= high
    │       ├── StudyInvalid               a study file, with every problem it has
    │       ├── InsecureAddress            plain HTTP to, or on, an address that is not this machine
    │       └── UnsafeKeyFile              a key file that others can read, or that holds no usable key
    ├── BudgetExceeded                     a filter said no; nothing was charged
    ├── NotConverged                       the solver stopped short; the charge stands, nothing is released
    ├── LedgerRefused                      a line the ledger does not take; nothing was written
    │   ├── Malformed                      a line that is no line: a field missing, out of range, or not in its one form
    │   ├── NotNext                        a line that does not extend the head: a gap, a fork, a stale backup
    │   ├── AlreadyOpen                    the budget was charged, and is final
    │   ├── NotOpen                        the ledger has no budget yet
    │   ├── OutOfTurn                      a version of the budget or the seats, or a recovery, that is not the next
    │   ├── NotSeated                      who sits in which cell is not committed to, or is lost
    │   ├── UnknownDataset                 the site has none of this name
    │   ├── UnknownCell                    there are fewer cells
    │   ├── AlreadyReserved                the task holds another reservation
    │   ├── NotReserved                    a release that nobody paid for
    │   ├── AlreadyReleased                the task released other bytes
    │   └── CellSpent (also BudgetExceeded)  a cell would pass its budget
    ├── ChainBroken                        a stored ledger contradicts itself, from a named line on
    ├── StorageFailed                      the database cannot write: full, read-only, gone; nothing is half-written
    │   └── StorageBusy                    it was locked for too long; the same call may be made again
    ├── AuditFailed                        an audit found a loss above the claim, or missed a planted fault
    ├── AccessRefused                      the caller is not who it must be; nothing was read or changed
    │   ├── Unsigned                       a party's request without a signature
    │   ├── WrongSignature                 a signature that does not fit the request
    │   ├── Expired                        signed too long ago, or by a clock that runs ahead
    │   ├── Replayed                       this very request was here before
    │   ├── UnknownParty                   no such party, or no such key of it
    │   ├── KeyRevoked                     a key that its party no longer uses
    │   ├── MissingToken                   a role's request without a token
    │   ├── WrongToken                     a token that nobody holds
    │   ├── WrongRole                      a good token of a role that may not do this
    │   ├── WrongCode                      an invitation that nobody gave, or that is used up
    │   └── PartyStopped                   a party whose ledger and mirror disagree, until an operator reconciles them
    ├── NotFound                           nothing here has this name
    ├── Conflict                           it contradicts what is there; nothing was changed
    │   └── TaskEnded                      a task that was done, declined, failed or cancelled before
    ├── BodyTooLarge                       a request or an answer above its size limit
    ├── NotReady                           a service that lives but cannot work yet
    ├── Unreachable                        no answer from another service
    └── RemoteProblem                      another service refused, for a reason without a class here
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class CrosswardError(Exception):
    """The root: `cause` says what is wrong, `fix` what to do about it."""

    def __init__(self, cause: str, fix: str = "") -> None:
        super().__init__(cause, fix)
        self.cause = cause
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.cause} {self.fix}".strip()


class InvalidInput(CrosswardError, ValueError):
    """Refused as it stands; nothing was drawn, charged or changed."""


class InvalidData(InvalidInput):
    """Records or labels that cannot be learned from."""


class NotFinite(InvalidData):
    """NaN or infinity where a number is needed."""


class EmptyData(InvalidData):
    """No records, or no features."""


class OneClass(InvalidData):
    """Labels that are not of exactly two classes."""


class WrongShape(InvalidData):
    """Arrays that do not fit one another or the model."""


class TooFewRecords(InvalidData):
    """So few records that nothing could be learned from them at this epsilon."""


class UnknownCategory(InvalidData):
    """A category level that the feature schema does not list."""


class InvalidSetting(InvalidInput):
    """A public parameter outside its meaning."""


class InvalidEpsilon(InvalidSetting):
    """An epsilon or delta that is not a usable privacy parameter."""


class InvalidImportance(InvalidSetting):
    """Group importances q below zero, all zero, or summing to more than one."""


class InvalidRegularisation(InvalidSetting):
    """A regularisation strength lambda that is not positive and finite."""


class InvalidBounds(InvalidSetting):
    """Public ranges or radii that are missing, not finite, or low >= high."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a study: where (`line` from 1, None without a file), what, and what to do about it."""

    line: int | None
    field: str
    cause: str
    fix: str = ""

    def __str__(self) -> str:
        place = ", ".join(([f"line {self.line}"] if self.line else []) + ([self.field] if self.field else []))
        return f"{place}: {self.cause} {self.fix}".strip(": ")


class StudyInvalid(InvalidSetting):
    """A study that cannot be run: `problems` lists all that is wrong with it, in the order of its lines."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        super().__init__(f"The study has {count}:", "\n".join(f"- {problem}" for problem in self.problems))
        self.args = (self.problems,)

    def __str__(self) -> str:
        return f"{self.cause}\n{self.fix}"


class InvalidMessage(InvalidInput):
    """A wire message that is malformed, or does not fit its study."""


class UnknownVersion(InvalidMessage):
    """A wire message of another version of the protocol."""


class Forged(InvalidMessage):
    """Signed bytes that were altered, or that their key did not sign."""


class BudgetExceeded(CrosswardError):
    """The privacy filter refuses this charge; nothing was charged."""


class NotConverged(CrosswardError):
    """The solver stopped above its tolerance: the charge stands and nothing is released."""


class LedgerRefused(CrosswardError):
    """A line that the ledger does not take; nothing was written."""


class Malformed(LedgerRefused):
    """A line that is no line: a field missing, unknown or out of range, or not in its one canonical form."""


class NotNext(LedgerRefused):
    """A line that does not extend the head: a gap, a fork, a rewritten past, a stale backup."""


class AlreadyOpen(LedgerRefused):
    """The budget is final with the first charge, and so is the number of cells with the first opening."""


class NotOpen(LedgerRefused):
    """A line that needs a budget, in a ledger that has none yet."""


class OutOfTurn(LedgerRefused):
    """A version of the budget or of the seats, or a recovery, that is not the next: they count without gaps."""


class NotSeated(LedgerRefused):
    """A reservation while no line commits to who sits in which cell, or since the table of seats was lost."""


class UnknownDataset(LedgerRefused):
    """The site has no dataset of this name."""


class UnknownCell(LedgerRefused):
    """A reservation on a cell that is not there."""


class AlreadyReserved(LedgerRefused):
    """The task holds another reservation."""


class NotReserved(LedgerRefused):
    """A release of a task that reserved nothing."""


class AlreadyReleased(LedgerRefused):
    """The task released other bytes."""


class CellSpent(BudgetExceeded, LedgerRefused):
    """A cell would pass its budget; nothing was charged to any cell."""


class ChainBroken(CrosswardError):
    """A stored ledger contradicts itself. `line` is the first line that is wrong, counted from 1."""

    def __init__(self, cause: str, fix: str = "", line: int = 0) -> None:
        super().__init__(cause, fix)
        self.line = line


class StorageFailed(CrosswardError):
    """The database cannot be read or written. What was not committed is not there."""


class StorageBusy(StorageFailed):
    """The database was locked by others for too long. The same call may be made again."""


class AuditFailed(CrosswardError):
    """An audit found a loss above the claim, or missed a planted fault."""


class InsecureAddress(InvalidSetting):
    """Plain HTTP to, or on, an address that is not this machine."""


class UnsafeKeyFile(InvalidSetting):
    """A key file that others can read, or that holds no usable key."""


class AccessRefused(CrosswardError):
    """The caller is not who it must be; nothing was read or changed."""


class Unsigned(AccessRefused):
    """A party's request without a signature."""


class WrongSignature(AccessRefused):
    """A signature that does not fit the request it came with."""


class Expired(AccessRefused):
    """Signed too long ago, or by a clock that runs ahead."""


class Replayed(AccessRefused):
    """This very request was here before."""


class UnknownParty(AccessRefused):
    """No such party, or no such key of it."""


class KeyRevoked(AccessRefused):
    """A key that its party no longer uses."""


class MissingToken(AccessRefused):
    """A role's request without a token."""


class WrongToken(AccessRefused):
    """A token that nobody holds."""


class WrongRole(AccessRefused):
    """A good token, of a role that may not do this."""


class WrongCode(AccessRefused):
    """An invitation that nobody gave, that was used, or that has expired."""


class PartyStopped(AccessRefused):
    """A party whose ledger and its mirror disagree: it gets no work until an operator reconciles them."""


class NotFound(CrosswardError):
    """Nothing here has this name."""


class Conflict(CrosswardError):
    """It contradicts what is there already; nothing was changed."""


class TaskEnded(Conflict):
    """The task was done, declined, failed or cancelled before."""


class BodyTooLarge(CrosswardError):
    """A request or an answer above its size limit."""


class NotReady(CrosswardError):
    """The service lives but cannot do its work yet."""


class Unreachable(CrosswardError):
    """No answer from another service; whether it acted on the request is unknown."""


class RemoteProblem(CrosswardError):
    """Another service's refusal as it came: the reason itself if no class here has its name, else the cause of one."""

    def __init__(self, cause: str, fix: str = "", *, status: int = 0, type: str = "", instance: str = "") -> None:
        super().__init__(cause, fix)
        self.status = status
        self.type = type
        self.instance = instance
