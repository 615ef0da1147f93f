"""The scikit-learn face: its own checks, and what it promises beyond them."""

import pickle
import traceback
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

import crossward
from crossward.errors import (
    BudgetExceeded,
    EmptyData,
    InvalidBounds,
    InvalidData,
    InvalidEpsilon,
    InvalidImportance,
    InvalidRegularisation,
    InvalidSetting,
    NotFinite,
    OneClass,
    TooFewRecords,
    WrongShape,
)
from crossward.learning.estimators.base import LARGEST_EPSILON
from crossward.learning.estimators.logistic import PrivateLogisticRegression
from crossward.learning.estimators.stacking import PrivateStackingClassifier
from crossward.privacy.budget import NON_PRIVATE
from crossward.privacy.filters import Accountant

ESTIMATORS = [
    PrivateLogisticRegression(radius=3.0),
    PrivateLogisticRegression(bounds=(-5, 5), loss="huber"),
    PrivateLogisticRegression(radius=3.0, mechanism="dppsgd"),
    PrivateLogisticRegression(radius=3.0, mechanism="amp"),
    PrivateLogisticRegression(NON_PRIVATE, radius=3.0),
    PrivateStackingClassifier(radius=3.0),
    PrivateStackingClassifier(epsilon=5.0, radius=3.0, method="PST-S", n_groups=2),
    PrivateStackingClassifier(radius=3.0, combiner="C-mv", scores="sigmoid"),
]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5))
    return X, np.where(X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=3000) > 0.5, "ill", "well")


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_scikit_learns_own_checks(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Seeded: some of the checks would fit with fresh noise, and what they ask holds for almost all noise only.
        results = check_estimator(clone(estimator).set_params(random_state=0), on_fail=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed
    assert {r["check_name"] for r in results if r["status"] != "passed"} <= {"check_array_api_input"}
    assert len(results) > 50


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_fitting_says_what_it_cost(estimator, data):
    fitted = clone(estimator).fit(*data)
    assert fitted.privacy_spent_ == (fitted.release_.epsilon, fitted.release_.delta)
    if estimator.epsilon is not NON_PRIVATE:
        assert fitted.privacy_spent_.epsilon == estimator.epsilon
    assert (fitted.release_.delta > 0) == (getattr(estimator, "mechanism", "") == "amp")
    assert list(fitted.classes_) == ["ill", "well"]
    assert not fitted.release_.seeded
    assert clone(estimator).set_params(random_state=1).fit(*data).release_.seeded
    with pytest.raises(NotFittedError):
        _ = clone(estimator).privacy_spent_


def test_probabilities_are_of_the_classes_in_order(data):
    X, y = data
    model = PrivateLogisticRegression(5.0, radius=2.5, random_state=0).fit(X, y)
    assert roc_auc_score(y == "well", model.predict_proba(X)[:, 1]) > 0.9
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_the_operating_system_gives_fresh_noise_and_a_seed_repeats_it(data):
    fit = PrivateLogisticRegression(radius=2.5)
    assert not np.array_equal(clone(fit).fit(*data).weights_, clone(fit).fit(*data).weights_)
    fit = PrivateLogisticRegression(radius=2.5, random_state=3)
    np.testing.assert_array_equal(clone(fit).fit(*data).weights_, clone(fit).fit(*data).weights_)


@pytest.mark.parametrize("estimator", [PrivateLogisticRegression(), PrivateStackingClassifier()])
def test_missing_bounds_are_an_error_never_a_guess(estimator, data):
    with pytest.raises(InvalidBounds, match="radius") as refused:
        estimator.fit(*data)
    assert "leak" in refused.value.cause


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"epsilon": 0.0}, InvalidEpsilon),
        ({"epsilon": -1}, InvalidEpsilon),
        ({"epsilon": float("nan")}, InvalidEpsilon),
        ({"epsilon": float("inf")}, InvalidEpsilon),
        ({"epsilon": "1"}, InvalidEpsilon),
        ({"epsilon": None}, InvalidEpsilon),
        ({"epsilon": 1e10}, InvalidEpsilon),
        ({"epsilon": 1e10, "mechanism": "dppsgd"}, InvalidEpsilon),
        ({"epsilon": 1e-5}, TooFewRecords),
        ({"lam": 0}, InvalidRegularisation),
        ({"lam": -1.0}, InvalidRegularisation),
        ({"radius": -1.0}, InvalidBounds),
        ({"radius": float("nan")}, InvalidBounds),
        ({"bounds": (1, 1)}, InvalidBounds),
        ({"bounds": (2, 1)}, InvalidBounds),
        ({"bounds": (0, np.inf)}, InvalidBounds),
        ({"bounds": 3}, InvalidBounds),
        ({"bounds": ([0, 0], [1, 1])}, InvalidBounds),
        ({"loss": "hinge"}, InvalidSetting),
        ({"mechanism": "magic"}, InvalidSetting),
        ({"column_scale": [1.0]}, WrongShape),
        ({"prior": np.zeros(2)}, WrongShape),
        ({"prior": np.zeros(6), "eta": 2.0}, InvalidSetting),
        ({"prior": np.zeros(6), "eta": "a"}, InvalidSetting),
        ({"prior": "weights"}, InvalidSetting),
        ({"eta": 2}, InvalidSetting),
        ({"eta": -1}, InvalidSetting),
        ({"eta": float("nan")}, InvalidSetting),
        ({"eta": "a"}, InvalidSetting),
        ({"radius": "wide"}, InvalidBounds),
        ({"intercept_share": "half"}, InvalidSetting),
        ({"column_scale": "x"}, InvalidSetting),
        ({"column_scale": 2.0}, WrongShape),
        ({"random_state": "x"}, InvalidSetting),
        ({"random_state": -1}, InvalidSetting),
        ({"classes": ["ill"]}, InvalidSetting),
        ({"prior": np.zeros(6), "mechanism": "dppsgd"}, InvalidSetting),
        ({"prior": PrivateLogisticRegression(radius=2.5)}, InvalidSetting),
        ({"mechanism": "amp", "delta": 0.0}, InvalidEpsilon),
    ],
)
def test_bad_settings_are_named_and_nothing_is_charged(data, settings, error):
    account = Accountant.with_budget(10)
    model = PrivateLogisticRegression(radius=2.5, accountant=account).set_params(**settings)
    with pytest.raises(error) as refused:
        model.fit(*data)
    assert refused.value.cause
    assert isinstance(refused.value, ValueError)
    assert account.spent.releases == 0


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"method": "PST-X"}, InvalidSetting),
        ({"method": "PST-S", "source": "anything"}, InvalidSetting),
        ({"combiner": "C-x"}, InvalidSetting),
        ({"scores": "logit"}, InvalidSetting),
        ({"n_groups": 0}, InvalidSetting),
        ({"n_groups": 2.5}, InvalidSetting),
        ({"importance": [1.0, 2.0]}, WrongShape),
        ({"importance": [0.0] * 5}, InvalidImportance),
        ({"importance": [-1.0, 1, 1, 1, 1]}, InvalidImportance),
        ({"level1_share": 1.5}, InvalidSetting),
        ({"source": "anything"}, InvalidSetting),
        ({"source": PrivateStackingClassifier()}, InvalidSetting),
        ({"mix": "foo"}, InvalidSetting),
        ({"eta": 2}, InvalidSetting),
        ({"eta": "a"}, InvalidSetting),
        ({"epsilon": 1e10}, InvalidEpsilon),
        ({"lam": None}, InvalidRegularisation),
        ({"level1_lam": None}, InvalidRegularisation),
        ({"importance": "x"}, InvalidSetting),
        ({"level1_share": "x"}, InvalidSetting),
        ({"gain": None}, InvalidSetting),
        ({"prior": "x"}, InvalidSetting),
        ({"random_state": "x"}, InvalidSetting),
    ],
)
def test_bad_stacking_settings_are_named_and_nothing_is_charged(data, settings, error):
    account = Accountant.with_budget(10)
    with pytest.raises(error):
        PrivateStackingClassifier(radius=2.5, accountant=account).set_params(**settings).fit(*data)
    assert account.spent.releases == 0


