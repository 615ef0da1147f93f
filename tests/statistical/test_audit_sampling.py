"""The engines that run mechanisms, against mechanisms with a known epsilon."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binomtest

from crossward.errors import AuditFailed, TooFewRecords
from crossward.privacy.noise import Array, SeededRandomness
from crossward_lab.audit.sampling import clopper_pearson, collect, epsilon_lower_bound, rate_lower_bound, smallest_p


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (3, 10), (10, 10), (137, 1000), (999, 1000)])
@pytest.mark.parametrize("alpha", [1e-8, 0.01])
def test_clopper_pearson_is_the_exact_interval(hits: int, trials: int, alpha: float) -> None:
    interval = binomtest(hits, trials).proportion_ci(1 - 2 * alpha, method="exact")
    low, high = clopper_pearson(np.array([hits]), trials, alpha)
    assert low[0] == pytest.approx(interval.low, rel=1e-6)
    assert high[0] == pytest.approx(interval.high, rel=1e-6)


def laplace(generator: np.random.Generator, centre: float, scale: float, runs: int) -> Array:
    return generator.laplace(centre, scale, size=(runs, 1))


def test_a_laplace_mechanism_is_cleared_and_half_its_noise_is_not() -> None:
    generator = np.random.default_rng(1)
    right = epsilon_lower_bound(laplace(generator, 0, 1.0, 40_000), laplace(generator, 1, 1.0, 40_000))
    assert 0.75 < right.epsilon <= 1.0
    wrong = epsilon_lower_bound(laplace(generator, 0, 0.5, 40_000), laplace(generator, 1, 0.5, 40_000))
    assert 1.5 < wrong.epsilon <= 2.0


def test_both_directions_are_looked_at() -> None:
    """An outcome that D' alone can give is as bad as one that D alone can give."""
    here, there = np.zeros((4000, 1)), np.zeros((4000, 1))
    there[::10] = 1.0
    assert epsilon_lower_bound(here, there).epsilon > 1.5
    assert epsilon_lower_bound(there, here).epsilon > 1.5


def test_delta_is_allowed_for() -> None:
    here, there = np.zeros((4000, 1)), np.zeros((4000, 1))
    there[::10] = 1.0
    assert epsilon_lower_bound(here, there, delta=0.15).epsilon == 0.0


def randomised_response(generator: np.random.Generator, bit: int, epsilon: float, runs: int) -> Array:
    honest = generator.random((runs, 1)) < 1 / (1 + math.exp(-epsilon))
    return np.where(honest, float(bit), 1.0 - bit)


def test_randomised_response() -> None:
    generator = np.random.default_rng(2)
    answers = [randomised_response(generator, bit, 1.0, 40_000) for bit in (1, 0)]
    assert 0.85 < epsilon_lower_bound(answers[0], answers[1]).epsilon <= 1.0


def test_a_correct_mechanism_is_accused_no_more_often_than_alpha() -> None:
    """Choosing the event on other runs is what keeps this true."""
    generator = np.random.default_rng(3)
    accused = 0
    for _ in range(200):
        here, there = (laplace(generator, centre, 1.0, 400) for centre in (0, 1))
        accused += epsilon_lower_bound(here, there, alpha=0.1).epsilon > 1.0
    assert accused <= 30


def test_a_refusal_is_an_answer() -> None:
    def run(refused: bool) -> Callable[[], list[float]]:
        def once() -> list[float]:
            if refused:
                raise TooFewRecords("No.")
            return [1.0, 2.0]

        return once

    here, there = collect(run(False), 2000), collect(run(True), 2000)
    assert here.shape == (2000, 3)
    assert np.all(there == 1.0)
    assert epsilon_lower_bound(here, there).epsilon > 3
    with pytest.raises(AuditFailed):
        epsilon_lower_bound(there, there)


def draws(seed: int, d: int, scale: float, count: int) -> Array:
    randomness = SeededRandomness(seed)
    return np.array([randomness.in_all_directions(d, scale) for _ in range(count)])


@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_law_of_the_noise(d: int) -> None:
    noise = draws(4, d, 2.0, 1500)
    assert 0.35 < rate_lower_bound(noise, 1e-6) < 0.5
    assert smallest_p(noise, 0.5) > 1e-6
    assert smallest_p(noise, 1.0) < 1e-12
    assert rate_lower_bound(noise / 2, 1e-6) > 0.7


def test_another_shape_or_a_lopsided_direction_is_noticed() -> None:
    generator = np.random.default_rng(5)
    normal = generator.normal(size=(3000, 2)) * 4 / math.sqrt(math.pi / 2)
    assert smallest_p(normal, 0.5) < 1e-8
    lopsided = draws(6, 2, 2.0, 3000)
    lopsided[:, 0] = np.abs(lopsided[:, 0])
    assert smallest_p(lopsided, 0.5) < 1e-8
