"""How soon does it answer? Fresh processes of this Python, ours beside what they stand on.

Repeats are interleaved, so that a busy machine slows all alike; times are medians, ratios medians of the repeats'
ratios. The first round is not counted: it fills the caches of the file system.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Start:
    """Something that starts: its name, the arguments of Python, and the peer it is compared with."""

    name: str
    arguments: tuple[str, ...]
    peer: str = ""


def _code(code: str, peer: str = "") -> Start:
    return Start(code, ("-c", code), peer)


def _command(words: str, peer: str) -> Start:
    return Start(f"crossward {words}", ("-m", "crossward_cli", *words.split()), peer)


STARTS = (
    _code("pass"),
    _code("import typer"),
    _code("import httpx"),
    _code("from sklearn.linear_model import LogisticRegression"),
    _code("import crossward", "pass"),
    _code("from crossward import Client", "import httpx"),
    _code(
        "from crossward import PrivateLogisticRegression", peer="from sklearn.linear_model import LogisticRegression"
    ),
    _command("--help", "import typer"),
    _command("version", "import typer"),
    _command("study --help", "import typer"),
)
"""Peers before those who are compared with them."""


@dataclass(frozen=True, slots=True)
class StartRow:
    """How long one took, and how many times its peer's time that is; None for a peer."""

    name: str
    seconds: float
    fastest: float
    slowest: float
    peer: str
    times_peer: float | None


@dataclass(frozen=True, slots=True)
class StartReport:
    """What a run found."""

    rows: tuple[StartRow, ...]
    repeats: int

    def describe(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        return asdict(self)


def startup(repeats: int = 7, progress: Callable[[str], None] = lambda line: None) -> StartReport:
    """Start each of them `repeats` times."""
    seconds: dict[str, list[float]] = {start.name: [] for start in STARTS}
    for repeat in range(repeats + 1):
        for start in STARTS:
            progress(f"{start.name}, {repeat} of {repeats}")
            took = _seconds(start)
            if repeat:
                seconds[start.name].append(took)
    return StartReport(tuple(_row(start, seconds) for start in STARTS), repeats)


def _seconds(start: Start) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *start.arguments], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def _row(start: Start, seconds: dict[str, list[float]]) -> StartRow:
    own = seconds[start.name]
    ratios = [a / b for a, b in zip(own, seconds[start.peer], strict=True)] if start.peer else []
    times_peer = statistics.median(ratios) if ratios else None
    return StartRow(start.name, statistics.median(own), min(own), max(own), start.peer, times_peer)
