"""Exact samplers: every path of their coin flips summed in fractions, and samples against closed forms."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from crossward.errors import InvalidSetting
from crossward.privacy import exact
from crossward.privacy.exact import bernoulli, bernoulli_exp, discrete_laplace
from crossward.privacy.noise import Randomness, SeededRandomness

RARE = 1e-5


class Fork(Exception):
    """A sampler wants one more choice than its script holds: the chances of the branches from here."""


class Again(Exception):
    """A rejection sampler starts afresh: what it did before does not matter."""


class Path(Randomness):
    """Answers each question of a sampler from a script."""

    seeded = True

    def __init__(self, script: tuple[int, ...], first: int | None = None) -> None:
        self._script = iter(script)
        self._first = first
        self._begun = False

    def words(self, count: int) -> np.ndarray:
        raise AssertionError("an exact sampler asks for integers only")

    def choose(self, chances: list[Fraction]) -> int:
        answer = next(self._script, None)
        if answer is None:
            raise Fork(chances)
        return answer

    def below(self, bound: int) -> int:
        if bound == self._first and self._begun:
            raise Again
        self._begun = True
        return self.choose([Fraction(1, bound)] * bound)


def law(sampler: Callable[[Path], object], ignore: float, first: int | None = None) -> tuple[dict, float]:
    """The exact probability of each outcome over all paths likelier than `ignore`, and the mass of the others.

    `first` is the bound of the first draw of a rejection sampler; asking for it again is starting afresh.
    """
    found: dict[object, Fraction] = defaultdict(Fraction)
    ignored = Fraction(0)
    open_paths: list[tuple[tuple[int, ...], Fraction]] = [((), Fraction(1))]
    while open_paths:
        script, chance = open_paths.pop()
        try:
            found[sampler(Path(script, first))] += chance
        except Again:
            continue
        except Fork as fork:
            for answer, part in enumerate(fork.args[0]):
                if chance * part > ignore:
                    open_paths.append(((*script, answer), chance * part))
                else:
                    ignored += chance * part
    return found, float(ignored)


@pytest.mark.parametrize("x", [Fraction(0), Fraction(1, 7), Fraction(1, 2), Fraction(1), Fraction(3, 2), Fraction(3)])
def test_bernoulli_exp_sums_to_its_closed_form_over_all_paths(x, monkeypatch):
    monkeypatch.setattr(exact, "bernoulli", lambda p, path: path.choose([1 - p, p]) == 1)
    found, ignored = law(lambda path: bernoulli_exp(x, path), 1e-9)
    assert ignored < 1e-6
    assert float(found[True]) == pytest.approx(math.exp(-x), abs=ignored + 1e-15)
    assert float(found[False]) == pytest.approx(-math.expm1(-x), abs=ignored + 1e-15)


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(1, 2), Fraction(3, 2), Fraction(3, 5), Fraction(7)])
def test_discrete_laplace_sums_to_its_closed_form_over_all_paths(scale, monkeypatch):
    def coin(x: Fraction, path: Path) -> bool:
        p = Fraction(math.exp(-x))
        return path.choose([1 - p, p]) == 1

    monkeypatch.setattr(exact, "bernoulli_exp", coin)
    found, ignored = law(lambda path: discrete_laplace(scale, path), 1e-12, first=scale.numerator)
    closed = stats.dlaplace(1 / float(scale))
    accepted = sum(found.values())
    assert ignored < 1e-10
    for value in range(-20, 21):
        assert float(found[value] / accepted) == pytest.approx(closed.pmf(value), abs=1e-9)
        assert found[value] == found[-value]


def fits(counts: Counter, chances: dict[int, float]) -> bool:
    """Chi-square with everything outside `chances` in one cell more."""
    total = sum(counts.values())
    observed = [counts[value] for value in chances]
    expected = [total * chance for chance in chances.values()]
    return bool(
        stats.chisquare([*observed, total - sum(observed)], [*expected, total - math.fsum(expected)]).pvalue > RARE
    )


@pytest.mark.parametrize(
    "p", [Fraction(1, 2), Fraction(1, 3), Fraction(999, 1000), Fraction(1, 3 * 2**70) + Fraction(1, 4)]
)
def test_bernoulli(p):
    source = SeededRandomness(p.numerator % 1009)
    hits = sum(bernoulli(p, source) for _ in range(10_000))
    assert stats.binomtest(hits, 10_000, float(p)).pvalue > RARE


def test_certain_coins():
    source = SeededRandomness(0)
    assert not any(bernoulli(Fraction(0), source) for _ in range(1000))
    assert all(bernoulli(Fraction(1), source) for _ in range(1000))
    assert all(bernoulli_exp(Fraction(0), source) for _ in range(1000))
    assert not any(bernoulli_exp(Fraction(10**6), source) for _ in range(1000))


@pytest.mark.parametrize("p", [Fraction(-1, 3), Fraction(4, 3), Fraction(-1)])
def test_a_coin_outside_zero_and_one_is_refused(p):
    with pytest.raises(InvalidSetting):
        bernoulli(p, SeededRandomness(0))


@pytest.mark.parametrize("x", [Fraction(-1, 10**9), Fraction(-5)])
def test_a_chance_above_one_is_refused(x):
    with pytest.raises(InvalidSetting):
        bernoulli_exp(x, SeededRandomness(0))


@pytest.mark.parametrize("x", [Fraction(1, 100), Fraction(5, 7), Fraction(13, 5), Fraction(10**30 + 1, 10**30)])
def test_bernoulli_exp(x):
    source = SeededRandomness(3)
    hits = sum(bernoulli_exp(x, source) for _ in range(5000))
    assert stats.binomtest(hits, 5000, math.exp(-x)).pvalue > RARE


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(7, 5), Fraction(5)])
def test_discrete_laplace(scale):
    source = SeededRandomness(5)
    counts = Counter(discrete_laplace(scale, source) for _ in range(4000))
    closed = stats.dlaplace(1 / float(scale))
    reach = max(1, math.ceil(3 * scale))
    assert fits(counts, {v: float(closed.pmf(v)) for v in range(-reach, reach + 1)})
    near = stats.dlaplace(1 / (1.3 * float(scale)))
    assert not fits(counts, {v: float(near.pmf(v)) for v in range(-reach, reach + 1)})


@pytest.mark.parametrize("scale", [Fraction(10**12), Fraction(10**15 + 1, 997), Fraction(10**40, 3)])
def test_a_huge_scale_is_laplace_without_gaps(scale):
    source = SeededRandomness(8)
    drawn = [discrete_laplace(scale, source) for _ in range(2000)]
    assert stats.kstest([float(v / scale) for v in drawn], stats.laplace.cdf).pvalue > RARE
    odd = sum(v % 2 for v in drawn)
    assert stats.binomtest(odd, len(drawn)).pvalue > RARE  # low-order bits say nothing
    assert len(set(drawn)) == len(drawn)


def test_a_tiny_scale_is_almost_always_zero():
    source = SeededRandomness(1)
    assert {discrete_laplace(Fraction(1, 1000), source) for _ in range(500)} == {0}


@settings(max_examples=25)
@given(
    scale=st.fractions(min_value=Fraction(1, 50), max_value=10**12, max_denominator=10**6),
    seed=st.integers(0, 2**32),
)
def test_any_rational_scale_has_its_chance_of_zero_and_its_median(scale, seed):
    source = SeededRandomness(seed)
    drawn = [discrete_laplace(scale, source) for _ in range(250)]
    assert all(type(value) is int for value in drawn)
    zero = math.tanh(1 / (2 * float(scale)))
    assert stats.binomtest(drawn.count(0), len(drawn), zero).pvalue > 1e-10  # for any seed that may be tried
    middle = math.ceil(scale * Fraction(7, 10))  # P(|v| < m) = 1 - 2 e^(-m/scale) / (1 + e^(-1/scale))
    inside = 1 - 2 * math.exp(-middle / scale) / (1 + math.exp(-1 / scale))
    assert stats.binomtest(sum(abs(v) < middle for v in drawn), len(drawn), inside).pvalue > 1e-10


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1), Fraction(-1, 10**20)])
def test_a_scale_that_is_not_positive_is_refused_before_any_draw(scale):
    with pytest.raises(InvalidSetting, match="positive") as caught:
        discrete_laplace(scale, Path(()))
    assert caught.value.cause
    assert caught.value.fix


@given(st.fractions(min_value=-(10**6), max_value=0))
def test_no_scale_below_zero_is_let_through(scale):
    with pytest.raises(InvalidSetting):
        discrete_laplace(scale, Path(()))
