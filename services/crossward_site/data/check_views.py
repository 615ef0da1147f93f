"""What `data check` answers. It is counted from records and stays with the steward; no value is in it."""

from __future__ import annotations

from typing import Literal

from crossward_service.http.views import View

Severity = Literal["error", "warning", "note"]
Kind = Literal["number", "text", "yes-no", "date", "empty", "id", "other"]


class Problem(View):
    """Something to mend, or to know: where it is first, on which lines (the first ten), how often, why, and the fix."""

    severity: Severity
    column: str | None = None
    feature: str | None = None
    line: str | None = None
    lines: tuple[str, ...] = ()
    count: int
    cause: str
    fix: str


class ColumnCheck(View):
    """A column: what it holds, how many values are missing, how many distinct there are (None: more than 1,000).

    `use` is what it is mapped to: person, record, label, or the names of features.
    """

    name: str
    kind: Kind
    missing: int
    distinct: int | None
    use: list[str]


class FeatureCheck(View):
    """What becomes of a feature's values."""

    column: str
    missing: int = 0
    unread: int = 0
    clipped: int = 0
    recoded: int = 0
    implausible: int = 0
    odd_unit: int = 0


class CheckReport(View):
    """All that a check found. `ready`: nothing stands against opening the data. `suggestion`: a mapping that mends."""

    where: str
    study: str | None
    rows: int
    persons: int
    positives: int | None
    ready: bool
    problems: list[Problem]
    columns: list[ColumnCheck]
    fit: dict[str, FeatureCheck]
    suggestion: str
