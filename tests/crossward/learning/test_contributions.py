"""Models explain themselves: what the parts have said adds up to the margin, for every kind of model and record."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from threadpoolctl import threadpool_limits

from crossward.learning.aggregation import BoostedEnsemble, BoostedModel, FeatureMethod, average
from crossward.learning.amp import AMP
from crossward.learning.combining import (
    MARGIN,
    SHARED,
    SIGMOID,
    Combiner,
    LevelOne,
    LevelOneModel,
    MajorityVote,
    Scores,
    StackedModel,
    WeightedVote,
    source_directly,
)
from crossward.learning.dppsgd import DPPSGD
from crossward.learning.encoding import Category, Flag, Number, Schema
from crossward.learning.model import BASE, Contributions, LinearModel, Model, Part, ReleasedModel, SplitModel
from crossward.learning.plr import PLR, PLRFS, groups_of
from crossward.learning.records import Ball
from crossward.learning.stacking import PSTF, PSTH, PSTS
from crossward.learning.transfer import SimComb
from crossward.privacy import SeededRandomness
from crossward.privacy.noise import Array
from toys import ToyRelease

RELEASE = ToyRelease(epsilon=1.0)
EXACT = 1e-9
TINY = 1e-280
"""Below, numbers lose their digits."""

COMBINERS = ["C-mv", "C-wmv", "C-hl of margins", "C-hl of sigmoids", "C-hl of shared scores"]
SCORES = dict(zip(COMBINERS[2:], (MARGIN, SIGMOID, SHARED), strict=True))

with_and_without_offset = pytest.mark.parametrize("offset", [False, True], ids=["no offset", "offset"])
with_and_without_intercept = pytest.mark.parametrize("intercept", [False, True], ids=["no intercept", "intercept"])


def check_sum(model: Model | LinearModel, X: Array, at_least: float = TINY) -> Contributions:
    """That the parts add up to the margins, and that their sum says which class; `at_least` is their scale."""
    explained, margins = model.contributions(X), model.margins(X)
    assert explained.values.shape == (len(X), len(explained.parts))
    total, scale = explained.values.sum(axis=1), np.abs(explained.values).sum(axis=1)
    room = EXACT * np.maximum(scale, at_least)
    assert np.all(np.abs(total - margins) <= room)
    clear = np.abs(margins) > room
    np.testing.assert_array_equal((total > 0)[clear], (margins > 0)[clear])
    return explained


# -- what is drawn ----------------------------------------------------------------------------------------------------
def numbers(shape: Any, largest: float) -> st.SearchStrategy[Array]:
    return arrays.arrays(np.float64, shape, elements=st.floats(-largest, largest))


def records(features: int) -> st.SearchStrategy[Array]:
    """Up to six of them, some cut by the ball and some not, in single or double precision."""
    of = st.integers(1, 6).flatmap(lambda n: numbers((n, features), 100.0))
    return of | of.map(lambda X: X.astype(np.float32))


def balls(
    features: int, *, offset: bool, intercept: bool, columns: bool | None = None, scale: bool | None = None
) -> st.SearchStrategy[Ball]:
    """Any ball with these things, or with or without them where nothing is said."""
    every = st.permutations(range(features))
    some = st.tuples(every, st.integers(1, features)).map(lambda drawn: tuple(drawn[0][: drawn[1]]))
    which = {True: some, False: st.none(), None: st.none() | some}[columns]

    def scales(chosen: tuple[int, ...] | None) -> st.SearchStrategy[Any]:
        width = features if chosen is None else len(chosen)
        one = st.just(0.0) | st.floats(0.01, 100)
        given = st.lists(one, min_size=width, max_size=width).map(tuple)
        return {True: given, False: st.none(), None: st.none() | given}[scale]

    return which.flatmap(
        lambda chosen: st.builds(
            Ball,
            st.floats(0.1, 100),
            st.floats(0.01, 1.0),
            st.just(chosen),
            scales(chosen),
            intercept=st.floats(0.01, 3) if intercept else st.just(0.0),
            offset=(st.floats(-20, -0.01) | st.floats(0.01, 20)) if offset else st.just(0.0),
        )
    )


def in_ball(ball: Ball, features: int) -> st.SearchStrategy[LinearModel]:
    weights = numbers(ball.dimension(features), 10.0)
    return weights.map(lambda w: LinearModel(ball, w, features))


def linear(features: int, **ball: Any) -> st.SearchStrategy[LinearModel]:
    return balls(features, **ball).flatmap(lambda drawn: in_ball(drawn, features))


def combiners(name: str, K: int) -> st.SearchStrategy[Combiner]:
    """One of the combiners of K scores; level-1 with or without an intercept and an offset of its own."""
    if name in ("C-mv", "C-wmv"):
        return st.just(MajorityVote() if name == "C-mv" else WeightedVote())
    kind = SCORES[name]
    learners = st.builds(
        LevelOne,
        st.just(1.0),
        scores=st.just(kind) | st.floats(0.1, 10).map(lambda gain: Scores(kind.kind, gain)),
        intercept=st.booleans(),
        offset=st.just(0.0) | st.floats(-20, 20),
    )
    return learners.flatmap(
        lambda learner: in_ball(learner.learner(np.full(K, 1 / K)).ball, K).map(
            lambda model: LevelOneModel(model, learner.scores)
        )
    )


def stacked(features: int, combiner: str, *, offset: bool, intercept: bool) -> st.SearchStrategy[StackedModel]:
    """One to four models of the target's, and none to two models of each of up to two sources."""
    ball = balls(features, offset=offset, intercept=intercept)
    own = st.lists(ball, min_size=1, max_size=4)

    def models(groups: list[Ball], sources: int) -> st.SearchStrategy[tuple[LinearModel, ...]]:
        return st.tuples(*(in_ball(group, features) for group in groups * (1 + sources)))

    def combined(level0: tuple[LinearModel, ...]) -> st.SearchStrategy[StackedModel]:
        return combiners(combiner, len(level0)).map(lambda top: StackedModel(level0, top, RELEASE))

    return st.tuples(own, st.integers(0, 2)).flatmap(lambda drawn: models(*drawn)).flatmap(combined)


