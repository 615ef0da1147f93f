"""Epsilon and delta as integers: what is charged is rounded up, what is allowed is rounded down."""

from __future__ import annotations

import decimal
import math
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crossward.errors import InvalidEpsilon
from crossward.privacy.budget import (
    NON_PRIVATE,
    Budget,
    Cost,
    NonPrivate,
    atto_delta,
    check_delta,
    check_epsilon,
    nano_epsilon,
)

NOT_A_COST = [math.nan, math.inf, -math.inf, -1.0, -1e-300, "NaN", "-1", "Infinity", Decimal("sNaN"), Decimal(-1)]
NOT_A_NUMBER = [True, False, "abc", "", None, 1j, [1.0], np.float32(0.5)]


@pytest.mark.parametrize(
    ("epsilon", "nano"),
    [
        (0.1, 100_000_000),
        (0.3, 300_000_000),
        (1.1, 1_100_000_000),
        (1, 1_000_000_000),
        (1e-9, 1),
        (1e-10, 1),
        (1e-300, 1),
        (5e-324, 1),
        (0, 0),
        (0.1 + 0.2, 300_000_001),
        (1 / 3, 333_333_334),
        ("0.1", 100_000_000),
        (Decimal("2.5"), 2_500_000_000),
        (np.float64(0.7), 700_000_000),
    ],
)
def test_epsilon_as_a_charge(epsilon, nano):
    assert nano_epsilon(epsilon) == nano
    assert type(nano_epsilon(epsilon)) is int


@pytest.mark.parametrize(("delta", "atto"), [(1e-6, 10**12), (1e-18, 1), (1e-19, 1), (0.0, 0), ("0.5", 5 * 10**17)])
def test_delta_as_a_charge(delta, atto):
    assert atto_delta(delta) == atto


@example(Decimal("0.1000000000000000000000000000000001"))
@example(Decimal("0.9999999999999999999999999999999999"))
@given(st.decimals(0, 10**6, allow_nan=False, places=40))
def test_charges_round_up_and_limits_down_at_any_number_of_digits(value):
    exact = Fraction(value)
    assert nano_epsilon(value) == math.ceil(exact * 10**9)
    assert atto_delta(str(value)) == math.ceil(exact * 10**18)
    assert Budget.of(value, value) == Budget(math.floor(exact * 10**9), math.floor(exact * 10**18))


@given(st.integers(0, 10**40))
def test_whole_numbers_of_any_size_are_exact(value):
    assert nano_epsilon(value) == value * 10**9
    assert Budget.of(value).nano_epsilon == value * 10**9


@given(st.floats(0, 1e6))
def test_a_float_means_the_shortest_decimal_that_names_it(value):
    exact = Fraction(Decimal(repr(value)))
    assert nano_epsilon(value) == math.ceil(exact * 10**9)
    assert Budget.of(value).nano_epsilon == math.floor(exact * 10**9)
    assert Budget.of(value).nano_epsilon <= nano_epsilon(value)


def test_somebody_elses_decimal_context_changes_nothing():
    cost = Cost(123_456_789, 987_654_321)
    before = nano_epsilon("0.123456789123"), Budget.of("0.123456789123"), cost.for_person(5)
    with decimal.localcontext() as context:
        context.prec = 3
        context.rounding = decimal.ROUND_DOWN
        assert (nano_epsilon("0.123456789123"), Budget.of("0.123456789123"), cost.for_person(5)) == before


@pytest.mark.parametrize("value", [*NOT_A_COST, *NOT_A_NUMBER])
def test_what_is_no_privacy_parameter_is_refused(value):
    for use in (nano_epsilon, atto_delta, Budget.of, lambda v: Budget.of(1, v)):
        with pytest.raises(InvalidEpsilon) as caught:
            use(value)
        assert caught.value.cause
        assert caught.value.fix


