"""Two small hospitals, invented, and the studies that are run on them; for freeze.py and the tests beside it."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from crossward.client import Client
from crossward.learning.encoding import Category, Flag, Number, Schema
from crossward.study import Study, study_for
from crossward_lab.demo.records import OUTCOME
from crossward_lab.simulate.hospitals import Federation, Hospital

SCHEMA = Schema(
    (
        Number("glucose", 3.0, 12.0, "mmol/L", 5.5),
        Number("bmi", 15.0, 45.0, "kg/m2", 25.0),
        Flag("family", False),
        Category("smoker", ("never", "former", "current"), "never"),
    )
)


def hospitals(rows: int = 300) -> Federation:
    """A main hospital and a branch."""
    return Federation(SCHEMA, _hospital("Main", rows, 1), (_hospital("Branch 1", rows, 2),))


def _hospital(name: str, rows: int, seed: int) -> Hospital:
    draw = np.random.default_rng(seed)
    glucose, bmi = draw.uniform(3.5, 11.0, rows).round(2), draw.uniform(18.0, 40.0, rows).round(1)
    family, smoker = draw.random(rows) < 0.3, np.array(("never", "former", "current"))[draw.integers(0, 3, rows)]
    ill = draw.random(rows) < 1 / (1 + np.exp(-(1.5 * (glucose - 7) + 0.1 * (bmi - 28) + family)))
    return Hospital(name, {"glucose": glucose, "bmi": bmi, "family": family, "smoker": smoker}, ill)


def study(id: str, method: str, epsilon: float = 0.5) -> Study:
    """A study of the two."""
    return study_for(SCHEMA, id=id, method=method, epsilon=epsilon, label={"name": OUTCOME, "positive": True})


def begin(lead: Client, made: Study) -> None:
    """Create and start."""
    lead.create(made.to_yaml())
    lead.start(made.id)


def wait_for(what: Any, seconds: float = 180.0) -> Any:
    """What a question answers, once it does; fails when it never does."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
    return found


def ended(lead: Client, id: str) -> str:
    """How a study ended; waits until it has."""
    states = ("complete", "failed", "cancelled")
    return str(wait_for(lambda: (seen := lead.study(id)["state"]) in states and seen))