def widths() -> st.SearchStrategy[int]:
    return st.integers(1, 4)


# -- one linear model -------------------------------------------------------------------------------------------------
@with_and_without_offset
@with_and_without_intercept
@pytest.mark.parametrize("columns", [False, True], ids=["all columns", "some columns"])
@pytest.mark.parametrize("scale", [False, True], ids=["no scale", "scale"])
@settings(max_examples=15)
@given(data=st.data())
def test_a_linear_model_adds_up(offset, intercept, columns, scale, data):
    features = data.draw(widths())
    kinds = {"offset": offset, "intercept": intercept, "columns": columns, "scale": scale}
    model = data.draw(linear(features, **kinds))
    X = data.draw(records(features))
    explained = check_sum(model, X)
    seen = [Part(f"column {column}", (column,)) for column in model.columns]
    assert explained.parts == (*seen, *([Part(BASE)] if offset or intercept else []))
    np.testing.assert_array_equal(check_sum(ReleasedModel(model, RELEASE), X).values, explained.values)


@settings(max_examples=50)
@given(data=st.data(), offset=st.booleans(), intercept=st.booleans())
def test_a_column_adds_what_is_missing_without_its_weight(data, offset, intercept):
    features = data.draw(widths())
    model = data.draw(linear(features, offset=offset, intercept=intercept))
    X = data.draw(records(features))
    explained = check_sum(model, X)
    for k in range(len(model.columns)):
        weights = model.weights.copy()
        weights[k] = 0.0
        without = LinearModel(model.ball, weights, features).margins(X)
        room = EXACT * (1 + np.abs(explained.values).sum(axis=1))
        assert np.all(np.abs(model.margins(X) - without - explained.values[:, k]) <= room)


