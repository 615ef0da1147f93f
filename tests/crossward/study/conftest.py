import numpy as np
import pytest

from crossward.privacy.noise import SeededRandomness
from crossward.protocol.constants import Role
from crossward.study import study_for, work
from crossward_lab.simulate.hospitals import Federation

METHODS = {
    "direct": {"name": "direct"},
    "direct-huber": {"name": "direct", "loss": "huber"},
    "sourced": {"name": "sourced"},
    "sourced-dppsgd": {"name": "sourced", "learner": {"name": "dppsgd"}},
    "simcomb": {"name": "simcomb"},
    "pst-s": {"name": "pst-s"},
    "pst-s-vote": {"name": "pst-s", "combiner": "C-mv"},
    "pst-f": {"name": "pst-f"},
    "pst-f-vote": {"name": "pst-f", "combiner": "C-wmv"},
    "pst-h": {"name": "pst-h"},
    "pst-h-sigmoid": {"name": "pst-h", "scores": "sigmoid", "prior": 0, "eta": 0.5, "mix": "uniform"},
    "pst-h-scores": {"name": "pst-h", "mix": "scores"},
    "pst-h-scores-vote": {"name": "pst-h", "mix": "scores", "combiner": "C-mv"},
    "dppsgd": {"name": "dppsgd", "batch": 20},
    "amp": {"name": "amp", "delta": 1e-6},
    "average": {"name": "average", "learner": {"name": "amp", "delta": 1e-6}},
    "feature": {"name": "feature", "public_set": "public-survey"},
    "boosted": {"name": "boosted", "iterations": 10},
}


@pytest.fixture(scope="session")
def federation():
    return Federation.simulate(branches=3, seed=5, scale=0.1)


@pytest.fixture(params=list(METHODS))
def study(request, federation):
    """One study per method: two sources, one target."""
    return study_for(
        federation.schema,
        method=METHODS[request.param],
        sources=["main", "branch-1"],
        targets=["branch-2"],
        epsilon=2.0,
    )


@pytest.fixture
def randomness():
    return SeededRandomness(11)


@pytest.fixture(scope="session")
def rows():
    """Encoded training rows of a hospital for a role, and the level of each."""
    return _training_rows


@pytest.fixture(scope="session")
def sources_of():
    """What the study's sources train: the main hospital and, if there are two, the first branch."""

    def train(study, federation, randomness):
        hospitals = [federation.main, federation.branches[0]][: len(study.sources)]
        rows = [_training_rows(study, Role.SOURCE, hospital) for hospital in hospitals]
        return [work.train(study, Role.SOURCE, *each, randomness=randomness) for each in rows]

    return train


def _labelled(study, role, n):
    """The level of each of n rows, dealt to cells in turn; rows of the holdout are marked as such."""
    home = {cell: level for level, cells in work.levels(study, role).items() for cell in cells}
    return np.array([home.get(row % 20, "unused") for row in range(n)])


def _training_rows(study, role, hospital):
    X, y = hospital.encode(study.schema)
    level = _labelled(study, role, len(y))
    used = (level != "holdout") & (level != "unused")
    return X[used], y[used], level[used]
