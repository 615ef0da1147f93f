"""The engines that compute a loss, against mechanisms whose loss is known in closed form."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from crossward.learning.losses import LOGISTIC, Huber, Loss
from crossward.learning.plr import PLRFS, Group
from crossward.learning.records import Ball
from crossward.learning.regulariser import Pull
from crossward.privacy.noise import Array
from crossward.privacy.selection import NumberOfTries
from crossward_lab.audit.closed_forms import (
    exponential_loss,
    gaussian_delta,
    gaussian_epsilon,
    generating_function,
    widest,
    worst_best_of,
)
from crossward_lab.audit.densities import GaussianLaw, Law, Scenario, epsilon_at, hockey_stick, worst_loss
from crossward_lab.audit.objective import subject_of


@dataclass(frozen=True)
class Linear:
    """Slope -1 everywhere: the minimiser is (sum of records - noise) / ridge, a sum with noise on it."""

    def slope(self, m: Array) -> Array:
        return -np.ones_like(m)

    def bend(self, m: Array) -> Array:
        return np.zeros_like(m)


def signed(X: Array, y: Array) -> list[Array]:
    unit = X / np.maximum(1.0, np.linalg.norm(X, axis=2, keepdims=True))
    return [y[:, :, None] * unit]


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_search_finds_the_loss_of_a_noisy_sum(d: int) -> None:
    """Unit records: a sum moves by at most 2, so noise exp(-rate ||b||) on it loses exactly 2 rate."""
    law = Law(Linear(), 0.7, np.full(d, 1.5), np.zeros(d))
    scenario = Scenario((law,), signed, 3, (tuple(range(d)),))
    found = worst_loss(scenario, np.random.default_rng(1), starts=2000, rounds=600)
    assert found.loss == pytest.approx(1.4, abs=1e-3)
    assert found.loss <= 1.4 + 1e-9


@pytest.mark.parametrize("loss", [LOGISTIC, Huber(0.5)])
def test_a_law_is_a_density(loss: Loss) -> None:
    """exp(-rate |b_D(w)|) |J_D(w)| rate/2 integrates to one: the change of variables is right."""
    law = Law(loss, 0.8, np.array([0.9]), np.array([0.4]))
    Z = np.array([[[0.7], [-0.9], [0.2]]])

    def density(w: float) -> float:
        return 0.4 * math.exp(float(law.log_density(Z, np.array([[w]]))[0]))

    mass = sum(quad(density, a, a + 2.5, limit=200)[0] for a in np.arange(-60, 60, 2.5))
    assert mass == pytest.approx(1.0, abs=1e-5)


def one_group(loss: Loss, d: int, lam: float, epsilon: float, pull: float) -> PLRFS:
    return PLRFS((Group(Ball(1.0), lam, Pull(np.full(d, pull))),), epsilon, loss, output_share=1e-9)


@pytest.mark.parametrize(("n", "d", "lam", "epsilon"), [(3, 1, 0.05, 1.0), (2, 2, 1.0, 4.0), (3, 3, 1.0, 1.0)])
def test_the_search_attains_the_supremum_for_huber(n: int, d: int, lam: float, epsilon: float) -> None:
    """Gradients that differ by the full 2 and one record at the bend: eps' + log(1 + t), which is also a bound."""
    learner = one_group(Huber(0.5), d, lam, epsilon, 30.0)
    calibration = learner.calibration(n)
    assert calibration is not None
    supremum = calibration.epsilon_prime + math.log1p(1.0 / calibration.strength(0))
    found = worst_loss(subject_of(learner, n, d).scenario, np.random.default_rng(2), starts=4000, rounds=1200)
    assert 0.995 * supremum < found.loss <= supremum * (1 + 1e-9)


def test_the_search_attains_known_pairs_for_the_logistic_loss() -> None:
    """A record across the weights against one far on their wrong side: 3/4 eps' + log(1 + t)."""
    learner = one_group(LOGISTIC, 2, 1.0, 4.0, 30.0)
    calibration = learner.calibration(1)
    assert calibration is not None
    pair = 0.75 * calibration.epsilon_prime + math.log1p(0.25 / calibration.strength(0))
    found = worst_loss(subject_of(learner, 1, 2).scenario, np.random.default_rng(3), starts=4000, rounds=600)
    assert pair < found.loss < 4.0


def test_one_dimension_shows_half_of_epsilon_prime() -> None:
    """+1 against -1 with the logistic loss: slopes add up to one at every w."""
    learner = PLRFS((Group(Ball(1.0), 1.0),), 2.0, output_share=1e-9)
    calibration = learner.calibration(2)
    assert calibration is not None
    found = worst_loss(subject_of(learner, 2, 1).scenario, np.random.default_rng(4), starts=2000, rounds=300)
    assert found.loss > calibration.epsilon_prime / 2 - 1e-6


@pytest.mark.parametrize("s", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.5])
def test_gaussian_delta_is_the_hockey_stick(s: float, epsilon: float) -> None:
    def excess(x: float) -> float:
        return max(0.0, float(norm.pdf(x, s) - math.exp(epsilon) * norm.pdf(x)))

    numeric = sum(quad(excess, a, a + 1, limit=200)[0] for a in range(-12, 14))
    assert gaussian_delta(s, 1.0, epsilon) == pytest.approx(numeric, abs=1e-7)
    if epsilon > 0:
        assert gaussian_epsilon(s, 1.0, gaussian_delta(s, 1.0, epsilon)) == pytest.approx(epsilon, abs=1e-6)


def test_quadrature_of_a_noisy_sum_is_the_gaussian_mechanism() -> None:
    for d, points in ((1, 2001), (2, 401)):
        Z = np.array([[1.0, 0.0], [0.0, 0.3]])[:, :d]
        other = np.array([[0.0, 0.3], [-0.6, 0.8]])[:, :d]
        apart = float(np.linalg.norm(Z.sum(0) - other.sum(0)))
        law = GaussianLaw(Linear(), 1.3, 0.7, d)
        exact = gaussian_delta(apart, 1.3, 0.5)
        assert hockey_stick(law, Z, other, 0.5, points) == pytest.approx(exact, rel=1e-3)
        assert epsilon_at(law, Z, other, exact, points) == pytest.approx(0.5, abs=1e-3)


def test_the_search_finds_the_widest_pair() -> None:
    generator = np.random.default_rng(5)

    def apart(flat: Array) -> float:
        a, b = (v / max(1.0, float(np.linalg.norm(v))) for v in flat.reshape(2, 3))
        return float(np.linalg.norm(a - b))

    distance, _ = widest(apart, generator.normal(size=(20, 6)), generator, rounds=2000)
    assert distance == pytest.approx(2.0, abs=0.01)
    assert exponential_loss(distance, 2.0) <= 1.0


def test_the_best_of_one_try_costs_one_try() -> None:
    once = generating_function(lambda k: 1.0 if k == 1 else 0.0)
    loss, _ = worst_best_of(once, 0.8)
    assert loss == pytest.approx(0.8)


def test_the_logarithmic_law_has_its_closed_form_and_costs_twice_epsilon() -> None:
    law = NumberOfTries.expecting(60.0, 0.0)
    generate = generating_function(law.pmf)
    x = np.linspace(0, 1, 11)
    np.testing.assert_allclose(generate(x), np.log1p(-(1 - law.gamma) * x) / math.log(law.gamma), atol=1e-9)
    loss, _ = worst_best_of(generate, 0.8)
    assert 1.5 < loss <= 1.6
