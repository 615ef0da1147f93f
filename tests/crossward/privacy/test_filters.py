"""Filters never let a total pass the limit, and the limit means what it says."""

from __future__ import annotations

import math
import os
import re
import sys
import threading
import time
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, stateful
from hypothesis import strategies as st
from scipy import stats

from crossward.errors import BudgetExceeded, InvalidEpsilon
from crossward.privacy.budget import Budget, Cost
from crossward.privacy.filters import NOTHING, Accountant, BasicFilter, Spend, ZcdpFilter, charge
from crossward.privacy.release import Release, parallel, sequential
from toys import ToyRelease


def a_release(epsilon: float, delta: float = 0.0) -> Release:
    return ToyRelease(epsilon=epsilon, delta=delta)


def guaranteed(rho: Fraction, delta: Fraction) -> Decimal:
    """The epsilon that rho-zCDP gives at delta, in eighty digits."""
    with localcontext() as context:
        context.prec = 80
        r = Decimal(rho.numerator) / Decimal(rho.denominator)
        log = Decimal(delta.denominator).ln() - Decimal(delta.numerator).ln()
        return r + 2 * (r * log).sqrt()


# -- sums -------------------------------------------------------------------------------------------------------------
def test_a_tenth_ten_times_is_one_and_no_more():
    accountant = Accountant.with_budget(1.0)
    for _ in range(10):
        accountant.charge(a_release(0.1))
    assert accountant.spent == Spend(10**9, 0, 10 * 5 * 10**15, 10)
    assert accountant.left == 0
    with pytest.raises(BudgetExceeded):
        accountant.charge(a_release(1e-300))


def test_deltas_add_up_too():
    accountant = Accountant.with_budget(10.0, 1e-6)
    accountant.charge(a_release(0.1, 6e-7))
    with pytest.raises(BudgetExceeded, match="delta") as caught:
        accountant.charge(a_release(0.1, 6e-7))
    assert caught.value.fix
    accountant.charge(a_release(0.1, 4e-7))
    assert accountant.spent.atto_delta == 10**12


def test_a_budget_without_delta_admits_none():
    with pytest.raises(BudgetExceeded):
        Accountant.with_budget(10.0).charge(a_release(0.1, 1e-18))


@given(budget=st.integers(0, 10**10), spent=st.integers(0, 10**10))
def test_the_advice_of_the_basic_filter_can_be_followed(budget, spent):
    spent = min(spent, budget)
    rule = BasicFilter(Budget(budget))
    with pytest.raises(BudgetExceeded) as caught:
        rule.admit(Spend(spent), Cost(budget - spent + 1))
    advice = _advice(caught.value)
    assert rule.admit(Spend(spent), a_release(float(advice)).cost).nano_epsilon == budget
    assert rule.admit(Spend(spent), a_release(rule.left(Spend(spent))).cost).nano_epsilon == budget


@settings(max_examples=60)
@given(epsilon=st.floats(0.01, 20), spent=st.floats(0, 1))
def test_the_advice_of_the_zcdp_filter_can_be_followed(epsilon, spent):
    rule = ZcdpFilter(Budget.of(epsilon, 1e-6))
    spend = Spend(atto_rho=min(int(spent * rule.limit), rule.limit))
    with pytest.raises(BudgetExceeded) as caught:
        rule.admit(spend, Cost(10**12))
    assert rule.admit(spend, a_release(float(_advice(caught.value))).cost).atto_rho <= rule.limit
    left = a_release(rule.left(spend)).cost
    assert rule.admit(spend, left).atto_rho <= rule.limit
    with pytest.raises(BudgetExceeded):
        rule.admit(spend, left + Cost(1))
    assert float(_advice(caught.value)) == rule.left(spend)


def _advice(error: BudgetExceeded) -> str:
    return re.fullmatch(r"Ask for at most epsilon (\S+)\.", error.fix).group(1)


# -- zCDP -------------------------------------------------------------------------------------------------------------
@settings(max_examples=60)
@given(nano=st.integers(10**6, 10**11), atto=st.integers(1, 10**18 - 1))
def test_the_zcdp_limit_gives_the_budget_and_hardly_less(nano, atto):
    limit = ZcdpFilter(Budget(nano, atto)).limit
    epsilon, delta = Decimal(nano).scaleb(-9), Fraction(atto, 10**18)
    assert guaranteed(Fraction(limit, 10**18), delta) <= epsilon
    assert guaranteed(Fraction(limit + 1, 10**18), delta) >= epsilon - Decimal("1e-60")


