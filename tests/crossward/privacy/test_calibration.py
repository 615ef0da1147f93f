"""Calibration against printed vectors and against the same formula in decimals of sixty digits."""

from __future__ import annotations

import math
import re
from decimal import Decimal, localcontext
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from crossward.errors import (
    InvalidEpsilon,
    InvalidImportance,
    InvalidInput,
    InvalidRegularisation,
    InvalidSetting,
    TooFewRecords,
)
from crossward.privacy.calibration import Calibration, calibrate, check_importance, check_lambda, check_records

GOOD = {"n": 1000, "epsilon": 1.0, "lam": [0.01, 0.02], "q": [0.5, 0.5]}


def price(calibration: Calibration) -> Decimal:
    """The Jacobian's part of epsilon: the logarithm of one product, in sixty digits."""
    with localcontext() as context:
        context.prec = 60
        product = Decimal(1)
        for lam, delta, q in zip(calibration.lam, calibration.delta, calibration.q, strict=True):
            strength = calibration.n * (Decimal(lam) + Decimal(delta))
            product *= (1 + Decimal(calibration.curvature) * Decimal(q) ** 2 / strength) ** 2
        return product.ln()


def loss_bound(calibration: Calibration) -> float:
    """What the proof gives for these numbers: eps'/2 times the shifts 2 q_k of the gradients, and the Jacobian."""
    with localcontext() as context:
        context.prec = 60
        shifts = sum(2 * Decimal(q) for q in calibration.q)
        return float(Decimal(calibration.epsilon_prime) / 2 * shifts + price(calibration))


@st.composite
def problems(draw: st.DrawFn) -> dict:
    groups = draw(st.integers(1, 6))
    shares = draw(st.lists(st.floats(0.001, 1), min_size=groups, max_size=groups))
    total = sum(shares) / draw(st.floats(0.1, 1))
    n = draw(st.integers(1, 10**6))
    return {
        "n": n,
        "epsilon": max(draw(st.floats(0.001, 20)), 1.01 / n),
        "lam": draw(st.lists(st.floats(1e-6, 10), min_size=groups, max_size=groups)),
        "q": [share / total for share in shares],
        "curvature": draw(st.sampled_from([0.25, 0.5, 1.0, 5.0])),
    }


def needs_delta(problem: dict) -> bool:
    return any(calibrate(**problem).delta)


@pytest.mark.parametrize(
    ("problem", "delta", "epsilon_prime"),
    [
        ({"n": 1000, "epsilon": 1.0, "lam": 0.01, "q": 1.0}, [0], 0.9506148),
        ({"n": 100, "epsilon": 0.1, "lam": 0.001, "q": 1.0}, [0.09775521], 0.05),
        ({"n": 100, "epsilon": 0.5, "lam": [0.001, 0.05], "q": [0.7, 0.3]}, [0.01239643, 0], 0.3160202),
        ({"n": 10_000, "epsilon": 1.0, "lam": [1e-3] * 3, "q": [0.5, 0.3, 0.2]}, [0, 0, 0], 0.9810450),
    ],
)
def test_printed_vectors(problem, delta, epsilon_prime):
    calibration = calibrate(**problem)
    assert calibration.delta == pytest.approx(delta, abs=5e-9)
    assert calibration.epsilon_prime == pytest.approx(epsilon_prime, abs=5e-8)
    assert calibration.noise_scale() == pytest.approx(2 / epsilon_prime, rel=1e-6)


def test_one_group_is_the_formula_as_the_paper_prints_it():
    n, lam, epsilon = 700, 0.003, 2.0
    printed = epsilon - math.log(1 + 1 / (2 * n * lam) + 1 / (16 * n**2 * lam**2))
    assert calibrate(n, epsilon, lam).epsilon_prime == pytest.approx(printed, rel=1e-12)


