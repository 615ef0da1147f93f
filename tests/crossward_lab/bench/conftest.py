"""Rows with numbers we know, for tests of what is made of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from crossward_lab.bench.measurements import Measurement


def _row(method: str, auc: float, **about: Any) -> Measurement:
    """A row of eight repeats around an AUC; repeats of all rows go up and down together, as splits make them do."""
    splits = np.array([0.002, -0.001, 0.0, 0.001, -0.002, 0.003, -0.003, 0.0])
    wobble = 0.0003 * np.sin(2 * np.arange(8) + len(method))
    aucs = tuple(float(a) for a in auc + splits + wobble - wobble.mean())
    given = {"dataset": "mnist", "setting": "0v8->0v9", "preset": "default", "epsilon": 1.0} | about
    return Measurement(
        method=method,
        auc_mean=float(np.mean(aucs)),
        auc_sd=float(np.std(aucs, ddof=1)),
        repeats=8,
        error_mean=1 - auc,
        error_sd=0.01,
        paper="a table",
        aucs=aucs,
        **given,
    )


@pytest.fixture
def row() -> Callable[..., Measurement]:
    """Makes a row: `row("Direct", 0.9, epsilon=0.5)`."""
    return _row