@pytest.mark.parametrize("each", [0.005, 0.02, 0.1, 0.4])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (3.0, 1e-9), (0.5, 1e-3)])
def test_as_many_coin_flips_as_it_admits_keep_the_promise(each, epsilon, delta):
    """Randomised response is the worst pure mechanism: its exact delta after k rounds is a binomial sum."""
    rule = ZcdpFilter(Budget.of(epsilon, delta))
    cost = a_release(each).cost
    rounds = rule.limit // (cost.nano_epsilon**2 // 2)
    if rounds == 0:
        with pytest.raises(BudgetExceeded):
            rule.admit(NOTHING, cost)
        return
    rule.admit(Spend(atto_rho=(rounds - 1) * cost.nano_epsilon**2 // 2), cost)
    with pytest.raises(BudgetExceeded):
        rule.admit(Spend(atto_rho=rounds * cost.nano_epsilon**2 // 2), cost)
    truth = stats.binom(rounds, 1 / (1 + math.exp(-each)))
    lie = stats.binom(rounds, 1 / (1 + math.exp(each)))
    heads = np.arange(rounds + 1)
    exact = np.maximum(0.0, truth.pmf(heads) - math.exp(epsilon) * lie.pmf(heads)).sum()
    assert exact <= delta


def test_zcdp_admits_more_small_releases_than_sums_do():
    budget = Budget.of(1.0, 1e-6)

    def admitted(rule: BasicFilter | ZcdpFilter) -> int:
        spend, count = NOTHING, 0
        while True:
            try:
                spend = rule.admit(spend, Cost(5_000_000))
            except BudgetExceeded:
                return count
            count += 1

    assert admitted(BasicFilter(budget)) == 200
    assert admitted(ZcdpFilter(budget)) > 1000


def test_zcdp_rounds_rho_up():
    rule = ZcdpFilter(Budget.of(1.0, 1e-6))
    assert rule.admit(NOTHING, Cost(1)).atto_rho == 1
    assert rule.admit(NOTHING, Cost(3)).atto_rho == 5
    assert rule.admit(NOTHING, Cost(4)).atto_rho == 8


def test_zcdp_charges_a_person_the_square():
    accountant = Accountant(ZcdpFilter(Budget.of(5.0, 1e-6)), records_per_person=3)
    accountant.charge(a_release(0.1))
    assert accountant.spent.atto_rho == 45 * 10**15


def test_zcdp_admits_no_release_with_a_delta():
    accountant = Accountant(ZcdpFilter(Budget.of(5.0, 1e-3)))
    with pytest.raises(BudgetExceeded, match="pure") as caught:
        accountant.charge(a_release(0.1, 1e-18))
    assert caught.value.fix
    assert accountant.spent == NOTHING


@pytest.mark.parametrize("budget", [Budget(10**9), Budget(10**9, 10**18), Budget(10**9, 2 * 10**18)])
def test_zcdp_needs_a_delta(budget):
    with pytest.raises(InvalidEpsilon) as caught:
        ZcdpFilter(budget)
    assert caught.value.fix


def test_zcdp_of_nothing_admits_nothing():
    rule = ZcdpFilter(Budget(0, 10**12))
    assert rule.limit == 0
    assert rule.left(NOTHING) == 0
    with pytest.raises(BudgetExceeded):
        rule.admit(NOTHING, Cost(1))


# -- the account ------------------------------------------------------------------------------------------------------
class Charging(stateful.RuleBasedStateMachine):
    """Any sequence of charges, beside a ledger in fractions."""

    @stateful.initialize(
        epsilon=st.integers(0, 3 * 10**9),
        delta=st.integers(1, 10**15),
        zcdp=st.booleans(),
        records=st.integers(1, 3),
    )
    def open(self, epsilon: int, delta: int, zcdp: bool, records: int) -> None:
        self.budget = Budget(epsilon, delta)
        self.records = records
        self.accountant = Accountant(ZcdpFilter(self.budget) if zcdp else BasicFilter(self.budget), records)
        self.zcdp = zcdp
        self.epsilon = self.delta = self.rho = Fraction(0)
        self.charged: list[Release] = []

    @stateful.rule(epsilon=st.floats(0, 1), delta=st.sampled_from([0.0, 0.0, 1e-6, 1e-4]))
    def charge(self, epsilon: float, delta: float) -> None:
        release = a_release(epsilon, delta)
        before = self.accountant.spent
        try:
            self.accountant.charge(release)
        except BudgetExceeded:
            assert self.accountant.spent == before
        else:
            person = self.records * Fraction(Decimal(repr(epsilon)))
            self.epsilon += person
            self.delta += Fraction(delta) * self.records
            self.rho += person**2 / 2
            self.charged.append(release)

    @stateful.rule()
    def charge_all_that_is_left(self) -> None:
        self.charge(self.accountant.left / self.records, 0.0)

    @stateful.rule(epsilon=st.sampled_from([math.nan, math.inf, -math.inf, -0.5]))
    def charge_nonsense(self, epsilon: float) -> None:
        before = self.accountant.spent
        with pytest.raises(InvalidEpsilon):
            self.accountant.charge(a_release(epsilon))
        assert self.accountant.spent == before

    @stateful.invariant()
    def within_the_budget(self) -> None:
        if not hasattr(self, "accountant"):
            return
        if self.zcdp:
            limit = Fraction(self.budget.nano_epsilon, 10**9)
            reached = guaranteed(self.rho, Fraction(self.budget.atto_delta, 10**18)) if self.rho else Decimal(0)
            assert reached <= Decimal(limit.numerator) / Decimal(limit.denominator) + Decimal("1e-20")
            assert self.delta == 0
        else:
            assert self.epsilon <= Fraction(self.budget.nano_epsilon, 10**9)
            assert self.delta * 10**18 <= self.budget.atto_delta + 1
        assert self.accountant.releases == tuple(self.charged)
        assert self.accountant.spent.releases == len(self.charged)
        assert self.accountant.left >= 0


Charging.TestCase.settings = settings(max_examples=40, stateful_step_count=20)
TestCharging = Charging.TestCase


def test_a_refused_charge_is_not_listed_and_a_smaller_one_still_passes():
    accountant = Accountant.with_budget(1.0)
    accountant.charge(a_release(0.9))
    with pytest.raises(BudgetExceeded):
        accountant.charge(a_release(0.2))
    accountant.charge(a_release(0.1))
    assert [release.epsilon for release in accountant.releases] == [0.9, 0.1]


def test_a_non_private_release_is_never_charged():
    twin = a_release(math.inf)
    for release in (twin, parallel("p", a_release(0.1), twin), sequential("s", twin, a_release(0.1))):
        for rule in (BasicFilter(Budget(10**30, 10**18)), ZcdpFilter(Budget(10**30, 10**17))):
            accountant = Accountant(rule)
            with pytest.raises(InvalidEpsilon, match="non-private"):
                accountant.charge(release)
            assert accountant.spent == NOTHING
            assert accountant.releases == ()


def test_a_person_with_records_pays_for_all_of_them():
    accountant = Accountant.with_budget(10.0, 1e-3, records_per_person=3)
    accountant.charge(a_release(0.5, 1e-6))
    assert accountant.spent.nano_epsilon == 1_500_000_000
    assert accountant.spent.atto_delta == pytest.approx(3e12 * math.exp(1.0), abs=1)
    with pytest.raises(BudgetExceeded):
        accountant.charge(a_release(3.0))
    with pytest.raises(BudgetExceeded):
        Accountant.with_budget(1e4, 1e-3, records_per_person=100).charge(a_release(10.0, 1e-6))
    with pytest.raises(InvalidEpsilon):
        Accountant.with_budget(1.0, records_per_person=0)


def test_a_forked_process_cannot_spend_the_budget_again():
    accountant = Accountant.with_budget(1.0)
    if (child := os.fork()) == 0:
        refused = False
        try:
            accountant.charge(a_release(1.0))
        except BudgetExceeded:
            refused = True
        finally:
            os._exit(0 if refused else 1)  # whatever happened: the rest of the tests is the parent's
    assert os.waitpid(child, 0)[1] == 0
    accountant.charge(a_release(1.0))
    with pytest.raises(AttributeError):
        accountant.rule = BasicFilter(Budget.of(9.0))


def test_an_absent_account_is_charged_nothing():
    charge(None, a_release(1.0))
    accountant = Accountant.with_budget(1.0)
    charge(accountant, a_release(1.0))
    assert accountant.left == 0


class Slow(BasicFilter):
    """Lets other threads run between reading the spend and answering."""

    def admit(self, spend: Spend, cost: Cost) -> Spend:
        after = super().admit(spend, cost)
        time.sleep(0.0001)
        return after


def test_threads_that_race_never_overspend():
    accountant = Accountant(Slow(Budget.of(1.0)))
    admitted, refused = [], []
    ready = threading.Barrier(8)

    def spend() -> None:
        ready.wait()
        for _ in range(25):
            try:
                accountant.charge(a_release(0.01))
                admitted.append(1)
            except BudgetExceeded:
                refused.append(1)

    threads = [threading.Thread(target=spend) for _ in range(8)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert (len(admitted), len(refused)) == (100, 100)
    assert accountant.spent.nano_epsilon == 10**9
    assert accountant.spent.releases == len(accountant.releases) == 100
