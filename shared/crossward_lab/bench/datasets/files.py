"""Where a benchmark's files are: the folder named by CROSSWARD_DATA, the cache, or their public home.

What is downloaded is checked after conversion: the arrays must have the digest that ours have. So a home that serves
something else, or a conversion that goes wrong, is an error and never a benchmark. Whatever was found, its digest goes
into the key of every result, so results of other data are never mixed up.
"""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from crossward.errors import NotFound

Arrays = dict[str, NDArray[Any]]

MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
COVERTYPE = "https://archive.ics.uci.edu/ml/machine-learning-databases/covtype/covtype.data.gz"
MNIST_DIGEST = "ba8263b213e381c26861714c18e39b204f3e2c0e48fc7b1e34f4f78390d28906"
COVERTYPE_DIGEST = "172804980e0c0747e78608eb912af77fab0f7857ace4457d2c9b122e1cc7e3a0"
DIGITS = (0, 3, 7, 8, 9)
NUMBERS = (
    "Elevation",
    "Aspect",
    "Slope",
    "Horizontal_Distance_To_Hydrology",
    "Vertical_Distance_To_Hydrology",
    "Horizontal_Distance_To_Roadways",
    "Hillshade_9am",
    "Hillshade_Noon",
    "Hillshade_3pm",
    "Horizontal_Distance_To_Fire_Points",
)


class FetchFailed(Exception):
    """Nothing usable came from a public home, and why."""


def content_digest(arrays: Arrays) -> str:
    """sha256 over names, types, shapes and values."""
    found = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()


def mnist(images: dict[str, bytes]) -> Arrays:
    """Our arrays from the four IDX files, named as at their home."""
    arrays: Arrays = {}
    for ours, theirs in (("train", "train"), ("test", "t10k")):
        labels = np.frombuffer(images[f"{theirs}-labels-idx1-ubyte"], np.uint8, offset=8)
        pixels = np.frombuffer(images[f"{theirs}-images-idx3-ubyte"], np.uint8, offset=16).reshape(len(labels), -1)
        kept = np.flatnonzero(np.isin(labels, DIGITS))
        arrays |= {f"X_{ours}": pixels[kept], f"y_{ours}": labels[kept], f"i_{ours}": kept.astype(np.int32)}
    return arrays


def covertype(text: bytes) -> Arrays:
    """Our arrays from UCI's comma-separated table: ten numbers, 4 + 40 indicators, the cover type."""
    table = np.loadtxt(text.decode().splitlines(), delimiter=",", dtype=np.int16, ndmin=2)
    table = table[np.isin(table[:, 54], (1, 2))]
    return {
        "X_num": table[:, :10],
        "wilderness": table[:, 10:14].argmax(axis=1).astype(np.uint8),
        "soil": table[:, 14:54].argmax(axis=1).astype(np.uint8),
        "y": table[:, 54].astype(np.uint8),
        "num_names": np.array(NUMBERS),
    }


def _fetch_mnist(target: Path) -> None:
    names = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
    _keep(target, lambda: mnist({name: _download(f"{MNIST}{name}.gz") for name in names}), MNIST_DIGEST)


def _fetch_covertype(target: Path) -> None:
    _keep(target, lambda: covertype(_download(COVERTYPE)), COVERTYPE_DIGEST)


def _download(address: str) -> bytes:
    try:
        answer = httpx.get(address, follow_redirects=True, timeout=60).raise_for_status()
        return gzip.decompress(answer.content)
    except (httpx.HTTPError, OSError) as error:
        raise FetchFailed(f"{address} ({error})") from error


def _keep(target: Path, convert: Callable[[], Arrays], expected: str) -> None:
    try:
        arrays = convert()
    except (ValueError, IndexError) as error:
        raise FetchFailed(f"what its home serves is not in its documented form ({error})") from error
    if content_digest(arrays) != expected:
        raise FetchFailed("what its home serves is not the data these benchmarks know (its checksum differs)")
    target.parent.mkdir(parents=True, exist_ok=True)
    half = target.with_suffix(".part.npz")
    np.savez_compressed(half, allow_pickle=False, **arrays)
    half.replace(target)


HOMES: dict[str, Callable[[Path], None]] = {"mnist": _fetch_mnist, "covertype": _fetch_covertype}


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
