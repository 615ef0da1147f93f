"""A study's own method with its own settings, on simulated hospitals, by the code that its parties will run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from crossward.learning.model import ReleasedModel, SplitModel
from crossward.planning.world import Records, expected_auc
from crossward.privacy.noise import Randomness
from crossward.study import Study
from crossward.study.learners import Role, cells_for, train_source, train_target
from crossward.study.learners.cells import HOLDOUT
from crossward.study.sections import CELLS

BEYOND = ("feature", "boosted")
"""Methods that need a public set, or never leave the target: they are not forecast."""


def learn_as_written(
    study: Study, sources: Sequence[Records], targets: Sequence[tuple[Records, Records]], noise: Randomness
) -> Iterator[float]:
    """The AUC of each target's model on its fresh people."""
    lent = []
    for site in sources if study.method.has_sources else ():
        rows, _ = _training_rows(study, "source", len(site.y))
        lent.append(train_source(study, site.X[rows], site.y[rows], noise).model)
    models = [model for model in lent if isinstance(model, ReleasedModel | SplitModel)]
    for own, test in targets:
        rows, level = _training_rows(study, "target", len(own.y))
        model = train_target(study, models, own.X[rows], own.y[rows], level, noise)
        yield expected_auc(model.margins(test.X), test.chance)


def _training_rows(study: Study, role: Role, n: int) -> tuple[NDArray[np.intp], NDArray[np.str_]]:
    """Rows dealt to the 20 cells in turn, and the level of each; the holdout trains nothing."""
    home = {cell: level for level, cells in cells_for(study, role).items() for cell in cells if level != HOLDOUT}
    levels = np.array([home.get(cell, "") for cell in range(CELLS)])[np.arange(n) % CELLS]
    rows = np.flatnonzero(levels != "")
    return rows, levels[rows]
