"""AUC, ROC and calibration beside an independent count, and an interval that covers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from crossward_site.models.evaluation import auc, calibration, roc


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=60))
def test_auc_is_that_of_pairs(pairs) -> None:
    scores, ill = np.array([score / 5 for score, _ in pairs]), np.array([label for _, label in pairs])
    if ill.all() or not ill.any():
        return
    y = np.where(ill, 1.0, -1.0)
    found = auc(scores, y)
    assert found.auc == pytest.approx(roc_auc_score(ill, scores))
    assert 0 <= found.low <= found.auc <= found.high <= 1
    points = roc(scores, y)
    area = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(points))
    assert area == pytest.approx(found.auc)
    assert sum(part.records for part in calibration(scores, y)) == len(y)


def test_the_interval_covers() -> None:
    """Normal scores one deviation apart have an AUC of Phi(1 / sqrt 2) = 0.7602."""
    draw, hits = np.random.default_rng(3), 0
    for _ in range(400):
        scores = np.concatenate([draw.normal(1.0, 1.0, 40), draw.normal(0.0, 1.0, 80)])
        found = auc(scores, np.repeat([1.0, -1.0], [40, 80]))
        hits += found.low <= 0.7602 <= found.high
    assert 0.92 <= hits / 400 <= 0.98
