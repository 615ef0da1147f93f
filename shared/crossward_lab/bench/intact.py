"""Whether a data set's files can be read at all: looked at before anything is measured on them.

Not beside the files' own code, on which every stored result depends and this does not.
"""

from __future__ import annotations

import gzip
import json
import zipfile
import zlib
from pathlib import Path

import numpy as np

from crossward.errors import InvalidData
from crossward_lab.bench.datasets.files import places

HOLDS: dict[str, tuple[str, ...]] = {
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
            _read(place)
        except UNREADABLE as error:
            raise InvalidData(
                f"{place} is damaged, or is not the data of {dataset!r} ({type(error).__name__}).",
                "Put an intact copy in its place.",
            ) from error


def _read(place: Path) -> None:
    if place.suffix == ".gz":
        with gzip.open(place) as lines:
            columns = lines.readline().decode().strip().split(",")
            for name in HOLDS[place.name]:
                columns.index(name)
            while lines.read(1 << 20):
                pass
        return
    if place.suffix == ".json":
        found = json.loads(place.read_text())
        for name in HOLDS[place.name]:
            found[name]
        return
    with place.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        for name in HOLDS[place.name]:
            arrays[name]