@pytest.mark.parametrize("radius", [0, -1, float("nan"), float("inf"), "wide"])
def test_a_bad_radius_is_named_as_such(data, radius):
    for model in (PrivateLogisticRegression, PrivateStackingClassifier):
        with pytest.raises(InvalidBounds, match=r"^radius must be") as refused:
            model(radius=radius).fit(*data)
        assert refused.value.fix


def test_the_largest_epsilon_can_be_released(data):
    for model in (PrivateLogisticRegression, PrivateStackingClassifier):
        for lam in (0.001, 10.0):
            assert model(LARGEST_EPSILON, radius=2.5, lam=lam).fit(*data).privacy_spent_.epsilon == LARGEST_EPSILON


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda X, y: (np.where(X[0, 0] == X, np.nan, X), y), NotFinite),
        (lambda X, y: (np.where(X[0, 0] == X, -np.inf, X), y), NotFinite),
        (lambda X, y: (X[:0], y[:0]), EmptyData),
        (lambda X, y: (X[:, :0], y), EmptyData),
        (lambda X, y: (X, y[:-1]), WrongShape),
        (lambda X, y: (X, np.full(len(y), "ill")), OneClass),
        (lambda X, y: (X, np.arange(len(y)) % 3), InvalidData),
        (lambda X, y: (X, X[:, 0]), InvalidData),
        (lambda X, y: (X[:, 0], y), WrongShape),
        (lambda X, y: (X + 1j, y), InvalidData),
        (lambda X, y: (np.where(X > 0, "secret", "0.271828"), y), InvalidData),
    ],
)
def test_bad_records_are_named_and_nothing_is_charged(data, change, error):
    account = Accountant.with_budget(10)
    for model in (PrivateLogisticRegression, PrivateStackingClassifier):
        with pytest.raises(error) as refused:
            model(radius=2.5, accountant=account).fit(*change(*data))
        assert type(refused.value) is error
    assert account.spent.releases == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda X: X[:, 0],
        lambda X: X[0, 0],
        lambda X: X + 1j,
        lambda X: np.where(X[0, 0] == X, f"in words: {X[0, 0]:.5f}", X.astype(str)),
    ],
)
def test_no_record_stands_in_an_error(data, change):
    X, y = data
    fitted = PrivateLogisticRegression(radius=2.5).fit(X, y)
    for call in (lambda: PrivateLogisticRegression(radius=2.5).fit(change(X), y), lambda: fitted.predict(change(X))):
        with pytest.raises(InvalidData) as refused:
            call()
        assert f"{abs(X[0, 0]):.5f}" not in "".join(traceback.format_exception(refused.value))
    with pytest.raises(InvalidData) as refused:
        PrivateLogisticRegression(radius=2.5, classes=["ill", "other"]).fit(X, y)
    assert "well" not in str(refused.value)


