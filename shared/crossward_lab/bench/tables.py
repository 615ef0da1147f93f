"""Rows laid out as the papers lay them out: a method per line, what varies across the columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from crossward_lab.bench.measurements import Measurement

NON_PRIVATE = "non-private"
PUBLISHED = "published"


@dataclass(frozen=True, slots=True)
class Cell:
    """A mean and its deviation; `bold` if there are others in its column and it is not told from the best of them."""

    mean: float
    deviation: float | None
    bold: bool

    def text(self, *, deviation: bool) -> str:
        """.983 or .983 ±.004."""
        mean = f"{self.mean:.3f}".lstrip("0")
        if not deviation or self.deviation is None:
            return mean
        return f"{mean} ±{f'{self.deviation:.3f}'.lstrip('0')}"


@dataclass(frozen=True, slots=True)
class TableLine:
    """One method under one preset."""

    method: str
    preset: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """One setting as a table."""

    setting: str
    title: str
    paper: str
    varies: str
    columns: tuple[str, ...]
    lines: tuple[TableLine, ...]


def grids(found: list[Measurement]) -> Iterator[Grid]:
    """A table per setting: the results, not those of single sites."""
    for setting in dict.fromkeys(row.setting for row in found):
        here = [row for row in found if row.setting == setting and row.site is None]
        varies = varied(here)
        counts = Counter(column(row, varies) for row in here)
        columns = sorted(counts, key=order)
        keys = dict.fromkeys((row.method, row.preset) for row in here)
        lines = []
        for method, preset in sorted(keys, key=lambda key: key[1], reverse=True):
            own = {column(row, varies): row for row in here if (row.method, row.preset) == (method, preset)}
            cells = tuple(_cell(own.get(name), alone=counts[name] == 1) for name in columns)
            lines.append(TableLine(method, preset, cells))
            if preset == "paper" and any(row.paper_auc is not None for row in own.values()):
                lines.append(TableLine(method, PUBLISHED, tuple(_published(own.get(name)) for name in columns)))
        headings = tuple(heading(name, varies) for name in columns)
        yield Grid(setting, f"{here[0].dataset} {setting}", here[0].paper, varies, headings, tuple(lines))


def varied(found: list[Measurement]) -> str:
    """What differs between the rows of a setting: an option, the combiner, or epsilon."""
    if any(row.combiner for row in found):
        return "combiner"
    names = {name for row in found for name in row.options}
    moving = [name for name in sorted(names) if len({row.options.get(name) for row in found}) > 1]
    return moving[0] if moving else "epsilon"


def column(row: Measurement, varies: str) -> float | str | None:
    """Where a row stands."""
    if varies == "combiner":
        return row.combiner
    value = row.epsilon if varies == "epsilon" else row.options.get(varies)
    return value if value is None or isinstance(value, str) else float(value)


def order(name: float | str | None) -> tuple[int, float, str]:
    """Numbers by size, the non-private twin last, names by name."""
    if name is None:
        return (1, 0.0, "")
    return (0, name, "") if isinstance(name, float) else (0, 0.0, name)


def heading(name: float | str | None, varies: str) -> str:
    """A column's name; small epsilons as fractions, as one thinks of halving them."""
    if name is None:
        return NON_PRIVATE
    if isinstance(name, str):
        return name
    if varies == "epsilon" and name < 1 and Fraction(name).numerator == 1 and Fraction(name).denominator <= 1024:
        return f"1/{Fraction(name).denominator}"
    return f"{name:g}"


def _cell(row: Measurement | None, *, alone: bool) -> Cell | None:
    return None if row is None else Cell(row.auc_mean, row.auc_sd, row.comparable and not alone)


def _published(row: Measurement | None) -> Cell | None:
    if row is None or row.paper_auc is None:
        return None
    return Cell(row.paper_auc, row.paper_sd, False)