def test_a_linear_model_by_hand():
    model = LinearModel(Ball(5.0, 0.5, (2, 0), (1.0, 2.0), intercept=1.0, offset=-2.0), np.array([3.0, -1.0, 0.5]), 3)
    explained = model.contributions(np.array([[2.0, 9.0, -3.0]]))
    length = np.sqrt(50.0)  # of the radius with its intercept: 5 and 5; the record's, (-3, 4, 5), is the same
    assert explained.parts == (Part("column 2", (2,)), Part("column 0", (0,)), Part(BASE))
    by_hand = np.array([[3.0 * -3, -1.0 * 4, 0.5 * 5]]) * 0.5 / length - [0, 0, 2.0]
    np.testing.assert_allclose(explained.values, by_hand, rtol=1e-9)


# -- combined models --------------------------------------------------------------------------------------------------
@with_and_without_offset
@with_and_without_intercept
@pytest.mark.parametrize("combiner", COMBINERS)
@settings(max_examples=15)
@given(data=st.data())
def test_a_stacked_model_adds_up(offset, intercept, combiner, data):
    features = data.draw(widths())
    model = data.draw(stacked(features, combiner, offset=offset, intercept=intercept))
    explained = check_sum(model, data.draw(records(features)))
    K = len(model.level0)
    assert [part.name for part in explained.parts[:K]] == [f"group {k}" for k in range(1, K + 1)]
    assert [part.columns for part in explained.parts[:K]] == [group.columns for group in model.level0]
    ball = model.combiner.model.ball if isinstance(model.combiner, LevelOneModel) else None
    says_more = ball is not None and (ball.intercept > 0 or ball.offset != 0)
    assert explained.parts[K:] == ((Part(BASE),) if says_more else ())


@with_and_without_offset
@with_and_without_intercept
@settings(max_examples=15)
@given(data=st.data())
def test_a_source_that_votes_adds_up(offset, intercept, data):
    features = data.draw(widths())
    groups = data.draw(st.lists(linear(features, offset=offset, intercept=intercept), min_size=1, max_size=4))
    model = source_directly(SplitModel(tuple(groups), RELEASE))
    assert model.release is RELEASE
    X = data.draw(records(features))
    explained = check_sum(model, X)
    q = np.array([group.ball.q for group in groups])
    votes = np.column_stack([np.sign(group.margins(X) - group.ball.offset) for group in groups])
    np.testing.assert_allclose(explained.values, votes * q / q.sum(), rtol=EXACT)


