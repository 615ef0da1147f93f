"""A public offset beside the ball: what it means for the objective, for scores and for what is released."""

import numpy as np
import pytest
from scipy.optimize import minimize

from crossward.errors import InvalidSetting
from crossward.learning.amp import AMP
from crossward.learning.dppsgd import DPPSGD
from crossward.learning.losses import LOGISTIC, Huber
from crossward.learning.model import LinearModel
from crossward.learning.plr import PLR
from crossward.learning.records import Ball, Records
from crossward.learning.solver import minimise
from crossward.privacy import NON_PRIVATE, SeededRandomness

OFFSET = -1.7


@pytest.mark.parametrize("loss", [LOGISTIC, Huber(1.0)], ids=lambda loss: loss.name)
@pytest.mark.parametrize("rows", [80, 6_000], ids=["dense", "blocked"])
def test_the_minimiser_is_that_of_the_shifted_margins(loss, rows):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(rows, 3))
    y = np.where(rng.random(rows) < 0.2, 1.0, -1.0)
    ball = Ball(2.0, offset=OFFSET)
    Z, linear, ridge = ball.place(X), np.array([3.0, -1.0, 0.5]), 5.0

    def objective(w):
        margins = y * (Z @ w + OFFSET)
        return loss.value(margins).sum() + linear @ w + ridge / 2 * w @ w, (
            loss.slope(margins) * y
        ) @ Z + linear + ridge * w

    truth = minimize(objective, np.zeros(3), jac=True, method="BFGS", options={"gtol": 1e-7}).x
    found = minimise(Records.inside(ball, X, y), loss, linear, ridge, 1e-6).w
    np.testing.assert_allclose(found, truth, atol=1e-5)


def test_margins_have_it_and_slopes_alone_do_not(blobs):
    X, _ = blobs
    with_it, without = (
        LinearModel(Ball(2.0, offset=o), np.arange(1.0, X.shape[1] + 1), X.shape[1]) for o in (OFFSET, 0)
    )
    np.testing.assert_allclose(with_it.margins(X), without.margins(X) + OFFSET)
    np.testing.assert_allclose(with_it.without_intercept().margins(X), without.margins(X))


def test_it_takes_no_weight_and_no_room():
    ball = Ball(2.0, offset=OFFSET)
    assert ball.dimension(4) == 4
    far = np.full((1, 4), 9.0)
    assert np.linalg.norm(ball.place(far)) == pytest.approx(1.0)


@pytest.mark.parametrize("offset", [0.0, OFFSET])
def test_a_release_names_it(offset):
    ball = Ball(1.0, offset=offset)
    (group,) = PLR(ball, 0.1, 1.0).release(100, 3).groups
    assert group.ball.offset == offset
    for learner in (DPPSGD(ball, 0.1, 1.0), AMP(ball, 1.0, 1e-6)):
        assert learner.release(100, 3).ball.offset == offset


@pytest.mark.parametrize(
    "learner",
    [
        DPPSGD(Ball(2.0, offset=OFFSET), 0.5, NON_PRIVATE, passes=300),
        AMP(Ball(2.0, offset=OFFSET), NON_PRIVATE, 1e-6, 0.5),
    ],
)
def test_other_learners_solve_the_same_problem(blobs, learner):
    X, y = blobs
    exact = PLR(learner.ball, 0.5, NON_PRIVATE).fit(X, y)
    found = learner.fit(X, y, randomness=SeededRandomness(np.random.default_rng(0)))
    np.testing.assert_allclose(found.weights, exact.weights, atol=0.02 * np.linalg.norm(exact.weights))


@pytest.mark.parametrize("offset", [float("nan"), float("inf"), 51.0])
def test_what_is_no_log_odds_is_refused(offset):
    with pytest.raises(InvalidSetting, match="offset"):
        Ball(1.0, offset=offset)
