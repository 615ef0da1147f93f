"""Covertype, spruce against lodgepole pine: ten numbers by public ranges, wilderness area and soil type one-hot."""

from __future__ import annotations

from functools import cache, lru_cache

import numpy as np

from crossward.privacy.noise import Array
from crossward_lab.bench.datasets.files import places
from crossward_lab.bench.experiments import OneSite
from crossward_lab.bench.public import Public

TRAIN = 346_598

RANGES: dict[str, tuple[float, float, float]] = {
    "elevation": (1800, 3900, 10),
    "aspect": (0, 360, 1),
    "slope": (0, 60, 1),
    "to water": (0, 1400, 1),
    "above water": (-200, 600, 1),
    "to roads": (0, 7200, 2),
    "shade at 9": (0, 255, 1),
    "shade at noon": (0, 255, 1),
    "shade at 15": (0, 255, 1),
    "to fires": (0, 7200, 2),
}
"""Low, high and importance: what the terrain allows, and that trees live by elevation first of all."""

WILDERNESS, SOIL = (4, 2.0), (40, 0.5)
"""Levels, and the importance of each: a soil type is rare, so that it can tell little."""


@cache
def public() -> Public:
    """What anybody knows of the columns."""
    importance = [weight for *_, weight in RANGES.values()]
    names = list(RANGES)
    sizes = [0.5] * len(RANGES)
    for name, (levels, weight) in (("wilderness", WILDERNESS), ("soil", SOIL)):
        importance += [weight] * levels
        names += [name] * levels
        sizes += [levels**-0.5] * levels
    return Public(tuple(importance), tuple(names), sizes=tuple(sizes), prevalence=0.4)


@cache
def _columns() -> tuple[Array, Array]:
    """All records within [-1, 1], in 32 bits: half a million of them."""
    with np.load(places("covertype")[0]) as z:
        low, high = (np.array([limits[i] for limits in RANGES.values()]) for i in (0, 1))
        numbers = 2 * (np.clip(z["X_num"], low, high) - low) / (high - low) - 1
        X = np.zeros((len(numbers), public().columns), dtype=np.float32)
        X[:, :10] = numbers
        rows = np.arange(len(X))
        X[rows, 10 + z["wilderness"]] = 1
        X[rows, 14 + z["soil"].astype(int)] = 1
        return X, np.where(z["y"] == 1, 1.0, -1.0)  # type: ignore[return-value]


@lru_cache(maxsize=1)
def _split(repeat: int) -> OneSite:
    X, y = _columns()
    order = np.random.default_rng([repeat, 54]).permutation(len(y))
    train, test = order[:TRAIN], order[TRAIN:]
    return OneSite(public(), X[train], y[train], X[test], y[test])


def draw(repeat: int, preset: str) -> OneSite:
    """004: 346,598 records for all sites and the aggregator, the rest to test on."""
    return _split(repeat)