@pytest.mark.parametrize("value", [*NOT_A_COST, *NOT_A_NUMBER, 0, 0.0, -0.0, Decimal(1), "1"])
def test_check_epsilon_refuses(value):
    with pytest.raises(InvalidEpsilon, match="my epsilon") as caught:
        check_epsilon(value, "my epsilon")
    assert caught.value.fix


@given(st.floats(0, exclude_min=True, allow_infinity=False))
def test_check_epsilon_accepts(value):
    assert check_epsilon(value) == value


@pytest.mark.parametrize("value", [math.nan, math.inf, 0, 1, 1.0, -0.1, True, "0.1", None])
def test_check_delta_refuses(value):
    with pytest.raises(InvalidEpsilon):
        check_delta(value)


@pytest.mark.parametrize("value", [5e-324, 1e-9, 0.5, np.nextafter(1, 0)])
def test_check_delta_accepts(value):
    assert check_delta(value) == value


@pytest.mark.parametrize("amount", [math.nan, math.inf, 1.0, -1, True, None, "1"])
def test_a_cost_or_budget_holds_whole_numbers_only(amount):
    for kind in (Cost, Budget):
        with pytest.raises(InvalidEpsilon):
            kind(amount)
        with pytest.raises(InvalidEpsilon):
            kind(1, amount)


def test_costs_add_up():
    assert Cost(3, 5) + Cost(4) == Cost(7, 5)
    assert sum([Cost(1, 1)] * 4, Cost(0)) == Cost(4, 4)
    assert Cost(100_000_000).epsilon == 0.1
    assert Cost(0, 10**12).delta == 1e-6


@given(nano=st.integers(0, 10**12), records=st.integers(1, 50))
def test_a_pure_cost_for_a_person_is_a_multiple(nano, records):
    assert Cost(nano).for_person(records) == Cost(records * nano)


@given(nano=st.integers(0, 5 * 10**9), atto=st.integers(1, 10**14), records=st.integers(1, 8))
def test_an_approximate_cost_for_a_person_covers_every_step_of_the_chain(nano, atto, records):
    """Walking from D to D' one record at a time adds delta, e^eps delta, e^(2 eps) delta, ..."""
    person = Cost(nano, atto).for_person(records)
    chain = math.fsum(atto * math.exp(i * nano / 1e9) for i in range(records))
    printed = records * atto * math.exp((records - 1) * nano / 1e9)
    assert person.nano_epsilon == records * nano
    assert person.atto_delta >= min(chain, 10**18) * (1 - 1e-12)
    assert person.atto_delta == pytest.approx(min(printed, 10**18), rel=1e-12, abs=1)
    assert person.atto_delta >= math.floor(min(printed, 10**18) * (1 - 1e-12))


def test_one_record_is_as_it_was():
    assert Cost(5, 7).for_person(1) == Cost(5, 7)


def test_group_delta_is_rounded_up():
    assert Cost(1, 1).for_person(2) == Cost(2, 3)  # 2 e^(1e-9) is a little above 2


def test_a_delta_of_one_is_the_most_there_is():
    assert Cost(10**10, 10**12).for_person(200) == Cost(200 * 10**10, 10**18)
    assert Cost(10**16, 10**12).for_person(200).atto_delta == 10**18


@pytest.mark.parametrize("records", [0, -1, 1.5, math.nan, math.inf, True, None])
def test_a_person_has_a_whole_number_of_records(records):
    with pytest.raises(InvalidEpsilon) as caught:
        Cost(1, 1).for_person(records)
    assert caught.value.fix


def test_there_is_one_non_private():
    assert NonPrivate() is NON_PRIVATE
    assert pickle.loads(pickle.dumps(NON_PRIVATE)) is NON_PRIVATE
    assert repr(NON_PRIVATE) == "NON_PRIVATE"
    with pytest.raises(InvalidEpsilon):
        check_epsilon(NON_PRIVATE)


def test_costs_and_budgets_cannot_be_changed():
    for value in (Cost(1), Budget(1)):
        with pytest.raises(AttributeError):
            value.nano_epsilon = 0
