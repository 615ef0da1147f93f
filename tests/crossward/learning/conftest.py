import numpy as np
import pytest


@pytest.fixture(scope="session")
def blobs():
    """A thousand records with two informative features of six, and 25 % positives."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(1000, 6))
    odds = 2.5 * X[:, 0] - 1.5 * X[:, 1] - 1.5
    y = np.where(rng.random(1000) < 1 / (1 + np.exp(-odds)), 1.0, -1.0)
    return X, y
