"""BRFSS 2022, a telephone survey of adults in the United States: 54 states and territories as hospitals.

They are real people, real sites, and differ as sites do. The label is whether one was ever told to have diabetes.
"""

from __future__ import annotations

import gzip
import json
from functools import cache, lru_cache

import numpy as np
from pyarrow import csv

from crossward_lab.bench.datasets.brfss_schema import PREVALENCE, SCHEMA, read_labels, read_table
from crossward_lab.bench.datasets.files import places
from crossward_lab.bench.datasets.hospitals import Site, split
from crossward_lab.bench.experiments.cold_start import Start, States
from crossward_lab.bench.experiments.transfer import Sites
from crossward_lab.bench.public import Public
from crossward_lab.simulate.hospitals import BRANCHES

SOURCE = "Washington"
MONTH, FEWEST = 1 / 12, 120
"""003: a partner that has just begun has a month of records, the others a year. At epsilon 0.01 it takes a hundred."""


@cache
def _states() -> dict[str, Site]:
    """Every state's encoded records, the largest first."""
    survey_file, codebook_file = places("brfss")
    codebook = json.loads(codebook_file.read_text())
    with gzip.open(survey_file) as lines:
        table = csv.read_csv(lines)
    survey = {name: table[name].to_numpy() for name in table.column_names}
    X, y = SCHEMA.encode(read_table(survey, codebook)), read_labels(survey, codebook)
    found = {}
    for number in np.argsort(-np.bincount(survey["State"]), kind="stable"):
        here = survey["State"] == number
        name = codebook["State"][number]
        found[name] = (name, X[here], y[here])
    return found


@cache
def public() -> Public:
    """What the schema declares."""
    return Public.of_schema(SCHEMA, PREVALENCE)


@lru_cache(maxsize=2)
def draw(repeat: int, preset: str) -> Sites:
    """Washington and the 16 next largest states, cut to the sizes of RUIJIN."""
    states = _states()
    targets = [site for name, site in states.items() if name != SOURCE][: len(BRANCHES)]
    return split(public(), states[SOURCE], targets, repeat, by_rank=True)


@lru_cache(maxsize=1)
def begin(repeat: int) -> States:
    """003: every state a partner with a year's records, of which a beginner has seen a month."""
    found = []
    for i, (name, X, y) in enumerate(_states().values()):
        order = np.random.default_rng([repeat, 2, i]).permutation(len(y))
        cut = round(0.8 * len(y))
        train, test = order[:cut], order[cut:]
        cold = train[: max(FEWEST, round(MONTH * cut))]
        found.append(Start(name, X[train], y[train], X[cold], y[cold], X[test], y[test]))
    return States(public(), tuple(found))
