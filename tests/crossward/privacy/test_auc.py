"""The released AUC: its count, its sensitivity by trying all neighbours, its noise, its order of steps."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from crossward.errors import BudgetExceeded, InvalidEpsilon, NotFinite, TooFewRecords, WrongShape
from crossward.privacy import auc as module
from crossward.privacy.auc import private_auc, twice_mann_whitney
from crossward.privacy.filters import NOTHING, Accountant
from crossward.privacy.mechanisms import NoisyAuc
from crossward.privacy.noise import Randomness, SeededRandomness, SystemRandomness


class Forbidden(Randomness):
    """A source that must not be used."""

    seeded = False

    def words(self, count: int) -> np.ndarray:
        raise AssertionError("noise was drawn")


def by_hand(scores, y) -> int:
    """2U pair by pair."""
    pairs = itertools.product(range(len(y)), repeat=2)
    ordered = [int(scores[i] > scores[j]) + int(scores[i] >= scores[j]) for i, j in pairs if y[i] == 1 and y[j] == -1]
    return int(sum(ordered))


def a_study(n: int, positives: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    y = np.where(np.arange(n) < positives, 1, -1)
    return generator.normal(size=n) + 0.8 * y, y


@given(st.lists(st.tuples(st.integers(-3, 3), st.sampled_from([-1, 1])), min_size=1, max_size=25))
def test_the_count_is_the_count_of_pairs(records):
    scores, y = (np.array(column, dtype=float) for column in zip(*records, strict=True))
    assert twice_mann_whitney(scores, y) == by_hand(scores, y)


@settings(max_examples=30)
@given(n=st.integers(2, 300), levels=st.integers(1, 50), seed=st.integers(0, 2**32))
def test_the_count_gives_the_auc_of_scikit_learn(n, levels, seed):
    generator = np.random.default_rng(seed)
    scores = generator.integers(0, levels, n) / 7
    y = generator.choice([-1.0, 1.0], n)
    y[:2] = -1.0, 1.0
    positives = int((y == 1).sum())
    ours = twice_mann_whitney(scores, y) / (2 * positives * (n - positives))
    assert ours == pytest.approx(roc_auc_score(y, scores), abs=1e-12)


def test_the_count_is_exact_for_many_records():
    n = 200_000
    y = np.where(np.arange(n) % 2, 1, -1)
    assert twice_mann_whitney(np.arange(n, dtype=float), y) == (n // 2) * (n // 2 + 1)
    assert twice_mann_whitney(np.zeros(n), y) == (n // 2) ** 2


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_no_replacement_of_one_record_costs_more_than_epsilon(n, monkeypatch):
    """Over all data sets of three scores and two labels, and all replacements of their last record."""
    scales = []
    monkeypatch.setattr(module, "discrete_laplace", lambda scale, _: scales.append(scale) or 0)
    epsilon = 1.25
    private_auc(np.zeros(n), np.ones(n), epsilon)
    pairs_scale, count_scale = scales

    records = list(itertools.product([0.0, 1.0, 2.0], [-1, 1]))
    moves, losses = [], []
    for others in itertools.product(records, repeat=n - 1):
        told = []
        for last in records:
            scores, y = (np.array(column, dtype=float) for column in zip(*others, last, strict=True))
            told.append((twice_mann_whitney(scores, y), int((y == 1).sum())))
        for (u, p), (v, q) in itertools.combinations(told, 2):
            moves.append(abs(u - v))
            losses.append(abs(u - v) / pairs_scale + abs(p - q) / count_scale)
    assert max(moves) == 2 * (n - 1)
    assert max(losses) <= epsilon
    assert n == 1 or max(losses) == epsilon


def test_it_comes_close_when_there_is_much_to_go_by():
    scores, y = a_study(20_000, 8_000)
    released = private_auc(scores, y, 5.0, randomness=SeededRandomness(1))
    truth = roc_auc_score(y, scores)
    assert released.deviation < 0.001
    assert abs(released.auc - truth) < 5 * released.deviation


@pytest.mark.parametrize(("n", "positives", "epsilon"), [(1000, 500, 1.0), (1000, 100, 2.0), (3000, 2700, 1.0)])
def test_the_deviation_is_that_of_the_noise(n, positives, epsilon):
    scores, y = a_study(n, positives)
    source = SeededRandomness(7)
    released = [private_auc(scores, y, epsilon, randomness=source) for _ in range(400)]
    spread = np.std([one.auc for one in released])
    told = np.median([one.deviation for one in released])
    assert told == pytest.approx(spread, rel=0.25)


@pytest.mark.parametrize("label", [-1, 1])
def test_one_class_alone_is_an_answer_and_no_error(label):
    released = private_auc(np.arange(50.0), np.full(50, label), 1.0, randomness=SeededRandomness(0))
    assert 0 <= released.auc <= 1
    assert math.isfinite(released.deviation)


@given(n=st.integers(1, 12), epsilon=st.floats(1, 100), seed=st.integers(0, 2**32))
def test_it_is_always_a_probability(n, epsilon, seed):
    generator = np.random.default_rng(seed)
    y = generator.choice([-1, 1], n)
    released = private_auc(generator.normal(size=n), y, epsilon, randomness=SeededRandomness(seed))
    assert 0 <= released.auc <= 1
    assert released.deviation > 0


# -- refusals and order -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("scores", "y", "epsilon", "error"),
    [
        (np.zeros(5), np.ones(4), 1.0, WrongShape),
        (np.zeros((5, 1)), np.ones((5, 1)), 1.0, WrongShape),
        (np.zeros(5), np.array([0, 1, 0, 1, 1]), 1.0, WrongShape),
        (np.zeros(5), np.array([1, 1, 1, 1, np.nan]), 1.0, WrongShape),
        (np.array([0, 1, np.nan]), np.ones(3), 1.0, NotFinite),
        (np.array([0, 1, np.inf]), np.ones(3), 1.0, NotFinite),
        (np.zeros(0), np.zeros(0), 1.0, TooFewRecords),
        (np.zeros(5), np.ones(5), 0.1, TooFewRecords),
        (np.zeros(5), np.ones(5), 0.0, InvalidEpsilon),
        (np.zeros(5), np.ones(5), math.nan, InvalidEpsilon),
        (np.zeros(5), np.ones(5), math.inf, InvalidEpsilon),
    ],
)
def test_what_cannot_be_answered_is_refused_and_costs_nothing(scores, y, epsilon, error):
    accountant = Accountant.with_budget(10.0)
    with pytest.raises(error) as caught:
        private_auc(scores, y, epsilon, randomness=Forbidden(), accountant=accountant)
    assert caught.value.cause
    assert caught.value.fix
    assert accountant.spent == NOTHING


def test_a_refused_charge_draws_nothing():
    accountant = Accountant.with_budget(0.5)
    with pytest.raises(BudgetExceeded):
        private_auc(*a_study(100, 50), 1.0, randomness=Forbidden(), accountant=accountant)
    assert accountant.spent == NOTHING


def test_the_charge_stands_when_the_noise_fails():
    accountant = Accountant.with_budget(5.0)
    with pytest.raises(AssertionError, match="noise was drawn"):
        private_auc(*a_study(100, 50), 1.0, randomness=Forbidden(), accountant=accountant)
    assert accountant.spent.nano_epsilon == 10**9


def test_the_release_tells_public_numbers_only():
    accountant = Accountant.with_budget(5.0)
    one = private_auc(*a_study(100, 50), 1.0, randomness=SeededRandomness(0), accountant=accountant)
    other = private_auc(*a_study(100, 3, seed=9), 1.0, randomness=SeededRandomness(1))
    assert one.release == other.release == accountant.releases[0]
    assert one.release == NoisyAuc(epsilon=1.0, seeded=True, n=100, pairs_share=0.8)
    assert not private_auc(*a_study(100, 50), 1.0, randomness=SystemRandomness()).release.seeded