@given(problems())
def test_noise_and_jacobian_add_up_to_epsilon(problem):
    calibration = calibrate(**problem)
    assert calibration.epsilon_prime + float(price(calibration)) == pytest.approx(problem["epsilon"], rel=1e-12)
    assert loss_bound(calibration) <= problem["epsilon"] * (1 + 1e-11)


@given(problems())
def test_a_tight_jacobian_costs_half_and_leaves_at_least_half(problem):
    calibration = calibrate(**problem, jacobian="tight")
    left = problem["epsilon"] - float(price(calibration)) / 2
    assert calibration.epsilon_prime == pytest.approx(left, rel=1e-9)
    assert calibration.epsilon_prime >= problem["epsilon"] / 2 * (1 - 1e-9)
    published = calibrate(**problem)
    if not any(published.delta):
        assert calibration.epsilon_prime >= published.epsilon_prime
    assert all(ours <= theirs for ours, theirs in zip(calibration.delta, published.delta, strict=True))


def test_another_jacobian_is_refused():
    with pytest.raises(InvalidSetting, match="published"):
        calibrate(**GOOD, jacobian="none")


@given(problems())
def test_extra_regularisation_is_the_formula_and_never_negative(problem):
    calibration = calibrate(**problem)
    assert calibration.epsilon_prime > 0
    assert all(delta >= 0 for delta in calibration.delta)
    if not any(calibration.delta):
        return
    assert calibration.epsilon_prime >= problem["epsilon"] / 2 * (1 - 1e-9)
    with localcontext() as context:
        context.prec = 60
        for lam, q, delta in zip(problem["lam"], problem["q"], calibration.delta, strict=True):
            growth = (Decimal(problem["epsilon"]) * Decimal(q) / 4).exp() - 1
            wanted = Decimal(problem["curvature"]) * Decimal(q) ** 2 / (problem["n"] * growth)
            assert lam + delta == pytest.approx(float(max(wanted, Decimal(lam))), rel=1e-9)


@given(problems())
def test_extra_regularisation_starts_where_the_jacobian_takes_half(problem):
    calibration = calibrate(**problem)
    plain = Calibration(
        problem["n"],
        problem["epsilon"],
        0.0,
        [0.0] * len(problem["q"]),
        problem["lam"],
        problem["q"],
        problem["curvature"],
    )
    left = problem["epsilon"] - float(price(plain))
    assume(abs(left - problem["epsilon"] / 2) > 1e-9)
    assert any(calibration.delta) == (left < problem["epsilon"] / 2)
    assert calibration.epsilon_prime >= problem["epsilon"] / 2 * (1 - 1e-9)


def test_one_record_more_never_makes_a_cliff():
    """As printed, 386 records at eps 1, lambda .001 needed noise four hundred times that of 385."""
    scales = [calibrate(n, 1.0, 0.001).noise_scale() for n in range(300, 3000)]
    assert max(scales) <= 4.0 * (1 + 1e-9)
    assert all(after <= before * (1 + 1e-9) for before, after in pairwise(scales))


@given(problem=problems(), factor=st.integers(2, 50))
def test_more_records_never_need_more_noise_within_a_branch(problem, factor):
    few, many = calibrate(**problem), calibrate(**(problem | {"n": factor * problem["n"]}))
    assert all(after <= before for before, after in zip(few.delta, many.delta, strict=True))
    assume(any(few.delta) == any(many.delta))
    assert many.epsilon_prime >= few.epsilon_prime * (1 - 1e-9)


@given(problem=problems(), factor=st.floats(1.01, 50))
def test_a_larger_epsilon_never_needs_more_noise_within_a_branch(problem, factor):
    small, large = calibrate(**problem), calibrate(**(problem | {"epsilon": factor * problem["epsilon"]}))
    assert all(after <= before for before, after in zip(small.delta, large.delta, strict=True))
    assume(any(small.delta) == any(large.delta))
    assert large.epsilon_prime >= small.epsilon_prime * (1 - 1e-9)


