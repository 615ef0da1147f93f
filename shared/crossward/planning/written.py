"""A study's own method with its own settings, on simulated hospitals, by the code that its parties will run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from crossward.methods import Method
from crossward.methods.base import HOLDOUT
from crossward.planning.world import Records, expected_auc
from crossward.privacy.noise import Randomness
from crossward.protocol.constants import CELLS, Role
from crossward.study import Study, work


def can_forecast(method: Method) -> bool:
    """Whether a method can be forecast: not one that needs a public set, nor one whose model never leaves."""
    return not method.aggregates and method.trains(Role.TARGET) == method.pays(Role.TARGET)


def learn_as_written(
    study: Study, sources: Sequence[Records], targets: Sequence[tuple[Records, Records]], noise: Randomness
) -> Iterator[float]:
    """The AUC of each target's model on its fresh people."""
    lent = []
    for site in sources if study.method.has_sources else ():
        rows, level = _training_rows(study, Role.SOURCE, len(site.y))
        lent.append(work.train(study, Role.SOURCE, site.X[rows], site.y[rows], level, randomness=noise).model)
    for own, test in targets:
        rows, level = _training_rows(study, Role.TARGET, len(own.y))
        model = work.train(study, Role.TARGET, own.X[rows], own.y[rows], level, lent, noise)
        yield expected_auc(model.margins(test.X), test.chance)


def _training_rows(study: Study, role: Role, n: int) -> tuple[NDArray[np.intp], NDArray[np.str_]]:
    """Rows dealt to the 20 cells in turn, and the level of each; the holdout trains nothing."""
    levels_of = work.levels(study, role)
    home = {cell: level for level, cells in levels_of.items() for cell in cells if level != HOLDOUT}
    levels = np.array([home.get(cell, "") for cell in range(CELLS)])[np.arange(n) % CELLS]
    rows = np.flatnonzero(levels != "")
    return rows, levels[rows]