@pytest.mark.parametrize("settings", [{}, {"method": "PST-S"}, {"epsilon": 0.5, "level1_share": 0.5}])
def test_too_few_records_to_stack_are_told_how_many_there_must_be_in_all(data, settings):
    X, y = data[0], np.arange(3000) % 2
    stack = PrivateStackingClassifier(radius=2.5, random_state=0).set_params(**settings)
    with pytest.raises(TooFewRecords, match=r"^3 records are too few .* in all") as refused:
        stack.fit(X[:3], y[:3])
    least = int(refused.value.fix.split()[3])
    stack.fit(X[:least], y[:least])
    with pytest.raises(TooFewRecords, match=f"^{least - 1} .* at least {least} records in all"):
        stack.fit(X[: least - 1], y[: least - 1])


def test_public_classes_are_kept_and_others_refused(data):
    X, y = data
    model = PrivateLogisticRegression(radius=2.5, classes=["well", "ill"]).fit(X, y)
    assert list(model.classes_) == ["well", "ill"]
    with pytest.raises(InvalidData, match="among") as refused:
        PrivateLogisticRegression(radius=2.5, classes=["yes", "no"]).fit(X, y)
    assert not isinstance(refused.value, OneClass)


@pytest.mark.parametrize("where", [{"radius": 50.0}, {"bounds": (-6, 8)}])
def test_coef_and_intercept_are_for_raw_features(data, where):
    X, y = data
    model = PrivateLogisticRegression(1.0, **where).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), X @ model.coef_[0] + model.intercept_, atol=1e-9)


