"""Results that were measured before, so that an interrupted benchmark goes on where it stopped.

A result is filed under a digest of its run, of the data's files and of the code that makes it: whatever changes any of
them makes it a new result. One line of JSON each, appended as soon as it is known.
"""

from __future__ import annotations

import ast
import hashlib
import json
from functools import cache
from pathlib import Path

import crossward
from crossward_lab.bench.datasets.files import cache_folder, digest
from crossward_lab.bench.experiments.base import PAPER, Outcome, Run

CODE = (
    "learning",
    "privacy",
    "simulate/hospitals.py",
    "simulate/survey.py",
    "bench/datasets",
    "bench/experiments",
    "bench/presets",
    "bench/public.py",
)
"""What a result depends on, beside its run and the data."""

ASIDE = ("learning/audit", "learning/estimators", "privacy/audit")
"""What learns nothing, or only wraps what does."""

RULES = ("learning/defaults", "bench/presets/default.py")
"""What the papers' methods do not depend on: a changed rule leaves their results as they are."""


@cache
def code_digest(preset: str) -> str:
    """The start of the sha256 of the code that a preset's results depend on."""
    root = Path(crossward.__file__).parent
    found = hashlib.sha256()
    for part in CODE:
        place = root / part
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            name = file.relative_to(root).as_posix()
            if not name.startswith(ASIDE if preset != PAPER else ASIDE + RULES):
                found.update(f"{name} {_meaning(file.read_text())}".encode())
    return found.hexdigest()[:16]


def _meaning(code: str) -> str:
    """Code without its comments and docstrings, which change no result."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)


class Store:
    """The results of one data set."""

    def __init__(self, dataset: str, folder: Path | None = None, *, fresh: bool = False) -> None:
        self._data = digest(dataset)
        self._file = (folder or cache_folder() / "bench") / f"{dataset}.jsonl"
        if fresh:
            self._file.unlink(missing_ok=True)
        self._found: dict[str, Outcome] = dict(self._lines())

    def get(self, run: Run) -> Outcome | None:
        """The result of a run, if it was measured."""
        return self._found.get(self._key(run))

    def add(self, run: Run, outcome: Outcome) -> None:
        """Keep a result, durably: whatever happens next, it need not be measured again."""
        key = self._key(run)
        self._found[key] = outcome
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a") as lines:
            lines.write(json.dumps([key, outcome]) + "\n")

    def _key(self, run: Run) -> str:
        return run.key(self._data, code_digest(run.preset))

    def _lines(self) -> list[tuple[str, Outcome]]:
        if not self._file.is_file():
            return []
        found = []
        for line in self._file.read_text().splitlines():
            try:
                key, outcome = json.loads(line)
            except ValueError:  # the line that was being written when the power went
                continue
            found.append((key, outcome))
        return found
