"""The solver against independent truths: scipy's trust region, scikit-learn, closed forms, the certificate itself."""

from __future__ import annotations

import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize as scipy_minimize
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_info, threadpool_limits

from crossward.errors import InvalidSetting, NotConverged, NotFinite, WrongShape
from crossward.learning import workers as workers_module
from crossward.learning.losses import LOGISTIC, Huber, Loss
from crossward.learning.records import Ball, Records
from crossward.learning.solver import Solution, minimise, rounding, solve
from crossward.learning.solver.blocked import Blocked
from crossward.learning.solver.dense import Dense, Sample
from crossward.learning.solver.descent import Curvature, descend
from crossward.learning.workers import ALONE, workers
from crossward.privacy.noise import Array

LOSSES = [LOGISTIC, Huber(), Huber(0.05)]
TOLERANCE = 1e-4


def draw(n: int, d: int, seed: int = 0, *, noise: float = 1.0) -> tuple[Array, Array]:
    """Records and labels of a logistic model; without noise they are separable."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    score = X @ rng.standard_normal(d)
    y = np.where(score + noise * rng.logistic(size=n) > 0, 1.0, -1.0)
    return X, y


def exact_gradient(records: Records, loss: Loss, linear: Array, ridge: float, w: Array) -> Array:
    """The gradient by one sum over all records, correctly rounded in each coordinate."""
    Z = records.dense()
    terms = loss.slope(Z @ w)[:, None] * Z
    return np.array([math.fsum(column) for column in terms.T]) + linear + ridge * w


def assert_solved(
    records: Records, loss: Loss, linear: Array, ridge: float, solution: Solution, tolerance: float = TOLERANCE
) -> None:
    gradient = exact_gradient(records, loss, linear, ridge, solution.w)
    assert np.linalg.norm(gradient) <= solution.gradient_norm <= tolerance
    assert solution.passes >= 1


def truth(records: Records, loss: Loss, linear: Array, ridge: float) -> Array:
    Z = records.dense()
    return scipy_minimize(
        lambda w: loss.value(Z @ w).sum() + linear @ w + ridge / 2 * w @ w,
        np.zeros(records.dimension),
        jac=lambda w: loss.slope(Z @ w) @ Z + linear + ridge * w,
        hess=lambda w: (Z.T * loss.bend(Z @ w)) @ Z + ridge * np.eye(len(w)),
        method="trust-exact",
        options={"gtol": 1e-9, "maxiter": 2000},
    ).x


# -- the minimum is the minimum --------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize(("n", "d"), [(30, 4), (2000, 6), (20_000, 6)])
def test_agrees_with_a_trust_region(loss: Loss, n: int, d: int) -> None:
    X, y = draw(n, d)
    ball = Ball(radius=2.0, scale=tuple(np.linspace(0.5, 2.0, d)), intercept=0.5)
    records = Records.inside(ball, X, y)
    linear, ridge = np.linspace(-3, 3, d + 1), 1.0 + n / 1000
    solution = minimise(records, loss, linear, ridge, 1e-6)
    assert np.linalg.norm(solution.w - truth(records, loss, linear, ridge)) <= 2e-6 / ridge


def test_agrees_with_scikit_learn() -> None:
    X, y = draw(30_000, 12)
    records = Records.inside(Ball(radius=3.0), X, y)
    ridge = 3.0
    model = LogisticRegression(C=1 / ridge, fit_intercept=False, solver="newton-cholesky", tol=1e-9, max_iter=200)
    model.fit(records.dense() * y[:, None], y)
    solution = minimise(records, LOGISTIC, np.zeros(12), ridge, 1e-6)
    np.testing.assert_allclose(solution.w, model.coef_[0], rtol=1e-6, atol=1e-7)


def test_without_bend_the_minimum_is_a_ridge_step() -> None:
    """Huber far below its kink has slope -1, so w = (sum z - linear) / ridge."""
    Z = np.array([[0.5, 0.0], [0.0, 0.25], [0.5, 0.5]])
    linear, ridge = np.array([0.1, -0.2]), 1e3
    solution = minimise(Records.of(Z), Huber(), linear, ridge, 1e-9)
    np.testing.assert_allclose(solution.w, (Z.sum(axis=0) - linear) / ridge, rtol=1e-12)


def test_one_record_one_weight() -> None:
    """z = 1, ridge r: w solves 1/(1 + exp(w)) = r w; at r = 1/(2 (1 + e^2)) that is w = 2."""
    ridge = 1 / (2 * (1 + math.exp(2.0)))
    solution = minimise(Records.of(np.ones((1, 1))), LOGISTIC, np.zeros(1), ridge, 1e-10)
    assert solution.w[0] == pytest.approx(2.0, abs=1e-8)


@settings(max_examples=150, deadline=None)
@given(
    n=st.integers(1, 60),
    d=st.integers(1, 8),
    seed=st.integers(0, 10**6),
    ridge=st.floats(-6, 3).map(lambda e: 10.0**e),
    noise=st.floats(0, 50),
    loss=st.sampled_from(LOSSES),
    separable=st.booleans(),
)
def test_always_reaches_its_tolerance(
    n: int, d: int, seed: int, ridge: float, noise: float, loss: Loss, separable: bool
) -> None:
    X, y = draw(n, d, seed, noise=0.0 if separable else 1.0)
    records = Records.inside(Ball(radius=1.0), X, y)
    linear = noise * np.random.default_rng(seed).standard_normal(d) / math.sqrt(d)
    if ridge < 1e-3:
        linear *= ridge  # else the weights are of the size 1/ridge, and rounding alone exceeds the tolerance
    assert_solved(records, loss, linear, ridge, minimise(records, loss, linear, ridge, TOLERANCE))


# -- data as they come -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize(
    "order", ["by label", "by margin", "repeated", "every 7th row differs", "one class but one", "all rows equal"]
)
def test_the_order_of_rows_never_matters(loss: Loss, order: str) -> None:
    n, d = 16_000, 5
    X, y = draw(n, d)
    if order == "by label":
        X, y = X[np.argsort(y, kind="stable")], np.sort(y)
    elif order == "by margin":
        rank = np.argsort(y * X[:, 0])
        X, y = X[rank], y[rank]
    elif order == "repeated":
        X, y = np.repeat(X[:100], 160, axis=0), np.repeat(y[:100], 160)
    elif order == "every 7th row differs":
        X[::7] = np.eye(d)[0]
        y[::7] = 1.0
    elif order == "one class but one":
        y[:] = 1.0
        y[123] = -1.0
    else:
        X[:] = X[0]
    records = Records.inside(Ball(radius=2.0), X, y)
    linear = np.ones(d)
    assert_solved(records, loss, linear, 1.0, minimise(records, loss, linear, 1.0, TOLERANCE))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("n", [40, 9000])
@pytest.mark.parametrize("kind", ["separable, tiny ridge", "badly scaled", "equal columns", "zero column"])
def test_hard_problems(loss: Loss, n: int, kind: str) -> None:
    X, y = draw(n, 4, noise=0.0 if kind.startswith("separable") else 1.0)
    ridge = 1e-6 if kind.startswith("separable") else 1e-2
    if kind == "badly scaled":
        X *= [1e-6, 1e-2, 1.0, 1e4]
    elif kind == "equal columns":
        X[:, 1] = X[:, 0]
    elif kind == "zero column":
        X[:, 2] = 0.0
    records = Records.inside(Ball(radius=2.0), X, y)
    assert_solved(records, loss, np.zeros(4), ridge, minimise(records, loss, np.zeros(4), ridge, TOLERANCE))


def layouts(X: Array) -> dict[str, np.ndarray]:
    wide = np.zeros((len(X), 3 * X.shape[1]))
    wide[:, 1 : 1 + X.shape[1]] = X
    spread = np.zeros((2 * len(X), 2 * X.shape[1]))
    spread[::2, ::2] = X
    return {
        "as it is": X,
        "Fortran": np.asfortranarray(X),
        "a slice of columns": wide[:, 1 : 1 + X.shape[1]],
        "every other row and column": spread[::2, ::2],
        "backwards": X[::-1].copy()[::-1],
        "read-only": np.frombuffer(X.tobytes()).reshape(X.shape),
    }


@pytest.mark.parametrize("n", [50, 12_000])
@pytest.mark.parametrize("layout", layouts(np.zeros((2, 2))))
def test_the_layout_of_the_matrix_never_matters(n: int, layout: str) -> None:
    X, y = draw(n, 6)
    ball = Ball(radius=2.0, intercept=1.0)
    plain = minimise(Records.inside(ball, X, y), LOGISTIC, np.ones(7), 2.0, 1e-6)
    other = minimise(Records.inside(ball, layouts(X)[layout], y), LOGISTIC, np.ones(7), 2.0, 1e-6)
    assert np.linalg.norm(plain.w - other.w) <= 1e-6


@pytest.mark.parametrize("n", [50, 12_000])
def test_columns_in_any_order(n: int) -> None:
    X, y = draw(n, 6)
    columns = (4, 0, 3)
    gathered = Records.inside(Ball(radius=2.0, columns=columns), X, y)
    copied = Records.inside(Ball(radius=2.0), X[:, columns], y)
    np.testing.assert_allclose(gathered.dense(), copied.dense(), rtol=1e-15)
    np.testing.assert_allclose(gathered.margins(np.arange(3.0)), copied.dense() @ np.arange(3.0), atol=1e-14)
    ours, theirs = (minimise(r, LOGISTIC, np.ones(3), 2.0, 1e-6) for r in (gathered, copied))
    assert np.linalg.norm(ours.w - theirs.w) <= 1e-6


def test_float32_is_read_as_the_numbers_it_holds() -> None:
    X, y = draw(12_000, 6)
    single = X.astype(np.float32)
    records = Records.inside(Ball(radius=2.0), single, y)
    twin = Records.inside(Ball(radius=2.0), single.astype(np.float64), y)
    np.testing.assert_array_equal(records.dense(), twin.dense())
    solution = minimise(records, LOGISTIC, np.ones(6), 2.0, 1e-7)
    assert_solved(twin, LOGISTIC, np.ones(6), 2.0, solution, 1e-7)


# -- records ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("n", [5, 9000])
def test_records_refuse_what_is_not_finite(wrong: float, n: int) -> None:
    X, _ = draw(n, 20)
    X[n // 2, 3] = wrong
    with pytest.raises(NotFinite):
        Records.inside(Ball(radius=1.0), X).dense()


def test_records_refuse_columns_they_do_not_have() -> None:
    with pytest.raises(WrongShape):
        Records.inside(Ball(radius=1.0, columns=(0, 2)), np.zeros((3, 2)))
    with pytest.raises(WrongShape):
        Records.inside(Ball(radius=1.0, scale=(1.0,)), np.zeros((3, 2)))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    spread=st.floats(0, 300),
    q=st.floats(0.01, 1),
    intercept=st.sampled_from([0.0, 0.5]),
)
def test_records_are_inside_their_ball(seed: int, spread: float, q: float, intercept: float) -> None:
    """Also where squares overflow; checked in rational arithmetic."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((4, 3)) * 10.0 ** rng.uniform(-spread, spread, size=(4, 1))
    Z = Records.inside(Ball(radius=1.5, q=q, intercept=intercept), X).dense()
    for z in Z:
        assert sum(Fraction(v) ** 2 for v in z) <= Fraction(q) ** 2
    far = np.linalg.norm(X / 1e160, axis=1) > 1
    if intercept == 0.0:
        np.testing.assert_allclose(np.linalg.norm(Z[far], axis=1), q, rtol=1e-9)