def test_the_twin_matches_scikit_learn(data):
    X, y = data
    ours = PrivateLogisticRegression(NON_PRIVATE, radius=50.0, lam=1e-6, fit_intercept=False).fit(X, y)
    theirs = LogisticRegression(C=1 / (1e-6 * 3000 * 50.0**2), fit_intercept=False, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-3)


def test_clones_and_folds_share_one_budget(data):
    X, y = data
    account = Accountant.with_budget(3.0)
    model = PrivateLogisticRegression(1.0, radius=2.5, accountant=account)
    assert clone(model).accountant is account
    assert len(cross_val_score(model, X, y, cv=3)) == 3
    assert account.left == 0
    with pytest.raises(BudgetExceeded):
        clone(model).fit(X, y)
    with pytest.raises(TypeError, match="budget"):
        pickle.dumps(account)


def test_a_fitted_model_survives_pickling(data):
    X, y = data
    model = PrivateStackingClassifier(radius=2.5).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert again.release_ == model.release_


def test_it_works_in_a_pipeline(data):
    X, y = data
    learner = PrivateLogisticRegression(5.0, radius=1.5, random_state=0)
    assert make_pipeline(FunctionTransformer(np.tanh), learner).fit(X, y).score(X, y) > 0.8


def test_a_prior_carries_knowledge_from_source_to_target(data):
    X, y = data
    source = PrivateLogisticRegression(5.0, radius=2.5, random_state=0).fit(X[:2500], y[:2500])
    drawn = []
    for prior in (source, source.weights_):
        target = PrivateLogisticRegression(0.2, radius=2.5, lam=1.0, prior=prior, random_state=1)
        drawn.append(target.fit(X[2500:], y[2500:]).weights_)
        assert roc_auc_score(y == "well", target.decision_function(X)) > 0.9
        assert target.privacy_spent_.epsilon == 0.2
    np.testing.assert_array_equal(*drawn)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"radius": 2.0}, "same columns, radius, scale and intercept"),
        ({"column_scale": [1, 1, 1, 1, 2]}, "same columns, radius, scale and intercept"),
        ({"intercept_share": 0.25}, "same columns, radius, scale and intercept"),
        ({"bounds": (-5, 5)}, "same bounds"),
    ],
)
def test_a_prior_of_another_geometry_is_refused(data, settings, words):
    account = Accountant.with_budget(1.0)
    source = PrivateLogisticRegression(radius=2.5).set_params(**settings).fit(*data)
    target = PrivateLogisticRegression(radius=2.5, prior=source, accountant=account)
    with pytest.raises(WrongShape, match=words):
        target.fit(*data)
    assert account.spent.releases == 0
    target.set_params(**settings).fit(*data)


def test_an_intercept_is_no_feature_of_a_prior(data):
    X, y = data
    source = PrivateLogisticRegression(radius=2.5, fit_intercept=False).fit(X, y)
    with pytest.raises(WrongShape, match="5 features and the data 4"):
        PrivateLogisticRegression(radius=2.5, prior=source).fit(X[:, :4], y)


def test_bounds_are_compared_by_what_they_mean(data):
    X, y = data
    source = PrivateLogisticRegression(bounds=(-5, 5)).fit(X, y)
    PrivateLogisticRegression(bounds=([-5.0] * 5, 5), prior=source).fit(X, y)
    stacked = PrivateStackingClassifier(bounds=(-5, 5)).fit(X, y)
    PrivateStackingClassifier(bounds=([-5.0] * 5, 5), source=stacked).fit(X, y)
    with pytest.raises(WrongShape, match="bounds"):
        PrivateLogisticRegression(bounds=(-5, 6), prior=source).fit(X, y)
    with pytest.raises(WrongShape, match="bounds"):
        PrivateStackingClassifier(bounds=(-5, 6), source=stacked).fit(X, y)


def test_what_an_unfitted_source_is_told_to_be_replaced_by_works(data):
    X, y = data
    source = PrivateLogisticRegression(radius=2.5).fit(X, y)
    target = PrivateLogisticRegression(radius=2.5, prior=source)
    with pytest.raises(InvalidSetting, match="its weights_, which"):
        clone(target).fit(X, y)
    clone(target.set_params(prior=source.weights_)).fit(X, y)
    with pytest.raises(InvalidSetting, match="ObjectivePerturbation that holds no weights"):
        target.set_params(prior=source.release_).fit(X, y)


