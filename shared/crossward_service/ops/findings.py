"""What an examination writes down. It never holds a secret, nor a value of a record."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Self

from crossward.errors import CrosswardError


class Verdict(StrEnum):
    """What a finding comes to."""

    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: `observation` says what is there, `fix` what to do about it (nothing if all is well)."""

    check: str
    verdict: Verdict
    observation: str
    fix: str = ""

    def to_dict(self) -> dict[str, str]:
        """For machines."""
        return asdict(self)


@dataclass(slots=True)
class Findings:
    """All that was found, in the order it was looked at."""

    items: list[Finding] = field(default_factory=list)

    @property
    def faulty(self) -> bool:
        """Whether anything must be fixed."""
        return any(item.verdict is Verdict.FAULT for item in self.items)

    def looking_at(self, check: str) -> Notes:
        """One check, as a context: what it does not say, or cannot finish, is never ok."""
        return Notes(check, self.items)


class Notes:
    """Where one check writes. An error ends the check, not the examination."""

    def __init__(self, check: str, items: list[Finding]) -> None:
        self.check, self._items, self._before = check, items, len(items)

    @property
    def empty(self) -> bool:
        """Whether nothing was said yet."""
        return len(self._items) == self._before

    def ok(self, observation: str) -> None:
        """All is well."""
        self._add(Verdict.OK, observation, "")

    def warning(self, observation: str, fix: str) -> None:
        """It works now; look at it soon."""
        self._add(Verdict.WARNING, observation, fix)

    def fault(self, observation: str, fix: str) -> None:
        """It does not work, or must not."""
        self._add(Verdict.FAULT, observation, fix)

    def unknown(self, why: str, fix: str = "Fix what stands in the way, then ask again.") -> None:
        """It could not be looked at."""
        self._add(Verdict.WARNING, f"Not checked: {why}.", fix)

    def _add(self, verdict: Verdict, observation: str, fix: str) -> None:
        self._items.append(Finding(self.check, verdict, observation, fix))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, CrosswardError):
            self.fault(error.cause, error.fix)
        elif isinstance(error, Exception):  # its words may hold anything, a record or a password too
            self.fault(f"The check itself failed ({type(error).__name__}).", "Tell the makers of Crossward.")
        elif error is None and self.empty:
            self.unknown("it came to no result")
        return isinstance(error, Exception)
