"""The RUIJIN hospitals, simulated: their records are private, their sizes and some importances are published."""

from __future__ import annotations

from functools import cache, lru_cache

from crossward_lab.bench.datasets.hospitals import Site, split
from crossward_lab.bench.experiments.transfer import Sites
from crossward_lab.bench.public import Public
from crossward_lab.simulate.hospitals import BRANCHES, Federation

PREVALENCE = 0.125
"""What the study would declare: one in eight."""


@cache
def _sites() -> tuple[Public, list[Site]]:
    federation = Federation.simulate(branches=len(BRANCHES), seed=0)
    hospitals = (federation.main, *federation.branches)
    encoded = [(hospital.name, *hospital.encode(federation.schema)) for hospital in hospitals]
    return Public.of_schema(federation.schema, PREVALENCE), encoded


@lru_cache(maxsize=2)
def draw(repeat: int, preset: str) -> Sites:
    """000 and 002: the main hospital and 16 branches."""
    public, sites = _sites()
    return split(public, sites[0], sites[1:], repeat)
