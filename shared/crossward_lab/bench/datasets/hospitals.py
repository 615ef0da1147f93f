"""A source and targets as sites of a study: their tables, cut to the papers' sizes, four fifths to train on."""

from __future__ import annotations

import numpy as np

from crossward.privacy.noise import Array
from crossward_lab.bench.experiments.transfer import Sites, Target
from crossward_lab.bench.public import Public
from crossward_lab.simulate.hospitals import BRANCHES, MAIN

TRAIN_SHARE = 0.8

Site = tuple[str, Array, Array]
"""A name, the encoded records, the labels."""


def split(public: Public, source: Site, targets: list[Site], repeat: int, *, by_rank: bool = False) -> Sites:
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
