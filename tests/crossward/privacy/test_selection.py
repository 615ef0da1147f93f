"""Private choice: the laws it draws from, the rows each candidate sees, and the order of check, charge and draw."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from crossward.errors import BudgetExceeded, InvalidEpsilon, InvalidSetting, TooFewRecords, WrongShape
from crossward.privacy.budget import nano_epsilon
from crossward.privacy.filters import NOTHING, Accountant
from crossward.privacy.mechanisms import RandomStopping
from crossward.privacy.noise import Randomness, SeededRandomness, SystemRandomness
from crossward.privacy.selection import (
    NumberOfTries,
    choose_by_chunks,
    choose_by_random_stopping,
    exponential_mechanism,
)
from toys import ToyRelease

RARE = 1e-5


class Forbidden(Randomness):
    """A source that must not be used."""

    seeded = False

    def words(self, count: int) -> np.ndarray:
        raise AssertionError("something was drawn")


@dataclass
class Model:
    """Gets a given share of the labels wrong; the second column of X holds them."""

    wrong: float
    scored: list[frozenset[int]]

    def margins(self, X: np.ndarray) -> np.ndarray:
        self.scored.append(frozenset(X[:, 0].astype(int).tolist()))
        flip = np.arange(len(X)) < self.wrong * len(X)
        return np.where(flip, -X[:, 1], X[:, 1])


@dataclass
class Candidate:
    """Remembers the rows it was trained on; the first column of X holds their numbers."""

    wrong: float = 0.0
    epsilon: float = 1.0
    delta: float = 0.0
    trained: list[frozenset[int]] = field(default_factory=list)
    scored: list[frozenset[int]] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    watch: object = None

    def release(self, n: int, features: int) -> ToyRelease:
        assert features == 2
        self.asked.append(n)
        return ToyRelease(epsilon=self.epsilon, delta=self.delta, n=n)

    def train(self, X: np.ndarray, y: np.ndarray, randomness: Randomness) -> Model:
        assert len(X) == len(y)
        if self.watch is not None:
            self.watch()
        self.trained.append(frozenset(X[:, 0].astype(int).tolist()))
        return Model(self.wrong, self.scored)


def records(n: int) -> tuple[np.ndarray, np.ndarray]:
    y = np.where(np.arange(n) % 3, 1.0, -1.0)
    return np.column_stack([np.arange(n), y]), y


both = pytest.mark.parametrize("choose", [choose_by_chunks, choose_by_random_stopping])


# -- the exponential mechanism ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("mistakes", "epsilon"),
    [([3, 5, 4, 9], 0.7), ([0, 1], 2.0), ([100, 100, 100], 1.0), ([7], 1.0), ([10, 0, 3, 3], 0.1)],
)
def test_the_exponential_mechanism_is_a_softmax(mistakes, epsilon):
    source, draws = SeededRandomness(4), 6000
    drawn = Counter(exponential_mechanism(mistakes, epsilon, source) for _ in range(draws))
    weights = np.exp(-epsilon * np.array(mistakes) / 2)
    expected = draws * weights / weights.sum()
    assert set(drawn) <= set(range(len(mistakes)))
    if len(mistakes) > 1:
        assert stats.chisquare([drawn[i] for i in range(len(mistakes))], expected).pvalue > RARE


def test_a_clear_winner_wins():
    source = SeededRandomness(0)
    assert {exponential_mechanism([5000, 0, 5000], 1.0, source) for _ in range(200)} == {1}


# -- the number of tries ----------------------------------------------------------------------------------------------
LAWS = [(0.0, 10.0), (0.0, 1.5), (0.5, 4.0), (1.0, 10.0), (2.5, 30.0)]


def closed_form(law: NumberOfTries, k: np.ndarray) -> np.ndarray:
    """The same law by scipy: logarithmic, or negative binomial without its zero."""
    if law.eta == 0:
        return stats.logser(1 - law.gamma).pmf(k)
    return stats.nbinom(law.eta, law.gamma).pmf(k) / (1 - law.gamma**law.eta)


@pytest.mark.parametrize(("eta", "tries"), LAWS)
def test_the_law_sums_to_one_and_has_its_mean(eta, tries):
    law = NumberOfTries.expecting(tries, eta)
    k = np.arange(1, 4000)
    chances = np.array([law.pmf(int(one)) for one in k])
    assert 0 < law.gamma < 1
    assert chances.sum() == pytest.approx(1, abs=1e-9)
    assert (k * chances).sum() == pytest.approx(tries, rel=1e-7)
    assert law.mean == pytest.approx(tries, rel=1e-9)
    assert chances == pytest.approx(closed_form(law, k), rel=1e-8, abs=1e-15)


def test_eta_of_one_is_geometric():
    assert NumberOfTries.expecting(8.0, 1.0).gamma == pytest.approx(1 / 8)


@pytest.mark.parametrize(("eta", "tries"), LAWS)
def test_the_number_of_tries_follows_the_law(eta, tries):
    law, source, draws = NumberOfTries.expecting(tries, eta), SeededRandomness(6), 4000
    drawn = Counter(law.draw(source) for _ in range(draws))
    assert min(drawn) == 1
    cells = [k for k in range(1, 200) if draws * law.pmf(k) >= 5]
    observed = [drawn[k] for k in cells]
    expected = draws * closed_form(law, np.array(cells))
    rest = draws - sum(observed), draws - expected.sum()
    assert stats.chisquare([*observed, rest[0]], [*expected, rest[1]]).pvalue > RARE


def test_a_law_far_from_one_is_not_cut_short():
    law = NumberOfTries.expecting(500.0, 20.0)
    assert law.pmf(2) < 1e-18
    source = SeededRandomness(2)
    drawn = np.array([law.draw(source) for _ in range(200)])
    deviation = math.sqrt(500 * (1 + 500 / 20) / 200)
    assert abs(drawn.mean() - 500) < 5 * deviation


@settings(max_examples=60)
@given(eta=st.floats(0, 100), tries=st.floats(1.01, 10_000))
def test_any_expected_number_of_tries_is_met(eta, tries):
    law = NumberOfTries.expecting(tries, eta)
    assert law.mean == pytest.approx(tries, rel=1e-6)
    assert 0 < law.gamma < 1


@pytest.mark.parametrize("word", [0, 2**64 - 1])
@pytest.mark.parametrize(("eta", "tries"), LAWS)
def test_extreme_words_still_end(eta, tries, word):
    class Constant(Forbidden):
        def words(self, count: int) -> np.ndarray:
            return np.full(count, word, dtype=np.uint64)

    assert 1 <= NumberOfTries.expecting(tries, eta).draw(Constant()) < 100_000


@pytest.mark.parametrize("tries", [1.0, 1 + 1e-12, 0.5, 0, -3, math.nan, math.inf, 20_000])
def test_an_expected_number_that_cannot_be_is_refused(tries):
    with pytest.raises(InvalidSetting) as caught:
        NumberOfTries.expecting(tries, 0.0)
    assert caught.value.fix


@pytest.mark.parametrize("eta", [-0.1, -1, math.nan, math.inf, 1e12])
def test_an_eta_that_cannot_be_is_refused(eta):
    with pytest.raises(InvalidSetting) as caught:
        NumberOfTries.expecting(10.0, eta)
    assert caught.value.fix


# -- chunks -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("n", [5, 40, 43])
def test_each_candidate_sees_its_own_rows_and_none_of_those_that_judge_it(n):
    candidates = [Candidate() for _ in range(4)]
    X, y = records(n)
    choose_by_chunks(candidates, X, y, 1.0, randomness=SeededRandomness(n))
    trained = [rows for candidate in candidates for rows in candidate.trained]
    (judging,) = {rows for candidate in candidates for rows in candidate.scored}
    seen = [*trained, judging]
    assert len(trained) == 4
    assert sum(map(len, seen)) == n
    assert frozenset().union(*seen) == frozenset(range(n))
    assert max(map(len, seen)) - min(map(len, seen)) <= 1
    for candidate in candidates:
        assert candidate.asked == [len(candidate.trained[0])]


def test_the_rows_of_a_chunk_are_random():
    X, y = records(40)
    rows = []
    for seed in range(300):
        candidate = Candidate()
        choose_by_chunks([candidate], X, y, 1.0, randomness=SeededRandomness(seed))
        rows.extend(candidate.trained[0])
    counts = [rows.count(i) for i in range(40)]
    assert stats.chisquare(counts).pvalue > RARE


def test_choosing_by_chunks_costs_epsilon_once():
    candidates = [Candidate(epsilon=0.5), Candidate(epsilon=1.0), Candidate(epsilon=0.7)]
    accountant = Accountant.with_budget(1.0)
    choice = choose_by_chunks(candidates, *records(40), 1.0, randomness=SeededRandomness(1), accountant=accountant)
    assert choice.release.epsilon == 1.0
    assert accountant.left == 0
    assert accountant.releases == (choice.release,)
    assert [part.mechanism for part in choice.release.parts] == ["toy"] * 3 + ["exponential-mechanism"]
    assert choice.release.seeded
    assert all(part.seeded for part in choice.release.parts)


def test_the_better_candidate_is_chosen_by_chunks():
    candidates = [Candidate(wrong=0.9), Candidate(wrong=0.1), Candidate(wrong=0.8)]
    choice = choose_by_chunks(candidates, *records(400), 2.0, randomness=SeededRandomness(3))
    assert choice.candidate is candidates[1]
    assert choice.model.wrong == 0.1


def test_chunks_choose_as_often_as_the_mechanism_says():
    X, y = records(16)  # 4 rows judge: 0, 2 and 4 mistakes
    chosen = Counter()
    for seed in range(1500):
        candidates = [Candidate(wrong=0.0), Candidate(wrong=0.5), Candidate(wrong=1.0)]
        choice = choose_by_chunks(candidates, X, y, 1.0, randomness=SeededRandomness(seed))
        chosen[choice.candidate.wrong] += 1
    weights = np.exp(-np.array([0, 2, 4]) / 2)
    expected = 1500 * weights / weights.sum()
    assert stats.chisquare([chosen[0.0], chosen[0.5], chosen[1.0]], expected).pvalue > RARE


@pytest.mark.parametrize("n", [0, 1, 3])
def test_too_few_records_for_the_chunks(n):
    with pytest.raises(TooFewRecords) as caught:
        choose_by_chunks([Candidate()] * 3, *records(n), 1.0, randomness=Forbidden())
    assert caught.value.fix


# -- random stopping --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("eta", [0.0, 0.5, 1.0])
def test_random_stopping_costs_two_and_eta_times_epsilon(eta):
    accountant = Accountant.with_budget(10.0)
    choice = choose_by_random_stopping(
        [Candidate(), Candidate()], *records(40), 1.0, eta=eta, randomness=SeededRandomness(1), accountant=accountant
    )
    assert choice.release.epsilon == 2 + eta
    assert accountant.spent.nano_epsilon == (2 + eta) * 10**9
    assert accountant.releases == (choice.release,)
    assert choice.release.seeded


@pytest.mark.parametrize("epsilon", [1 / 3, 0.1234567891, 2 / 3])
def test_the_charge_covers_a_base_that_was_rounded_up(epsilon):
    """Candidates and noise may use epsilon rounded up to nano-epsilon: twice that is what it costs."""
    choice = choose_by_random_stopping(
        [Candidate(epsilon=nano_epsilon(epsilon) / 1e9)], *records(40), epsilon, randomness=SeededRandomness(1)
    )
    assert choice.release.cost.nano_epsilon >= 2 * nano_epsilon(epsilon)


def test_the_number_of_tries_is_never_told():
    tries, releases, fields = set(), set(), set()
    for seed in range(30):
        candidate = Candidate()
        choice = choose_by_random_stopping([candidate], *records(40), 1.0, randomness=SeededRandomness(seed))
        tries.add(len(candidate.trained))
        releases.add(choice.release)
        fields.add(tuple(choice.__slots__))
    assert len(tries) > 5
    assert len(releases) == 1
    assert fields == {("candidate", "model", "release")}
    (release,) = releases
    gamma = NumberOfTries.expecting(10.0, 0.0).gamma
    assert release == RandomStopping(
        epsilon=2.0, seeded=True, n=40, base_epsilon=1.0, eta=0.0, gamma=gamma, candidates=1
    )


def test_the_tries_follow_their_law_and_candidates_are_drawn_evenly():
    law, tried, drawn = NumberOfTries.expecting(3.0, 0.0), Counter(), Counter()
    source = SeededRandomness(12)
    for _ in range(1000):
        candidates = [Candidate(), Candidate(), Candidate()]
        choose_by_random_stopping(candidates, *records(8), 1.0, expected_tries=3.0, randomness=source)
        each = [len(candidate.trained) for candidate in candidates]
        tried[min(sum(each), 8)] += 1
        drawn.update(dict(enumerate(each)))
    expected = [1000 * law.pmf(k) for k in range(1, 8)]
    expected.append(1000 - sum(expected))
    assert stats.chisquare([tried[k] for k in range(1, 9)], expected).pvalue > RARE
    assert stats.chisquare(list(drawn.values())).pvalue > RARE


def test_every_try_trains_on_the_same_rows_and_none_of_those_that_judge_it():
    candidates = [Candidate(), Candidate()]
    choose_by_random_stopping(
        candidates, *records(40), 1.0, expected_tries=50.0, validation_share=0.2, randomness=SeededRandomness(5)
    )
    (trained,) = {rows for candidate in candidates for rows in candidate.trained}
    (judging,) = {rows for candidate in candidates for rows in candidate.scored}
    assert (len(trained), len(judging)) == (32, 8)
    assert trained | judging == frozenset(range(40))
    assert all(candidate.asked == [32] for candidate in candidates)


def test_the_better_candidate_is_kept():
    candidates = [Candidate(wrong=0.9), Candidate(wrong=0.0)]
    choice = choose_by_random_stopping(
        candidates, *records(400), 2.0, expected_tries=100.0, eta=1.0, randomness=SeededRandomness(5)
    )
    assert candidates[0].trained
    assert choice.candidate is candidates[1]
    assert choice.model.wrong == 0.0


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5, math.nan, 2.0])
def test_a_validation_share_outside_zero_and_one(share):
    with pytest.raises(InvalidSetting) as caught:
        choose_by_random_stopping([Candidate()], *records(40), 1.0, validation_share=share, randomness=Forbidden())
    assert caught.value.fix


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_records_to_split(n):
    with pytest.raises(TooFewRecords):
        choose_by_random_stopping([Candidate()], *records(n), 1.0, randomness=Forbidden())


# -- both: check, charge, draw ----------------------------------------------------------------------------------------
@both
@pytest.mark.parametrize(
    ("candidate", "error"),
    [
        (Candidate(epsilon=1.0 + 2e-9), InvalidSetting),
        (Candidate(epsilon=5.0), InvalidSetting),
        (Candidate(delta=1e-18), InvalidSetting),
        (Candidate(epsilon=math.inf), InvalidEpsilon),
        (Candidate(epsilon=math.nan), InvalidEpsilon),
        (Candidate(epsilon=-1.0), InvalidEpsilon),
    ],
)
def test_a_candidate_dearer_than_epsilon_is_refused_before_any_draw(choose, candidate, error):
    accountant = Accountant.with_budget(100.0)
    with pytest.raises(error) as caught:
        choose([Candidate(), candidate], *records(40), 1.0, randomness=Forbidden(), accountant=accountant)
    assert caught.value.fix
    assert accountant.spent == NOTHING
    assert not candidate.trained


@both
def test_a_refused_charge_draws_and_trains_nothing(choose):
    candidate, accountant = Candidate(), Accountant.with_budget(0.99)
    with pytest.raises(BudgetExceeded):
        choose([candidate], *records(40), 1.0, randomness=Forbidden(), accountant=accountant)
    assert accountant.spent == NOTHING
    assert not candidate.trained


@both
def test_the_charge_comes_before_training_and_stands_when_training_fails(choose):
    accountant = Accountant.with_budget(10.0)

    def watch() -> None:
        assert accountant.spent.releases == 1
        raise RuntimeError("the solver stopped")

    with pytest.raises(RuntimeError, match="the solver stopped"):
        choose([Candidate(watch=watch)], *records(40), 1.0, randomness=SeededRandomness(0), accountant=accountant)
    assert accountant.spent.releases == 1


@both
@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, True])
def test_a_bad_epsilon_is_refused(choose, epsilon):
    with pytest.raises(InvalidEpsilon):
        choose([Candidate()], *records(40), epsilon, randomness=Forbidden())


@both
def test_no_candidates(choose):
    with pytest.raises(InvalidSetting) as caught:
        choose([], *records(40), 1.0, randomness=Forbidden())
    assert caught.value.fix


@both
def test_records_and_labels_that_do_not_fit_cost_nothing(choose):
    accountant = Accountant.with_budget(10.0)
    X, y = records(40)
    for bad_X, bad_y in ((X[:30], y), (X, y[:30]), (X[:, 0], y)):
        with pytest.raises(WrongShape) as caught:
            choose([Candidate()], bad_X, bad_y, 1.0, randomness=Forbidden(), accountant=accountant)
        assert caught.value.fix
    assert accountant.spent == NOTHING


def test_bad_tries_cost_nothing():
    accountant = Accountant.with_budget(10.0)
    for bad in ({"eta": -1.0}, {"expected_tries": 0.5}):
        with pytest.raises(InvalidSetting):
            choose_by_random_stopping(
                [Candidate()], *records(40), 1.0, randomness=Forbidden(), accountant=accountant, **bad
            )
    assert accountant.spent == NOTHING


@both
def test_the_system_leaves_no_mark(choose):
    assert not choose([Candidate()], *records(40), 1.0, randomness=SystemRandomness()).release.seeded
