"""A source and targets as sites of a study, cut to the papers' sizes, four fifths to train on; the RUIJIN hospitals.

The latter are simulated: their records are private, their sizes and some importances are published.
"""

from __future__ import annotations

from functools import cache, lru_cache

import numpy as np

from crossward.privacy.noise import Array
from crossward_lab.bench.experiments import Sites, Target
from crossward_lab.bench.public import Public
from crossward_lab.simulate.hospitals import BRANCHES, MAIN, Federation

TRAIN_SHARE = 0.8

SiteRecords = tuple[str, Array, Array]
"""A name, the encoded records, the labels."""


def split(
    public: Public, source: SiteRecords, targets: list[SiteRecords], repeat: int, *, by_rank: bool = False
) -> Sites:
    """A random split: of each site's first records, as many as the papers' site has, 80 % train and the rest test.

    What a site has beyond that is tested on too: the same quantity, with less chance in it. `by_rank`: the largest
    target is cut to the largest size, and so on.
    """
    ranked = sorted(range(len(targets)), key=lambda i: -len(targets[i][2])) if by_rank else list(range(len(targets)))
    sizes = sorted(BRANCHES, reverse=True) if by_rank else list(BRANCHES)
    found = []
    for place, i in enumerate(ranked):
        name, X, y = targets[i]
        order = np.random.default_rng([repeat, 1, i]).permutation(len(y))
        cut = round(TRAIN_SHARE * min(sizes[place], len(y)))
        train, test = order[:cut], order[cut:]
        found.append(Target(name, X[train], y[train], X[test], y[test]))
    _, X, y = source
    rows = np.random.default_rng([repeat, 0]).permutation(len(y))[: round(TRAIN_SHARE * MAIN)]
    return Sites(public, X[rows], y[rows], tuple(found))


RUIJIN_PREVALENCE = 0.125
"""What the study would declare: one in eight."""


@cache
def _ruijin_sites() -> tuple[Public, list[SiteRecords]]:
    federation = Federation.simulate(branches=len(BRANCHES), seed=0)
    hospitals = (federation.main, *federation.branches)
    encoded = [(hospital.name, *hospital.encode(federation.schema)) for hospital in hospitals]
    return Public.of_schema(federation.schema, RUIJIN_PREVALENCE), encoded


@lru_cache(maxsize=2)
def draw_ruijin(repeat: int, preset: str) -> Sites:
    """000 and 002: the main hospital and 16 branches."""
    public, sites = _ruijin_sites()
    return split(public, sites[0], sites[1:], repeat)