@pytest.mark.parametrize("mechanism", ["objective", "dppsgd", "amp"])
def test_settings_may_come_out_of_an_array(data, mechanism):
    X, y = data
    for lam in np.logspace(-2, 0, 2):
        given = {"epsilon": np.float64(1.0), "radius": np.float64(2.5), "lam": lam, "random_state": 0}
        fitted = PrivateLogisticRegression(**given, mechanism=mechanism).fit(X, y)
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}
        same = PrivateLogisticRegression(**plain, mechanism=mechanism).fit(X, y)
        np.testing.assert_array_equal(fitted.weights_, same.weights_)
        assert fitted.release_.describe() == same.release_.describe()


def test_stacking_with_a_source_is_pst_h(data):
    X, y = data
    settings = {"radius": 2.5, "importance": [5, 4, 1, 1, 1], "n_groups": 2}
    source = PrivateStackingClassifier(5.0, combiner="C-wmv", random_state=0, **settings).fit(X[:2500], y[:2500])
    for given in (source, source.level0_, [source, source.level0_]):
        target = PrivateStackingClassifier(0.5, source=given, lam=1.0, random_state=1, **settings)
        target.fit(X[2500:], y[2500:])
        assert target.release_.mechanism == "PST-H"
        assert target.privacy_spent_.epsilon == 0.5
        assert roc_auc_score(y == "well", target.decision_function(X)) > 0.8
    again = PrivateStackingClassifier(0.5, source=target.level0_, **settings).fit(X, y)
    assert again.release_.mechanism == "PST-H"


def test_uniform_groups_are_published_by_their_seed(data):
    X, y = data

    def groups(seed):
        fitted = PrivateStackingClassifier(radius=2.5, n_groups=2, group_seed=seed).fit(X, y)
        return [model.ball.columns for model in fitted.level0_.groups]

    assert groups(4) == groups(4)
    assert len({str(groups(seed)) for seed in range(8)}) > 1
    assert sorted(column for columns in groups(4) for column in columns) == list(range(5))


def test_pandas_frames_keep_their_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": [30.0, 60, 40, 70] * 50, "bmi": [20.0, 31, 24, 35] * 50})
    model = PrivateLogisticRegression(bounds=([18, 10], [100, 60])).fit(frame, [0, 1, 0, 1] * 50)
    assert list(model.feature_names_in_) == ["age", "bmi"]


def test_unknown_names_of_the_package_are_attribute_errors():
    with pytest.raises(AttributeError):
        _ = crossward.PublicLogisticRegression
    assert all(getattr(crossward, name) is not None for name in crossward.__all__)


def test_a_refused_fit_leaves_the_estimator_as_it_was(data):
    X, y = data
    account = Accountant.with_budget(1.0)
    model = PrivateLogisticRegression(1.0, radius=2.5, accountant=account).fit(X, y)
    before = model.predict(X[:10]).tolist()
    with pytest.raises(BudgetExceeded):
        model.fit(X[:, :2], np.where(y == "ill", "secret", "other"))
    assert list(model.classes_) == ["ill", "well"]
    assert model.predict(X[:10]).tolist() == before
    fresh = PrivateLogisticRegression(1.0, radius=2.5, accountant=account)
    with pytest.raises(BudgetExceeded):
        fresh.fit(X, y)
    assert not hasattr(fresh, "classes_")


def test_a_non_private_prior_or_source_is_refused(data):
    X, y = data
    twin = PrivateLogisticRegression(NON_PRIVATE, radius=2.5).fit(X, y)
    with pytest.raises(InvalidEpsilon, match="non-private"):
        PrivateLogisticRegression(1.0, radius=2.5, prior=twin).fit(X, y)
    source = PrivateStackingClassifier(NON_PRIVATE, radius=2.5).fit(X, y)
    with pytest.raises(InvalidEpsilon, match="non-private"):
        PrivateStackingClassifier(1.0, radius=2.5, source=source).fit(X, y)


def test_what_pst_s_publishes_of_level0_is_described_whole(data):
    X, y = data
    model = PrivateStackingClassifier(radius=2.5, method="PST-S", n_groups=3).fit(X, y)
    assert len(model.level0_.groups) == len(model.level0_.release.parts) == 3
