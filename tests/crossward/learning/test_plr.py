"""PLR and PLR-FS: the objective they solve, what they release, and what they refuse."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from crossward.errors import (
    BudgetExceeded,
    EmptyData,
    InvalidBounds,
    InvalidEpsilon,
    InvalidImportance,
    InvalidRegularisation,
    NotConverged,
    NotFinite,
    OneClass,
    TooFewRecords,
    WrongShape,
)
from crossward.learning.losses import LOGISTIC, Huber
from crossward.learning.plr import PLR, PLRFS, groups_of
from crossward.learning.records import Ball
from crossward.learning.regulariser import Pull
from crossward.privacy import NON_PRIVATE, Accountant, SeededRandomness, calibrate
from crossward.privacy.noise import Randomness

BALL = Ball(2.5, intercept=0.5)


def two_groups(epsilon, lam=0.02, **settings):
    balls = (Ball(2.0, 0.7, (0, 1, 2)), Ball(2.0, 0.3, (5, 3, 4), intercept=0.5))
    return PLRFS(groups_of(balls, lam), epsilon, **settings)


class Untouchable(Randomness):
    """Fails the test if anything is drawn."""

    seeded = True

    def words(self, count):
        raise AssertionError("noise was drawn")


def test_the_twin_is_regularised_logistic_regression(blobs):
    X, y = blobs
    Z = BALL.place(X)
    ours = PLR(BALL, 0.02, NON_PRIVATE, tolerance=1e-8).fit(X, y)
    theirs = LogisticRegression(C=1 / (0.02 * len(y)), fit_intercept=False, tol=1e-10, max_iter=1000).fit(Z, y)
    np.testing.assert_allclose(ours.weights, theirs.coef_[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours.margins(X), Z @ ours.weights, atol=1e-10)


@pytest.mark.parametrize("loss", [LOGISTIC, Huber(0.5)], ids=lambda loss: loss.name)
@pytest.mark.parametrize("pulled", [False, True])
def test_a_release_is_the_minimiser_of_the_perturbed_objective(blobs, loss, pulled):
    """Draw the same noise again and check that the released weights solve the problem it defines."""
    X, y = blobs
    u = np.arange(7.0)
    pull = Pull(u, 0.25) if pulled else None
    plr = PLR(BALL, 0.02, 1.0, pull, loss, tolerance=1e-7)
    w = plr.fit(X, y, randomness=SeededRandomness(3)).weights
    fixed = plr.as_one_group().calibration(len(y))
    b = SeededRandomness(3).in_all_directions(7, 2 / fixed.epsilon_prime)
    Z = y[:, None] * BALL.place(X)
    centre = 0.75 * u if pulled else 0.0
    gradient = Z.T @ loss.slope(Z @ w) + b + len(y) * (0.02 * (w - centre) + fixed.delta[0] * w)
    step = plr.as_one_group().output_steps(fixed)[0]
    assert np.linalg.norm(gradient) < len(y) * (0.25 / 0.5 + 0.02) * 30 * step.scale + 1e-6
    assert np.linalg.norm(b) > 100 * np.linalg.norm(gradient)


def test_the_delta_branch_regularises_more(blobs):
    X, y = blobs
    plr = PLR(BALL, 1e-6, 0.1)
    fixed = plr.as_one_group().calibration(len(y))
    assert fixed.delta[0] > 0
    assert fixed.epsilon_prime == pytest.approx(0.1 * 0.99 / 2)
    assert np.all(np.isfinite(plr.fit(X, y).weights))


def test_more_epsilon_means_weights_closer_to_the_twin(blobs):
    X, y = blobs
    twin = PLR(BALL, 0.05, NON_PRIVATE).fit(X, y).weights
    randomness = SeededRandomness(0)

    def distance(epsilon):
        fits = [PLR(BALL, 0.05, epsilon).fit(X, y, randomness=randomness) for _ in range(20)]
        return np.mean([np.linalg.norm(fit.weights - twin) for fit in fits])

    away = [distance(epsilon) for epsilon in (0.5, 5, 50)]
    assert away[0] > 3 * away[1] > 9 * away[2]


def test_groups_train_on_their_own_columns_at_one_shared_epsilon(blobs):
    X, y = blobs
    split = two_groups(2.0).fit(X, y)
    assert [len(model.weights) for model in split.groups] == [3, 4]
    assert split.release.epsilon == 2.0
    assert list(split.q) == [0.7, 0.3]
    changed = X.copy()
    changed[:, [3, 4, 5]] = 0
    np.testing.assert_array_equal(split.groups[0].margins(changed), split.groups[0].margins(X))


def test_groups_share_the_output_epsilon_evenly():
    learner = two_groups(1.0)
    fixed = learner.calibration(1000)
    for k, step in enumerate(learner.output_steps(fixed)):
        assert step.scale == pytest.approx(2 * learner.tolerance / fixed.strength(k) / (0.01 / 2))


def test_the_release_describes_itself_before_a_record_is_touched(blobs):
    X, y = blobs
    learner = two_groups(1.0)
    announced = learner.release(len(y), 6)
    assert learner.fit(X, y).release == announced
    assert announced.epsilon_prime == calibrate(1000, 0.99, [0.02] * 2, [0.7, 0.3]).epsilon_prime
    assert not announced.seeded
    assert learner.fit(X, y, randomness=SeededRandomness(1)).release == replace(announced, seeded=True)


def test_weights_lie_on_the_announced_grid(blobs):
    X, y = blobs
    split = two_groups(1.0).fit(X, y)
    assert split.release.grids == tuple(group.grid for group in split.release.groups)
    for model, grid in zip(split.groups, split.release.grids, strict=True):
        np.testing.assert_array_equal(np.rint(model.weights / grid) * grid, model.weights)


def test_released_weights_cannot_be_changed(blobs):
    model = PLR(BALL, 0.1, 1.0).fit(*blobs)
    with pytest.raises(ValueError, match="read-only"):
        model.weights[0] = 0


def test_charge_comes_first_and_a_refusal_draws_nothing(blobs):
    X, y = blobs
    account = Accountant.with_budget(1.5)
    PLR(BALL, 0.1, 1.0).fit(X, y, accountant=account)
    with pytest.raises(BudgetExceeded):
        PLR(BALL, 0.1, 1.0).fit(X, y, accountant=account, randomness=Untouchable())
    assert account.spent.nano_epsilon == 10**9


def test_not_converging_raises_and_the_charge_stands(blobs):
    X, y = blobs
    account = Accountant.with_budget(1.0)
    with pytest.raises(NotConverged):
        PLR(BALL, 0.1, 1.0, tolerance=1e-200).fit(X, y, accountant=account)
    assert account.left == 0.0


def test_a_twin_can_never_be_charged(blobs):
    with pytest.raises(InvalidEpsilon):
        PLR(BALL, 0.1, NON_PRIVATE).fit(*blobs, accountant=Accountant.with_budget(1e6))


def with_value(X, value):
    X = X.copy()
    X[3, 2] = value
    return X


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda X, y: (with_value(X, np.nan), y), NotFinite),
        (lambda X, y: (with_value(X, np.inf), y), NotFinite),
        (lambda X, y: (with_value(with_value(X, np.inf), -np.inf), y), NotFinite),
        (lambda X, y: (X[:0], y[:0]), EmptyData),
        (lambda X, y: (X[:, :0], y), EmptyData),
        (lambda X, y: (X[0], y), WrongShape),
        (lambda X, y: (X, y[:-1]), WrongShape),
        (lambda X, y: (X, np.ones(len(y))), OneClass),
        (lambda X, y: (X, y + 1), OneClass),
    ],
)
def test_bad_records_are_refused_before_charge_and_noise(blobs, change, error):
    X, y = change(*blobs)
    account = Accountant.with_budget(10)
    with pytest.raises(error) as refused:
        PLR(BALL, 0.1, 1.0).fit(X, y, accountant=account, randomness=Untouchable())
    assert refused.value.cause
    assert refused.value.fix
    assert account.spent.releases == 0


def test_too_few_records_for_the_epsilon(blobs):
    X, y = blobs
    with pytest.raises(TooFewRecords, match="at least"):
        PLR(BALL, 0.1, 1e-4).fit(X, y, randomness=Untouchable())


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (lambda: PLR(BALL, 0.1, 0.0), InvalidEpsilon),
        (lambda: PLR(BALL, 0.1, -1.0), InvalidEpsilon),
        (lambda: PLR(BALL, 0.1, np.nan), InvalidEpsilon),
        (lambda: PLR(BALL, 0.1, np.inf), InvalidEpsilon),
        (lambda: PLR(BALL, 0.1, None), InvalidEpsilon),
        (lambda: PLR(BALL, 0.0, 1.0), InvalidRegularisation),
        (lambda: PLR(BALL, -0.1, 1.0), InvalidRegularisation),
        (lambda: PLR(BALL, np.nan, 1.0), InvalidRegularisation),
        (lambda: Ball(0.0), InvalidBounds),
        (lambda: Ball(np.inf), InvalidBounds),
        (lambda: Ball(1.0, 1.5), InvalidImportance),
        (lambda: PLRFS(groups_of([Ball(1.0, 0.6), Ball(1.0, 0.6)], 0.1), 1.0), InvalidImportance),
        (lambda: PLRFS((), 1.0), InvalidImportance),
    ],
)
def test_bad_settings_are_refused_when_they_are_made(settings, error):
    with pytest.raises(error) as refused:
        settings()
    assert str(refused.value)


def test_a_pull_of_the_wrong_length_is_refused_before_the_charge(blobs):
    account = Accountant.with_budget(10)
    with pytest.raises(WrongShape):
        PLR(BALL, 0.1, 1.0, Pull(np.zeros(3))).fit(*blobs, accountant=account, randomness=Untouchable())
    assert account.spent.releases == 0


def test_columns_that_the_data_lacks_are_refused_before_the_charge(blobs):
    account = Accountant.with_budget(10)
    with pytest.raises(WrongShape):
        PLR(Ball(1.0, columns=(0, 9)), 0.1, 1.0).fit(*blobs, accountant=account, randomness=Untouchable())
    assert account.spent.releases == 0