@pytest.mark.parametrize("combiner", [MajorityVote(), WeightedVote()], ids=["C-mv", "C-wmv"])
def test_a_vote_with_an_offset_adds_up_in_every_case(combiner):
    """The offset is left out of a vote. Parts that vote with it add up to something else nearly always."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2000, 6))
    columns = ((0, 1), (2, 3), (4, 5))
    importance = (0.5, 0.3, 0.2)
    balls = [Ball(1.5, q, group, offset=-2.0) for q, group in zip(importance, columns, strict=True)]
    level0 = tuple(LinearModel(ball, rng.normal(size=2), 6) for ball in balls)
    model = StackedModel(level0, combiner, RELEASE)
    explained, margins = model.contributions(X), model.margins(X)
    total = explained.values.sum(axis=1)
    assert np.count_nonzero(np.abs(total - margins) > 1e-12) == 0
    assert np.count_nonzero((margins > 0) & (total <= 0)) == 0
    shares = np.full(3, 1 / 3) if isinstance(combiner, MajorityVote) else np.array(importance)
    with_it = (np.column_stack([np.sign(group.margins(X)) for group in level0]) * shares).sum(axis=1)
    assert np.count_nonzero(np.abs(with_it - margins) > 1e-12) > 1000


def test_level1_by_hand():
    level0 = tuple(LinearModel(Ball(1.0, 0.5, (k,)), np.array([2.0]), 2) for k in range(2))
    ball = Ball(2.0, intercept=0.5, offset=-1.0)
    top = LevelOneModel(LinearModel(ball, np.array([3.0, -4.0, 0.5]), 2), Scores("margin", 1.0))
    explained = StackedModel(level0, top, RELEASE).contributions(np.array([[0.5, -1.0]]))
    meta = np.array([0.5, -1.0, 1.0]) / np.sqrt(5.0)
    np.testing.assert_allclose(explained.values, [meta * [3.0, -4.0, 0.5] + [0, 0, -1.0]], rtol=1e-9)
    assert explained.parts == (Part("group 1", (0,)), Part("group 2", (1,)), Part(BASE))


# -- boosted models ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Bent:
    """Something of K scores that is no sum over them: a step, a product, and all that lies between."""

    weights: Array
    product: float
    step: float
    base: float

    def margins(self, scores: Array) -> Array:
        jump = np.where(scores.max(axis=1) > 0.6, self.step, 0.0)
        return self.base + scores @ self.weights + self.product * scores.prod(axis=1) + jump


@pytest.mark.parametrize("partners", [1, 2, 3])
@with_and_without_offset
@settings(max_examples=15)
@given(data=st.data())
def test_a_boosted_model_adds_up(partners, offset, data):
    features = data.draw(widths())
    kinds = {"offset": offset, "intercept": data.draw(st.booleans())}
    partner = st.one_of(
        linear(features, **kinds).map(lambda model: ReleasedModel(model, RELEASE)),
        st.sampled_from(COMBINERS).flatmap(lambda name: stacked(features, name, **kinds)),
    )
    models = data.draw(st.tuples(*[partner] * partners))
    some = st.floats(-10, 10)
    ensemble = data.draw(st.builds(Bent, numbers(partners, 10.0), some, some, some))
    explained = check_sum(BoostedModel(models, ensemble), data.draw(records(features)), at_least=10.0)
    assert explained.parts == (*(Part(f"partner {k}") for k in range(1, partners + 1)), Part(BASE))
    assert len(set(explained.values[:, -1])) == 1


def test_of_two_partners_who_say_the_same_none_gets_all():
    partner = ReleasedModel(LinearModel(Ball(1.0), np.array([2.0]), 1), RELEASE)
    other = ReleasedModel(LinearModel(Ball(1.0), np.array([0.0]), 1), RELEASE)
    ensemble = Bent(np.array([1.0, 1.0, 1.0]), 3.0, 2.0, -1.0)
    first, second, silent, _ = BoostedModel((partner, partner, other), ensemble).contributions(np.ones((4, 1))).values.T
    np.testing.assert_allclose(first, second)
    assert np.all(first > 0)
    np.testing.assert_array_equal(silent, np.zeros(4))  # it says 1/2, which is nothing


# -- trained models ---------------------------------------------------------------------------------------------------
WHOLE = Ball(2.5, intercept=0.5)
BALLS = (Ball(1.7, 0.7, (0, 1, 2), offset=-1.5), Ball(1.7, 0.3, (5, 3), (1.0, 0.5), offset=-1.5))
LEVEL0 = PLRFS(groups_of(BALLS, 0.05), 2.0)
LEARNED: list[LevelOne | MajorityVote | WeightedVote] = [
    MajorityVote(),
    WeightedVote(),
    LevelOne(2.0),
    LevelOne(2.0, scores=SIGMOID),
    LevelOne(2.0, scores=SHARED, intercept=False, offset=-1.0),
]


def seed(number: int) -> SeededRandomness:
    return SeededRandomness(number)


def partners_of(X: Array, y: Array, count: int) -> list[ReleasedModel]:
    learner = PLR(WHOLE, 0.05, 2.0)
    return [learner.fit(X[k::count], y[k::count], randomness=seed(k)) for k in range(count)]


LINEAR: dict[str, Callable[[Array, Array], Model]] = {
    "PLR": lambda X, y: PLR(WHOLE, 0.05, 2.0).fit(X, y, randomness=seed(0)),
    "PLR with an offset": lambda X, y: PLR(replace(WHOLE, offset=-1.0), 0.05, 2.0).fit(X, y, randomness=seed(0)),
    "DPPSGD": lambda X, y: DPPSGD(WHOLE, 0.05, 2.0).fit(X, y, randomness=seed(0)),
    "AMP": lambda X, y: AMP(WHOLE, 2.0, 1e-6).fit(X, y, randomness=seed(0)),
    "SimComb": lambda X, y: SimComb(PLR(WHOLE, 0.5, 2.0), partners_of(X, y, 2)).fit(X, y, randomness=seed(0)),
    "average": lambda X, y: average(partners_of(X, y, 3)),
    "feature method": lambda X, y: FeatureMethod().fit(partners_of(X, y, 3), X, y),
}


@pytest.mark.parametrize("method", LINEAR)
def test_every_method_of_one_model_explains_what_it_has_learned(blobs, method):
    X, y = blobs
    explained = check_sum(LINEAR[method](X, y), X)
    assert [part.name for part in explained.parts] == [*(f"column {j}" for j in range(6)), BASE]


@pytest.mark.parametrize("combiner", LEARNED, ids=COMBINERS)
@pytest.mark.parametrize("method", ["PST-S", "PST-F", "PST-H", "PST-H by scores"])
def test_every_stacking_method_explains_what_it_has_learned(blobs, method, combiner):
    X, y = blobs
    sources = [LEVEL0.fit(X[k::2], y[k::2], randomness=seed(k)) for k in range(2)]
    learners = {
        "PST-S": lambda: PSTS(PLR(WHOLE, 0.05, 2.0), 3, combiner),
        "PST-F": lambda: PSTF(LEVEL0, combiner),
        "PST-H": lambda: PSTH(LEVEL0, combiner, sources),
        "PST-H by scores": lambda: PSTH(LEVEL0, combiner, sources, mix="scores"),
    }
    models = {"PST-S": 3, "PST-F": 2, "PST-H": 2, "PST-H by scores": 6}[method]
    explained = check_sum(learners[method]().fit(X, y, randomness=seed(4)), X)
    assert len(explained.parts) == models + isinstance(combiner, LevelOne)


def test_a_source_explains_what_its_groups_have_learned(blobs):
    X, y = blobs
    explained = check_sum(source_directly(LEVEL0.fit(X, y, randomness=seed(0))), X)
    assert set(np.round(np.abs(explained.values[0]), 9)) == {0.7, 0.3}


@pytest.mark.parametrize("partners", [1, 2, 3])
def test_a_boosted_ensemble_explains_what_it_has_learned(blobs, partners):
    X, y = blobs
    models: list[Model] = [*partners_of(X, y, partners)]
    models[-1] = source_directly(LEVEL0.fit(X, y, randomness=seed(0)))
    with threadpool_limits(1):  # on a busy machine its threads wait for one another
        boosted = BoostedEnsemble(iterations=20).fit(models, X, y)
    explained = check_sum(boosted, X[:100], at_least=1.0)
    assert len(explained.parts) == partners + 1
    assert np.ptp(explained.values[:, :-1], axis=0).min() > 0
    assert len(set(explained.values[:, -1])) == 1


# -- by the feature that owns a column --------------------------------------------------------------------------------
@settings(max_examples=60)
@given(data=st.data(), offset=st.booleans(), intercept=st.booleans())
def test_columns_joined_by_their_owner_keep_the_sum(data, offset, intercept):
    features = data.draw(widths())
    owners = data.draw(st.lists(st.sampled_from("abc"), min_size=features, max_size=features))
    model = data.draw(linear(features, offset=offset, intercept=intercept))
    X = data.draw(records(features))
    apart = model.contributions(X)
    joined = apart.by_owner(owners)
    room = EXACT * np.maximum(np.abs(apart.values).sum(axis=1), TINY)
    assert np.all(np.abs(joined.values.sum(axis=1) - model.margins(X)) <= room)
    names = list(dict.fromkeys(owners[column] for column in model.columns))
    assert [part.name for part in joined.parts] == [*names, *([BASE] if offset or intercept else [])]
    for part, values in zip(joined.parts, joined.values.T, strict=True):
        same = [k for k, other in enumerate(apart.parts) if owners_of(other, owners) == owners_of(part, owners)]
        assert part.columns == tuple(column for k in same for column in apart.parts[k].columns)
        assert np.all(np.abs(values - apart.values[:, same].sum(axis=1)) <= room)


def owners_of(part: Part, owners: list[str]) -> set[str]:
    return {owners[column] for column in part.columns}


@settings(max_examples=60)
@given(data=st.data(), combiner=st.sampled_from(COMBINERS), offset=st.booleans(), intercept=st.booleans())
def test_groups_keep_the_sum_and_stay_as_they_are(data, combiner, offset, intercept):
    features = data.draw(widths())
    owners = data.draw(st.lists(st.sampled_from("abc"), min_size=features, max_size=features))
    model = data.draw(stacked(features, combiner, offset=offset, intercept=intercept))
    X = data.draw(records(features))
    apart = model.contributions(X)
    joined = apart.by_owner(owners)
    room = EXACT * np.maximum(np.abs(apart.values).sum(axis=1), TINY)
    assert np.all(np.abs(joined.values.sum(axis=1) - model.margins(X)) <= room)
    assert joined.parts == apart.parts


def test_the_levels_of_a_category_are_one_part():
    schema = Schema(
        (Number("age", 40, 80), Category("smoker", ("never", "former", "current")), Flag("sex"), Number("bmi", 15, 45))
    )
    owners = schema.column_features
    width = len(owners)
    assert owners.count("smoker") > 1
    raw = [
        {"age": age, "smoker": smoker, "sex": sex, "bmi": 22}
        for age, smoker, sex in itertools.product((45, 77), ("never", "former", "current"), (False, True))
    ]
    X = schema.encode(raw)
    model = LinearModel(Ball(2.0, intercept=0.5, offset=-1.0), np.arange(1.0, width + 2), width)
    apart = check_sum(model, X)
    joined = apart.by_owner(owners)
    assert [part.name for part in joined.parts] == ["age", "smoker", "sex", "bmi", BASE]
    levels = [column for column, owner in enumerate(owners) if owner == "smoker"]
    assert joined.parts[1].columns == tuple(levels)
    np.testing.assert_allclose(joined.values[:, 1], apart.values[:, levels].sum(axis=1))
    np.testing.assert_allclose(joined.values.sum(axis=1), model.margins(X))


def test_a_feature_with_the_name_of_another_part_stays_apart_from_it():
    model = LinearModel(Ball(2.0, intercept=0.5), np.array([1.0, 2.0, 3.0]), 2)
    joined = model.contributions(np.ones((1, 2))).by_owner([BASE, "age"])
    assert joined.parts == (Part(BASE, (0,)), Part("age", (1,)), Part(BASE))


def test_partners_of_an_ensemble_have_no_owner_and_stay_as_they_are():
    partner = ReleasedModel(LinearModel(Ball(1.0), np.array([2.0]), 1), RELEASE)
    explained = BoostedModel((partner, partner), Bent(np.ones(2), 1.0, 1.0, 0.5)).contributions(np.ones((3, 1)))
    joined = explained.by_owner(["age"])
    assert joined.parts == explained.parts
    np.testing.assert_array_equal(joined.values, explained.values)
