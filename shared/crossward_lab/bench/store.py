"""Results that were measured before, so that an interrupted benchmark goes on where it stopped.

A result is filed under a digest of its run, of the data's files and of the code that makes it: whatever changes any of
them makes it a new result. One line of JSON each, appended as soon as it is known.

Whether the files can be read at all is looked at here too, and not beside their own code: every stored result depends
on that code, and none on this.
"""

from __future__ import annotations

import ast
import gzip
import hashlib
import json
import zipfile
import zlib
from functools import cache
from pathlib import Path

import numpy as np

import crossward
from crossward.errors import InvalidData
from crossward_lab.bench.datasets.files import cache_folder, digest, places
from crossward_lab.bench.settings import PAPER, Outcome, Run

ROOT = Path(crossward.__file__).parents[1]
"""Where the packages lie, side by side."""

CODE = (
    "crossward/learning",
    "crossward/privacy",
    "crossward_lab/simulate/hospitals.py",
    "crossward_lab/simulate/survey.py",
    "crossward_lab/bench/datasets",
    "crossward_lab/bench/experiments.py",
    "crossward_lab/bench/presets",
    "crossward_lab/bench/public.py",
    "crossward_lab/bench/settings.py",
)
"""What a result depends on, beside its run and the data."""

ASIDE = ("crossward/learning/estimators",)
"""What learns nothing, but only wraps what does."""

RULES = ("crossward/learning/defaults", "crossward_lab/bench/presets/default.py")
"""What the papers' methods do not depend on: a changed rule leaves their results as they are."""


@cache
def code_digest(preset: str) -> str:
    """The start of the sha256 of the code that a preset's results depend on."""
    found = hashlib.sha256()
    for part in CODE:
        path = ROOT / part
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            name = file.relative_to(ROOT).as_posix()
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


FILE_CONTENTS: dict[str, tuple[str, ...]] = {
    "mnist_03789.npz": ("X_train", "y_train", "X_test", "y_test"),
    "20news_sci_talk_counts.npz": ("data", "indices", "indptr", "shape", "group", "groups", "is_train"),
    "covertype_12.npz": ("X_num", "wilderness", "soil", "y"),
    "brfss2022_state.csv.gz": ("State", "HadDiabetes"),
    "brfss2022_codebook.json": ("State", "HadDiabetes"),
}
"""What must be in a file."""

UNREADABLE = (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error)


def require_intact(dataset: str) -> None:
    """Refuse a file that is damaged, cut short, or another one under the same name; checksums within it are checked."""
    for place in places(dataset):
        try:
            _read_through(place)
        except UNREADABLE as error:
            raise InvalidData(
                f"{place} is damaged, or is not the data of {dataset!r} ({type(error).__name__}).",
                "Put an intact copy in its place.",
            ) from error


def _read_through(place: Path) -> None:
    if place.suffix == ".gz":
        with gzip.open(place) as lines:
            columns = lines.readline().decode().strip().split(",")
            for name in FILE_CONTENTS[place.name]:
                columns.index(name)
            while lines.read(1 << 20):
                pass
        return
    if place.suffix == ".json":
        found = json.loads(place.read_text())
        for name in FILE_CONTENTS[place.name]:
            found[name]
        return
    with place.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        for name in FILE_CONTENTS[place.name]:
            arrays[name]
