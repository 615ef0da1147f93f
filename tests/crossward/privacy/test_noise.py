"""Sources of words, and what every law does with them whatever they are."""

from __future__ import annotations

import itertools
import math
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from crossward.errors import InvalidSetting
from crossward.privacy.noise import SYSTEM, Randomness, SeededRandomness, SystemRandomness, as_randomness

ONES = 2**64 - 1
LAWS = {
    "uniform": lambda source: source.uniform(7),
    "exponential": lambda source: source.exponential(7),
    "normal": lambda source: source.normal(7),
    "one direction": lambda source: source.in_all_directions(1, 2.5),
    "all directions": lambda source: source.in_all_directions(6, 2.5),
    "below": lambda source: np.array([float(source.below(10**9)), float(source.below(2**70))]),
    "permutation": lambda source: source.permutation(9),
}


class Scripted(Randomness):
    """Gives the words it was told to, over and over."""

    seeded = True

    def __init__(self, *words: int) -> None:
        self._words = itertools.cycle(words)
        self.given = 0

    def words(self, count: int) -> np.ndarray:
        self.given += count
        return np.array([next(self._words) for _ in range(count)], dtype=np.uint64)


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
def test_the_system_runs_the_same_code_as_a_seeded_source(law, monkeypatch):
    words = SeededRandomness(11).words(64)
    expected = law(Scripted(*words.tolist()))
    unread = bytearray(words.tobytes())

    def urandom(size: int) -> bytes:
        taken = bytes(unread[:size])
        del unread[:size]
        return taken

    monkeypatch.setattr(os, "urandom", urandom)
    assert np.array_equal(law(SystemRandomness()), expected)
    assert len(unread) < words.nbytes
    assert np.array_equal(law(SeededRandomness(11)), expected)


def test_a_source_brings_words_and_nothing_else():
    laws = {name for name in vars(Randomness) if not name.startswith("_")} - {"words"}
    assert laws >= {"uniform", "exponential", "normal", "in_all_directions", "below", "permutation"}
    for source in (SystemRandomness, SeededRandomness):
        assert not laws & set(vars(source))


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
@pytest.mark.parametrize("words", [(0,), (0, ONES), (ONES, 0), (1,), (2**63,), (2**63 - 1,)])
def test_extreme_words_give_finite_values(law, words):
    assert np.all(np.isfinite(law(Scripted(*words))))


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_all_ones_give_a_finite_vector(dimension):
    assert np.all(np.isfinite(Scripted(ONES).in_all_directions(dimension, 1.0)))
    assert np.all(np.isfinite(Scripted(ONES).normal(dimension)))
    assert np.all(np.isfinite(Scripted(ONES).exponential(dimension)))


def test_uniform_never_reaches_zero_nor_passes_one():
    assert Scripted(0).uniform(1)[0] == 2.0**-65
    assert 1 - 2.0**-50 < Scripted(ONES).uniform(1)[0] <= 1.0
    assert Scripted(2**63).uniform(1)[0] == 0.5


@given(st.lists(st.integers(0, ONES), min_size=2, max_size=20))
def test_uniform_keeps_the_order_of_its_words(words):
    uniform = Scripted(*words).uniform(len(words))
    assert np.all((uniform > 0) & (uniform <= 1))
    assert np.all(np.diff(uniform[np.argsort(np.array(words, dtype=np.uint64))]) >= 0)


def test_the_tails_reach_as_far_as_the_words_do():
    assert Scripted(0).exponential(1)[0] == pytest.approx(65 * math.log(2))
    assert abs(Scripted(0).normal(1)[0]) == pytest.approx(stats.norm.isf(2.0**-66))


@given(words=st.lists(st.integers(0, ONES), min_size=40, max_size=40), dimension=st.integers(1, 20))
def test_a_vector_in_all_directions_has_the_norm_that_was_drawn(words, dimension):
    norm = Scripted(*words).exponential(dimension).sum()
    vector = Scripted(*words).in_all_directions(dimension, 3.0)
    assert vector.shape == (dimension,)
    assert np.linalg.norm(vector) == pytest.approx(3.0 * norm, rel=1e-9, abs=1e-12)


def test_below_draws_again_what_would_favour_small_residues():
    bound = 3 * 2**62  # 2^64 = bound + 2^62: the last quarter of the words must go
    assert Scripted(bound, ONES, 5).below(bound) == 5
    assert Scripted(bound - 1).below(bound) == bound - 1


def test_below_uses_two_words_from_the_first_bound_that_needs_them():
    source = Scripted(7, 1)
    assert source.below(2**64) == 7  # 1 * 2^64 + 7
    assert source.given == 2
    source = Scripted(ONES)
    assert source.below(2**64 - 1 + 1) == ONES
    source = Scripted(5)
    assert source.below(2**63) == 5
    assert source.given == 1


@given(bound=st.integers(1, 2**200), seed=st.integers(0, 2**32))
def test_below_stays_below(bound, seed):
    assert 0 <= SeededRandomness(seed).below(bound) < bound


def test_below_one_is_zero():
    assert SYSTEM.below(1) == 0


@pytest.mark.parametrize("bound", [0, -1, -(2**70)])
def test_below_refuses_an_empty_range(bound):
    with pytest.raises(InvalidSetting, match="at least 1") as caught:
        SYSTEM.below(bound)
    assert caught.value.cause
    assert caught.value.fix


@given(n=st.integers(0, 60), seed=st.integers(0, 2**32))
def test_a_permutation_holds_each_place_once(n, seed):
    assert sorted(SeededRandomness(seed).permutation(n).tolist()) == list(range(n))


def test_the_system_asks_the_operating_system(monkeypatch):
    asked = []

    def urandom(size: int) -> bytes:
        asked.append(size)
        return bytes([1, 0, 0, 0, 0, 0, 0, 0]) * (size // 8)

    monkeypatch.setattr(os, "urandom", urandom)
    assert SystemRandomness().words(3).tolist() == [1 if np.little_endian else 2**56] * 3
    assert asked == [24]


def test_the_system_never_repeats_itself():
    drawn = np.concatenate([SystemRandomness().words(100), SystemRandomness().words(100), SYSTEM.words(100)])
    assert len(np.unique(drawn)) == 300
    assert not SYSTEM.seeded


def test_numpy_seeds_do_not_touch_the_system():
    np.random.seed(0)  # noqa: NPY002
    first = SYSTEM.normal(4)
    np.random.seed(0)  # noqa: NPY002
    assert not np.array_equal(first, SYSTEM.normal(4))


@settings(max_examples=20)
@given(st.integers(0, 2**63))
def test_a_seed_reproduces_and_is_marked(seed):
    one, other = SeededRandomness(seed), SeededRandomness(seed)
    assert one.seeded
    assert np.array_equal(one.in_all_directions(5, 1.0), other.in_all_directions(5, 1.0))
    assert one.below(2**100) == other.below(2**100)
    assert not np.array_equal(one.words(4), SeededRandomness(seed + 1).words(4))


def test_every_way_to_name_a_source():
    assert as_randomness(None) is SYSTEM
    assert as_randomness(SYSTEM) is SYSTEM
    source = SeededRandomness(1)
    assert as_randomness(source) is source
    for seed in (3, np.random.default_rng(3)):
        assert as_randomness(seed).seeded
        assert np.array_equal(as_randomness(3).words(2), SeededRandomness(3).words(2))
    old = [as_randomness(np.random.RandomState(5)).words(2).tolist() for _ in range(2)]
    assert old[0] == old[1]