def test_thinning_takes_every_row_in_turn() -> None:
    X, y = draw(100, 3)
    records = Records.inside(Ball(radius=1.0, columns=(2, 0), intercept=1.0), X, y)
    np.testing.assert_array_equal(records.some(slice(None, None, 7)).dense(), records.dense()[::7])


# -- the two ways to compute F ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("threaded", [0, 1 << 40], ids=["blocks", "one block"])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_blocks_and_one_array_agree(loss: Loss, threaded: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "THREADED_BYTES", threaded)
    X, y = draw(9000, 3)
    records = Records.inside(Ball(radius=1.0, scale=(1.0, 2.0, 0.5), intercept=0.3), X, y)
    assert (records.block_count > 1) == (threaded == 0)
    linear, w, step = np.arange(4.0), np.linspace(-1, 2, 4), np.linspace(3, -1, 4)
    one, many = Dense(records, loss, linear, 0.7), Blocked(records, loss, linear, 0.7, ALONE)
    np.testing.assert_allclose(one.gradient(w), many.gradient(w), atol=1e-9)
    np.testing.assert_allclose(one.hessian(w), many.hessian(w), atol=1e-9)
    for t in (0.0, 0.5, 2.0):
        slope = float(one.gradient(w + t * step) @ step)
        assert one.along(w, step)(t) == pytest.approx(slope, abs=1e-8)
        assert many.along(w, step)(t) == pytest.approx(slope, abs=1e-8)


