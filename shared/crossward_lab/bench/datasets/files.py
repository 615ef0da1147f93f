"""Where a benchmark's files are: the folder named by CROSSWARD_DATA, the cache, or their public home.

Whatever was found, its digest goes into the key of every result, so results of other data are never mixed up.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

from crossward.errors import NotFound
from crossward_lab.bench.datasets.homes import HOMES, FetchFailed

ENVIRONMENT = "CROSSWARD_DATA"

FILES: dict[str, tuple[str, ...]] = {
    "mnist": ("mnist_03789.npz",),
    "news20": ("20news_sci_talk_counts.npz",),
    "covertype": ("covertype_12.npz",),
    "brfss": ("brfss2022_state.csv.gz", "brfss2022_codebook.json"),
    "ruijin": (),
}
"""The files of each data set. RUIJIN itself is private: it is simulated."""

MADE_BY_HAND = {
    "news20": "word counts of the by-date 20 Newsgroups (qwone.com/~jason/20Newsgroups), groups sci.* and talk.*: "
    "arrays data, indices, indptr, shape (CSR), group, groups, is_train",
    "brfss": "complete cases of the CDC's BRFSS survey of 2022 (cdc.gov/brfss), as in the table 'heart_2022_no_nans' "
    "on Kaggle: texts replaced by their place in the sorted list of levels, and those lists as the codebook",
}
"""What has no home that we can convert from with certainty, and how its files are made."""


def cache_folder() -> Path:
    """Where fetched data and results are kept: $XDG_CACHE_HOME/crossward, by default ~/.cache/crossward."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "crossward"


def places(name: str) -> tuple[Path, ...]:
    """The files of a data set, fetched first where need be; NotFound says what to do where that fails."""
    wanted = FILES[name]
    given = os.environ.get(ENVIRONMENT)
    for folder in ([Path(given)] if given else []) + [cache_folder() / "data"]:
        if all((folder / file).is_file() for file in wanted):
            return tuple(folder / file for file in wanted)
    if name in HOMES:
        target = cache_folder() / "data" / wanted[0]
        try:
            HOMES[name](target)
        except FetchFailed as reason:
            raise _absent(name, f"and could not be fetched: {reason}") from reason
        return (target,)
    raise _absent(name, f"and has no home to fetch it from. It holds {MADE_BY_HAND[name]}")


def is_present(name: str) -> bool:
    """Whether a data set's files are here, without fetching."""
    given = os.environ.get(ENVIRONMENT)
    folders = ([Path(given)] if given else []) + [cache_folder() / "data"]
    return any(all((folder / file).is_file() for file in FILES[name]) for folder in folders)


@cache
def digest(name: str) -> str:
    """The start of the sha256 of a data set's files, in order."""
    found = hashlib.sha256()
    for place in places(name):
        found.update(place.read_bytes())
    return found.hexdigest()[:16]


def _absent(name: str, why: str) -> NotFound:
    listed = " and ".join(FILES[name])
    return NotFound(
        f"The data of {name!r} ({listed}) is not here, {why}.",
        f"Set {ENVIRONMENT} to a folder that holds {listed}, or put it into {cache_folder() / 'data'}.",
    )