@given(problems())
def test_the_strength_is_what_the_solver_and_the_release_step_use(problem):
    calibration = calibrate(**problem)
    for k, (lam, delta) in enumerate(zip(calibration.lam, calibration.delta, strict=True)):
        assert calibration.strength(k) == pytest.approx(problem["n"] * (lam + delta))


# -- the formulas as printed, which must each break something ---------------------------------------------------------
@settings(max_examples=50)
@given(problems())
def test_printed_slip_paying_nothing_for_the_jacobian(problem):
    calibration = calibrate(**(problem | {"q": [q / math.fsum(problem["q"]) for q in problem["q"]]}))
    slip = _with(calibration, epsilon_prime=problem["epsilon"])
    assert loss_bound(slip) > problem["epsilon"] + float(price(calibration)) * (1 - 1e-6)


def test_printed_slip_delta_that_may_be_negative():
    problem = {"n": 100, "epsilon": 0.5, "lam": [0.001, 0.05], "q": [0.7, 0.3]}
    unclamped = [
        0.25 * q**2 / (problem["n"] * math.expm1(problem["epsilon"] * q / 4)) - lam
        for lam, q in zip(problem["lam"], problem["q"], strict=True)
    ]
    slip = _with(calibrate(**problem), delta=unclamped)
    assert slip.strength(1) < problem["n"] * problem["lam"][1] / 2
    assert calibrate(**problem).strength(1) == problem["n"] * problem["lam"][1]
    assert loss_bound(slip) > problem["epsilon"]  # with eps' as it is when clamped


def test_printed_slip_a_full_epsilon_for_each_group():
    each = [calibrate(1000, 1.0, 0.01, 1.0) for _ in range(3)]
    together = sum(loss_bound(one) for one in each)
    assert together == pytest.approx(3.0)
    assert loss_bound(calibrate(1000, 1.0, [0.01] * 3, [1 / 3] * 3)) <= 1.0 + 1e-12


def test_printed_slip_a_density_that_grows_with_the_noise():
    # exp(+eps' |b| / 2) has no integral; what is used is the scale of a decaying exponential.
    assert calibrate(**GOOD).noise_scale() > 0


def test_planted_faults_break_the_bound():
    problem = {"n": 50, "epsilon": 0.5, "lam": [0.001, 0.002], "q": [0.6, 0.4]}
    good = calibrate(**problem)
    assert loss_bound(good) <= 0.5 * (1 + 1e-12)
    assert loss_bound(_with(good, delta=[0.0, 0.0])) > 0.5
    assert loss_bound(_with(good, q=[1.0, 1.0])) > 0.5
    assert loss_bound(_with(good, n=10)) > 0.5
    assert loss_bound(_with(good, curvature=1.0)) > 0.5


def _with(calibration: Calibration, **changes: object) -> Calibration:
    fields = {name: getattr(calibration, name) for name in Calibration.__slots__}
    return Calibration(**(fields | changes))


# -- refusals ---------------------------------------------------------------------------------------------------------
NOT_POSITIVE = [math.nan, math.inf, -math.inf, 0, 0.0, -1.0, True, None, "1", pytest.param(10**400, id="10^400")]


@pytest.mark.parametrize("epsilon", [*NOT_POSITIVE, np.float32(1)])
def test_a_bad_epsilon_is_refused(epsilon):
    _refused(InvalidEpsilon, epsilon=epsilon)


@pytest.mark.parametrize("lam", NOT_POSITIVE)
def test_a_bad_lambda_is_refused(lam):
    _refused(InvalidRegularisation, lam=[0.01, lam])
    with pytest.raises(InvalidRegularisation):
        check_lambda(lam)


@pytest.mark.parametrize(
    "q",
    [
        [0.5, math.nan],
        [0.5, math.inf],
        [0.5, -math.inf],
        [0.5, -0.1],
        [0.0, 0.0],
        [0.5, 0.5001],
        [0.5, 0.5 + 1e-11],
        [True, 0.0],
        [0.5, None],
        [0.5, "x"],
        [0.5, "0.5"],
        [],
    ],
)
def test_bad_importances_are_refused(q):
    _refused(InvalidImportance, q=q)
    with pytest.raises(InvalidImportance):
        check_importance(q)