@pytest.mark.parametrize("offset", [0.0, -1.5])
def test_a_sample_of_every_record_is_the_whole_but_for_its_digits(offset: float) -> None:
    X, y = draw(5000, 3)
    records = Records.inside(Ball(radius=1.0, scale=(1.0, 2.0, 0.5), intercept=0.3, offset=offset), X, y)
    linear, w, step = np.arange(4.0), np.linspace(-1, 2, 4), np.linspace(3, -1, 4)
    whole, sample = Dense(records, LOGISTIC, linear, 0.7), Sample.of(records, 1, LOGISTIC, linear, 0.7, ALONE)
    np.testing.assert_allclose(sample.gradient(w), whole.gradient(w), atol=0.01)
    np.testing.assert_allclose(sample.hessian(w), whole.hessian(w), atol=0.01)
    assert sample.along(w, step)(0.5) == pytest.approx(whole.along(w, step)(0.5), abs=0.05)
    half, every_other = sample.thinned(2), Dense(records.some(slice(None, None, 2)), LOGISTIC, linear / 2, 0.35)
    np.testing.assert_allclose(half.gradient(w), 2 * every_other.gradient(w), atol=0.01)


def test_records_too_long_for_single_precision_are_sampled_as_they_are_inside() -> None:
    X = np.array([[3e90, 4e90], [-3e60, 4e60]])
    Z = Records.inside(Ball(radius=1.0), X).single(ALONE)
    np.testing.assert_allclose(Z, [[0.6, 0.8], [-0.6, 0.8]], rtol=1e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_derivatives_agree_with_differences(loss: Loss) -> None:
    X, y = draw(200, 3)
    F = Dense(Records.inside(Ball(radius=1.0), X, y), loss, np.arange(3.0), 0.7)
    w, h = np.array([0.3, -0.2, 0.1]), 1e-6
    differences = [(F.gradient(w + h * e) - F.gradient(w - h * e)) / (2 * h) for e in np.eye(3)]
    np.testing.assert_allclose(F.hessian(w), differences, atol=1e-4)


def test_corrections_give_the_secant() -> None:
    """After learning (s, y), B^{-1} y = s."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((20, 5))
    H = A.T @ A + np.eye(5)
    curvature = Curvature(np.eye(5))
    for _ in range(4):
        s = rng.standard_normal(5)
        curvature.learn(s, H @ s)
        np.testing.assert_allclose(curvature.step(-H @ s), s, atol=1e-9)


def test_a_hessian_that_rounding_made_singular_is_lifted() -> None:
    step = Curvature(np.full((3, 3), 1e8)).step(np.ones(3))
    assert np.all(np.isfinite(step))
    assert step.sum() < 0


# -- the certificate -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [LOGISTIC, Huber()], ids=lambda loss: loss.name)
@pytest.mark.parametrize("n", [7, 5000])
def test_rounding_stays_within_its_bound(loss: Loss, n: int) -> None:
    """Against extended precision where the platform has it, else against a correctly rounded sum."""
    X, y = draw(n, 3)
    records = Records.inside(Ball(radius=1.0), X, y)
    w = np.array([3.0, -20.0, 7.0])
    scale = np.concatenate([records.block(index)[1] for index in range(records.block_count)])
    Z = scale[:, None].astype(np.longdouble) * X.astype(np.longdouble)
    m = Z @ w.astype(np.longdouble)
    slope = -np.clip(1.5 - m, 0, 1) if isinstance(loss, Huber) else -1 / (1 + np.exp(m))
    exact = slope @ Z + 0.1 + 2.0 * w
    for F in (
        Dense(records, loss, np.full(3, 0.1), 2.0),
        Blocked(records, loss, np.full(3, 0.1), 2.0, ALONE),
    ):
        error = float(np.linalg.norm((F.gradient(w) - exact).astype(np.float64)))
        assert error <= F.rounding(w) <= 1e-7


def test_the_bound_says_what_the_documentation_says() -> None:
    w = np.zeros(50)
    w[0] = 10.0
    assert rounding.of_gradient(10**6, 5242, 1.0, 0.25, np.zeros(50), 1.0, w) == pytest.approx(1.2e-6, rel=0.05)


@pytest.mark.parametrize("n", [10, 9000])
def test_a_tolerance_below_rounding_is_refused(n: int) -> None:
    X, y = draw(n, 3)
    with pytest.raises(NotConverged):
        minimise(Records.inside(Ball(radius=1.0), X, y), LOGISTIC, np.zeros(3), 1.0, 1e-14)


def test_rounding_alone_names_cause_and_fix() -> None:
    with pytest.raises(NotConverged, match=r"Rounding alone.*tolerance"):
        minimise(Records.of(np.ones((1, 1))), Huber(), np.array([1e12]), 1.0, 1e-4)


def test_a_start_that_is_not_finite_is_refused() -> None:
    with pytest.raises(NotConverged):
        minimise(Records.of(np.ones((2, 1))), LOGISTIC, np.zeros(1), 1.0, 1e-4, start=np.array([math.nan]))


def test_too_few_steps_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crossward.learning.solver.descent.MAX_STEPS", 1)
    with pytest.raises(NotConverged, match="stopped at a gradient"):
        minimise(Records.of(np.ones((3, 1))), LOGISTIC, np.zeros(1), 1e-3, 1e-9)


@pytest.mark.parametrize(("ridge", "tolerance"), [(0.0, 1e-4), (-1.0, 1e-4), (math.nan, 1e-4), (1.0, 0.0)])
def test_settings_must_be_positive(ridge: float, tolerance: float) -> None:
    with pytest.raises(InvalidSetting):
        minimise(Records.of(np.ones((3, 1))), LOGISTIC, np.zeros(1), ridge, tolerance)


# -- frugal ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "columns", [None, (*range(1, 50, 2), *range(0, 50, 2))], ids=["all columns", "shuffled columns"]
)
@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("order", ["C", "F"])
def test_nothing_of_the_size_of_the_data_is_made(columns: tuple[int, ...] | None, kind: type, order: str) -> None:
    X, y = draw(120_000, 50)
    X = X.astype(kind, order=order)  # type: ignore[call-overload]
    ball = Ball(radius=7.0, columns=columns)
    tracemalloc.start()
    try:
        with threadpool_limits(2):  # each thread holds a block or two
            minimise(Records.inside(ball, X, y), LOGISTIC, np.zeros(50), 100.0, TOLERANCE)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * X.size / 10


def test_few_passes() -> None:
    X, y = draw(60_000, 20)
    records = Records.inside(Ball(radius=4.0), X, y)
    first = minimise(records, LOGISTIC, np.zeros(20), 60.0, TOLERANCE)
    assert first.passes <= 9
    again = minimise(records, LOGISTIC, np.zeros(20), 60.0, TOLERANCE, start=first.w)
    assert again.passes <= 2
    np.testing.assert_array_equal(again.w, first.w)


# -- threads ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "THREADED_BYTES", 0)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_threads_change_nothing_but_time(loss: Loss, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = draw(60_000, 5)
    records = Records.inside(Ball(radius=1.0), X, y)
    with threadpool_limits(2):
        shared = minimise(records, loss, np.ones(5), 1.0, TOLERANCE)
        same = minimise(records, loss, np.ones(5), 1.0, TOLERANCE)
    np.testing.assert_array_equal(shared.w, same.w)
    assert_solved(records, loss, np.ones(5), 1.0, shared)
    monkeypatch.setattr(workers_module, "THREADED_BYTES", 1 << 40)
    alone = minimise(records, loss, np.ones(5), 1.0, TOLERANCE)
    assert np.linalg.norm(alone.w - shared.w) <= 2 * TOLERANCE


@pytest.mark.usefixtures("threads")
def test_an_error_in_a_thread_reaches_the_caller() -> None:
    X, _ = draw(60_000, 5)
    X[-1, -1] = math.nan
    with threadpool_limits(2), pytest.raises(NotFinite):
        Records.inside(Ball(radius=1.0), X).margins(np.ones(5))


def blas_threads() -> list[int]:
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_blas_gets_its_threads_back() -> None:
    with threadpool_limits(2, user_api="blas"):
        with workers(1 << 30) as first:
            assert set(blas_threads()) == {1}
            with workers(1 << 30) as second:
                assert first.count == second.count == 2
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {2}
    with threadpool_limits(1, user_api="blas"), workers(1 << 30) as alone:
        assert alone is ALONE


def test_a_rough_solution_that_fails_is_only_a_poor_start(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = draw(20_000, 4)
    records = Records.inside(Ball(radius=1.0), X, y)

    def only_the_whole(problem: Blocked | Sample, *rest: object, **options: object) -> object:
        if isinstance(problem, Sample):
            raise NotConverged("no")
        return descend(problem, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(solve, "descend", only_the_whole)
    assert_solved(records, LOGISTIC, np.ones(4), 1.0, minimise(records, LOGISTIC, np.ones(4), 1.0, TOLERANCE))
