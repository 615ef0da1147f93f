"""AMP: the noise it takes, the tails it relies on, and the factor that the paper's code lacks."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from crossward.errors import BudgetExceeded, InvalidEpsilon, InvalidSetting
from crossward.learning.amp import AMP
from crossward.learning.plr import PLR
from crossward.learning.records import Ball
from crossward.privacy import NON_PRIVATE, Accountant, BasicFilter, Budget, SeededRandomness, ZcdpFilter

BALL = Ball(2.5, intercept=0.5)


def exact_delta(distance, sigma, epsilon):
    """The delta of a Gaussian mechanism at epsilon, exactly (hockey-stick divergence of two normals)."""
    mu = distance / sigma
    return norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
def test_both_noises_cover_their_sensitivity(epsilon, delta):
    amp = AMP(BALL, epsilon, delta, tolerance=1e-3)
    noise = amp.noise(1000)
    eps_2, delta_2 = 0.01 * epsilon, 0.01 * delta
    eps_3, delta_1 = 0.9 * 0.99 * epsilon, 0.99 * delta
    assert exact_delta(2.0, noise.sigma_objective, eps_3) <= delta_1
    assert exact_delta(2 * 1e-3 / noise.ridge, noise.sigma_output, eps_2) <= delta_2
    assert 2 * math.log1p(0.25 / noise.ridge) <= 0.99 * epsilon - eps_3


def test_the_papers_output_noise_for_one_error_instead_of_two_is_too_small():
    amp = AMP(BALL, 2.0, 1e-5, output_share=0.5)
    noise = amp.noise(1000)
    distance = 2 * amp.tolerance / noise.ridge
    assert exact_delta(distance, noise.sigma_output, 1.0) <= 0.5e-5
    assert exact_delta(distance, noise.sigma_output / 2, 1.0) > 10 * 0.5e-5


def test_an_epsilon_beyond_the_tail_bound_is_refused():
    with pytest.raises(InvalidEpsilon, match="tail"):
        AMP(BALL, 50.0, 1e-6).noise(1000)


def test_fit_is_charged_with_its_delta(blobs):
    X, y = blobs
    amp = AMP(BALL, 1.0, 1e-6)
    account = Accountant(BasicFilter(Budget.of(1.0, 1e-6)))
    release = amp.fit(X, y, accountant=account, randomness=SeededRandomness(0)).release
    assert (release.epsilon, release.delta, release.seeded) == (1.0, 1e-6, True)
    assert account.spent.atto_delta == 10**12
    with pytest.raises(BudgetExceeded, match="pure"):
        amp.fit(X, y, accountant=Accountant(ZcdpFilter(Budget.of(9.0, 1e-3))))


def test_the_twin_is_the_minimiser_without_noise(blobs):
    X, y = blobs
    ours = AMP(BALL, NON_PRIVATE, 1e-6, lam=0.02).fit(X, y).weights
    np.testing.assert_allclose(ours, PLR(BALL, 0.02, NON_PRIVATE).fit(X, y).weights, atol=1e-4)


def test_private_weights_scatter_around_the_minimiser(blobs):
    X, y = blobs
    twin = AMP(BALL, NON_PRIVATE, 1e-6, lam=0.05).fit(X, y).weights
    amp, randomness = AMP(BALL, 5.0, 1e-6, lam=0.05), SeededRandomness(0)
    draws = np.array([amp.fit(X, y, randomness=randomness).weights for _ in range(60)])
    assert np.linalg.norm(draws.mean(axis=0) - twin) < np.linalg.norm(draws[0] - twin)
    assert np.all(draws.std(axis=0) > 0)


@pytest.mark.parametrize("setting", [{"noise_share": 1.0}, {"output_share": 0.0}, {"tolerance": 0.0}])
def test_settings_without_meaning_are_refused(setting):
    with pytest.raises(InvalidSetting):
        AMP(BALL, 1.0, 1e-6, **setting)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-6, math.nan])
def test_delta_must_lie_between_zero_and_one(delta):
    with pytest.raises(InvalidEpsilon):
        AMP(BALL, 1.0, delta)