@pytest.mark.parametrize("curvature", NOT_POSITIVE)
def test_a_bad_curvature_is_refused(curvature):
    _refused(InvalidSetting, curvature=curvature)


@pytest.mark.parametrize("n", [0, -5, True, 2.0, math.nan, math.inf, None, "10"])
def test_a_bad_record_count_is_refused(n):
    _refused(TooFewRecords, n=n)


def test_lengths_that_differ_are_refused():
    _refused(InvalidSetting, q=[1.0])
    _refused(InvalidSetting, lam=0.01)


@pytest.mark.parametrize("epsilon", [1e-3, 1e-300, 5e-324])
def test_too_few_records_for_epsilon_are_refused(epsilon):
    _refused(TooFewRecords, n=999, epsilon=epsilon)


@given(n=st.integers(1, 10**5), epsilon=st.floats(1e-6, 1e-5))
@example(n=48, epsilon=1 / 49)
@example(n=300 - 1, epsilon=1 / 300)
def test_the_advice_on_too_few_records_can_be_followed(n, epsilon):
    assume(n * epsilon < 1 - 1e-9)  # what is closer is taken for 1: rounding may have made it so
    with pytest.raises(TooFewRecords) as caught:
        check_records(n, epsilon)
    records, raised = re.fullmatch(
        r"Bring at least (\d+) records, or raise epsilon to (\S+) or more\.", caught.value.fix
    ).groups()
    assert check_records(int(records), epsilon)
    assert check_records(n, float(raised))
    assert int(records) <= 1 / epsilon + 2
    assert float(raised) <= 1.0101 / n


@pytest.mark.parametrize("denominator", [49, 98, 103, 107])
def test_a_record_count_of_one_over_epsilon_is_enough(denominator):
    assert check_records(denominator, 1 / denominator) == denominator


def _refused(error: type[InvalidInput], **change: object) -> None:
    with pytest.raises(error) as caught:
        calibrate(**(GOOD | change))
    assert len(caught.value.cause) > 10
    assert len(caught.value.fix) > 5
    assert caught.value.cause in str(caught.value)
    assert caught.value.fix in str(caught.value)


# -- what is let through ----------------------------------------------------------------------------------------------
def test_importances_divided_by_their_sum_are_let_through():
    for groups in (3, 7, 11, 13):
        assert calibrate(1000, 1.0, [0.01] * groups, [1 / groups] * groups).epsilon_prime > 0
    shares = np.array([0.3, 0.1, 0.7, 1.3])
    assert check_importance(shares / shares.sum()) == (shares / shares.sum()).tolist()


def test_numbers_of_numpy_are_numbers():
    assert calibrate(np.int64(1000), np.float64(1.0), np.array([0.01, 0.02]), np.array([0.5, 0.5])) == calibrate(**GOOD)


@pytest.mark.parametrize("q", [0.0, 5e-324, 1e-200, 1e-100])
def test_a_group_of_no_weight_pays_nothing(q):
    one = calibrate(50, 0.5, [0.001], [1.0])
    two = calibrate(50, 0.5, [0.001, 0.001], [1.0, q])
    assert two.epsilon_prime == pytest.approx(one.epsilon_prime)
    assert two.delta[0] == one.delta[0]
    assert two.delta[1] == 0 or q == 1e-100


@pytest.mark.parametrize("lam", [5e-324, 1e-308, 1e300])
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 700.0, 3000.0, 1e300])
def test_extreme_settings_stay_finite(lam, epsilon):
    calibration = calibrate(10_000, epsilon, lam)
    assert 0 < calibration.epsilon_prime <= epsilon
    assert math.isfinite(calibration.noise_scale())
    assert math.isfinite(calibration.strength(0))


def test_a_calibration_cannot_be_changed():
    with pytest.raises(AttributeError):
        calibrate(**GOOD).epsilon_prime = 5.0
