"""DPPSGD: the steps, the sensitivity, and the two mistakes of the paper."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossward.errors import BudgetExceeded, InvalidRegularisation, InvalidSetting
from crossward.learning.dppsgd import DPPSGD
from crossward.learning.plr import PLR
from crossward.learning.records import Ball, Records
from crossward.privacy import NON_PRIVATE, Accountant, SeededRandomness

BALL = Ball(1.0)


def unit(rng, n, d):
    Z = rng.normal(size=(n, d))
    return Z / np.maximum(1, np.linalg.norm(Z, axis=1, keepdims=True))


def by_hand(Z, order, lam, C, passes, batch, R):
    """The same descent, written record by record."""
    count = len(Z) // batch
    w, t = np.zeros(Z.shape[1]), 0
    for _ in range(passes):
        for j in range(count):
            t += 1
            rows = order[j * batch : (j + 1) * batch]
            g = lam * w + C / batch * sum(-1 / (1 + np.exp(z @ w)) * z for z in Z[rows])
            w = w - min(1 / (C / 4 + lam), 1 / (lam * t)) * g
            w = w * min(1, R / max(np.linalg.norm(w), 1e-300))
    return w


@pytest.mark.parametrize("batch", [1, 3, 10])
def test_the_descent_is_the_papers(batch):
    rng = np.random.default_rng(0)
    Z = unit(rng, 31, 4)
    order = rng.permutation(31)
    ours = DPPSGD(BALL, 0.1, 1.0, weight=2.0, passes=3, batch=batch, projection=5.0).descend(Records.of(Z), order)
    np.testing.assert_allclose(ours, by_hand(Z, order, 0.1, 2.0, 3, batch, 5.0), atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(2, 24),
    batch=st.integers(1, 8),
    passes=st.integers(1, 5),
    lam=st.floats(0.01, 2.0),
    weight=st.floats(0.1, 5.0),
)
def test_one_replaced_record_never_moves_the_result_further_than_claimed(seed, n, batch, passes, lam, weight):
    rng = np.random.default_rng(seed)
    Z = unit(rng, n, 2)
    other, i = Z.copy(), rng.integers(n)
    other[i] = -Z[i] if rng.random() < 0.5 else unit(rng, 1, 2)
    sgd = DPPSGD(BALL, lam, 1.0, weight=weight, passes=passes, batch=batch)
    order = rng.permutation(n)
    moved = np.linalg.norm(sgd.descend(Records.of(Z), order) - sgd.descend(Records.of(other), order))
    assert moved <= sgd.sensitivity(n)


def far_apart(batch):
    """Neighbours whose last record decides: the same record at the end of every pass, one way or the other."""
    Z = np.full((400, 1), 1e-9)
    other = Z.copy()
    Z[-1], other[-1] = 1.0, -1.0
    sgd = DPPSGD(BALL, 1.0, 1.0, passes=1, batch=batch)
    order = np.arange(400)
    return sgd, sgd.descend(Records.of(Z), order), sgd.descend(Records.of(other), order)


@pytest.mark.parametrize("batch", [25, 50])
def test_the_papers_sensitivity_divided_by_the_batch_is_exceeded(batch):
    sgd, w, other = far_apart(batch)
    moved = np.linalg.norm(w - other)
    assert moved <= sgd.sensitivity(400)
    assert moved > 10 * sgd.sensitivity(400) / batch


def test_the_papers_final_projection_upwards_breaks_the_sensitivity():
    sgd, w, other = far_apart(50)
    up = np.linalg.norm(w / np.linalg.norm(w) - other / np.linalg.norm(other)) * sgd.radius
    assert up > 50 * sgd.sensitivity(400)


def test_projection_only_shortens():
    sgd = DPPSGD(BALL, 0.1, 1.0, projection=2.0)
    short = np.array([0.1, -0.2])
    np.testing.assert_array_equal(sgd._down(short), short)
    assert np.linalg.norm(sgd._down(100 * short)) == pytest.approx(2.0)


def test_fit_announces_charges_and_marks(blobs):
    X, y = blobs
    sgd = DPPSGD(Ball(2.5, intercept=0.5), 0.05, 1.0)
    account = Accountant.with_budget(1.0)
    fitted = sgd.fit(X, y, accountant=account, randomness=SeededRandomness(0))
    assert fitted.release.seeded
    assert fitted.release.sensitivity == pytest.approx(2 / (0.05 * 1000))
    with pytest.raises(BudgetExceeded):
        sgd.fit(X, y, accountant=account)


def test_the_remainder_is_not_counted():
    assert DPPSGD(BALL, 0.1, 1.0, batch=50).sensitivity(1049) == pytest.approx(2 / (0.1 * 1000))
    assert DPPSGD(BALL, 0.1, 1.0, batch=50).batches(30) == (30, 1)


def test_the_twin_approaches_the_minimiser(blobs):
    X, y = blobs
    ball = Ball(2.5, intercept=0.5)
    twin = DPPSGD(ball, 0.05, NON_PRIVATE, passes=50).fit(X, y, randomness=SeededRandomness(0)).weights
    exact = PLR(ball, 0.05, NON_PRIVATE).fit(X, y).weights
    assert np.linalg.norm(twin - exact) < 0.02 * np.linalg.norm(exact)


@pytest.mark.parametrize("setting", [{"passes": 0}, {"batch": 0}, {"weight": 0.0}, {"projection": -1.0}])
def test_settings_without_meaning_are_refused(setting):
    with pytest.raises(InvalidSetting):
        DPPSGD(BALL, 0.1, 1.0, **setting)


def test_lambda_is_checked():
    with pytest.raises(InvalidRegularisation):
        DPPSGD(BALL, 0.0, 1.0)
