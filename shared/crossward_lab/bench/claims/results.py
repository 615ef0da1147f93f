"""Looking up what was measured, and comparing it: paired over repeats, at 5 %."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from crossward_lab.bench.experiments.base import DEFAULT, PAPER, Option
from crossward_lab.bench.rows import LEVEL, Row, paired_test
from crossward_lab.bench.tables import heading

HELD, IN_PART, NOT_HELD = "held", "in part", "did not hold"


class NotMeasuredError(Exception):
    """A claim is about rows that are not there: only part of the benchmarks was run."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A statement, whether it held, the numbers that say so, and why where it did not."""

    source: str
    statement: str
    outcome: str
    numbers: str
    why: str = ""


class Results:
    """Rows by what they are about."""

    def __init__(self, found: Iterable[Row]) -> None:
        self.rows = list(found)

    def row(
        self,
        dataset: str,
        setting: str,
        method: str,
        preset: str,
        epsilon: float | None,
        *,
        combiner: str | None = None,
        site: str | None = None,
        **options: Option,
    ) -> Row:
        """The one row about this."""
        wanted = (dataset, setting, method, preset, epsilon, combiner, site)
        for row in self.rows:
            here = (row.dataset, row.setting, row.method, row.preset, row.epsilon, row.combiner, row.site)
            if here == wanted and options.items() <= row.options.items():
                return row
        raise NotMeasuredError(f"{wanted} {options}")

    def of(self, dataset: str, setting: str, **wanted: object) -> list[Row]:
        """All result rows of a setting with these values."""
        found = [
            row
            for row in self.rows
            if (row.dataset, row.setting) == (dataset, setting)
            and all(getattr(row, name) == value for name, value in ({"site": None} | wanted).items())
        ]
        if not found:
            raise NotMeasuredError(f"{dataset} {setting}")
        return found

    def measured(self, places: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Those of several settings that were measured."""
        found = {(row.dataset, row.setting) for row in self.rows}
        return [place for place in places if place in found]

    def epsilons(self, dataset: str, setting: str) -> list[float]:
        """The epsilons that both presets were measured at."""
        both = [
            {row.epsilon for row in self.of(dataset, setting, preset=preset) if row.epsilon is not None}
            for preset in (PAPER, DEFAULT)
        ]
        return sorted(both[0] & both[1])


def better(first: Row, second: Row) -> bool:
    """Whether the first is better, beyond chance."""
    return first.auc_mean > second.auc_mean and paired_test(first.aucs, second.aucs) < LEVEL


def worse(first: Row, second: Row) -> bool:
    """Whether the first is worse, beyond chance."""
    return better(second, first)


def counted(source: str, statement: str, checks: dict[str, bool], numbers: str, why: str = "") -> Verdict:
    """A verdict on several checks: held if all did, in part if some did."""
    held = [name for name, right in checks.items() if right]
    if len(held) == len(checks):
        return Verdict(source, statement, HELD, numbers)
    outcome = IN_PART if held else NOT_HELD
    missed = ", ".join(name for name in checks if name not in held)
    return Verdict(source, statement, outcome, f"{numbers} (not: {missed})" if held else numbers, why)


def checked(claims: Iterable[Callable[[Results], Iterator[Verdict]]], found: list[Row]) -> list[Verdict]:
    """The verdicts of all claims whose rows are there."""
    results, verdicts = Results(found), []
    for claim in claims:
        try:
            verdicts += list(claim(results))
        except NotMeasuredError:
            continue
    return verdicts


def show(row: Row) -> str:
    """.983 ±.004."""
    spread = "" if row.auc_sd is None else f" ±{row.auc_sd:.3f}".replace("±0", "±")
    return f"{row.auc_mean:.3f}".lstrip("0") + spread


def mean(row: Row) -> str:
    """.983."""
    return f"{row.auc_mean:.3f}".lstrip("0")


def eps(epsilon: float) -> str:
    """1/32."""
    return heading(epsilon, "epsilon")
