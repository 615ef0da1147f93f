"""PST-S, PST-F and PST-H: who sees which records, what is paid, and how scores combine."""

import itertools

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from crossward.errors import InvalidEpsilon, InvalidSetting, TooFewRecords, WrongShape
from crossward.learning.combining import MARGIN, SHARED, SIGMOID, LevelOne, MajorityVote, Scores, WeightedVote
from crossward.learning.model import LinearModel
from crossward.learning.plr import PLR, PLRFS, groups_of
from crossward.learning.records import Ball
from crossward.learning.stacking import PSTF, PSTH, PSTS, given_split, split
from crossward.privacy import NON_PRIVATE, Accountant, SeededRandomness

BALLS = (Ball(1.7, 0.7, (0, 1, 2), intercept=0.4), Ball(1.7, 0.3, (3, 4, 5), intercept=0.4))


def level0(epsilon, lam=0.01):
    return PLRFS(groups_of(BALLS, lam), epsilon)


@pytest.mark.parametrize("combiner", [LevelOne(2.0), WeightedVote(), MajorityVote()], ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("method", ["PST-S", "PST-F", "PST-H"])
def test_every_method_pays_epsilon_once_and_learns(blobs, method, combiner):
    X, y = blobs
    if method == "PST-S":
        learner = PSTS(PLR(Ball(2.5, intercept=0.4), 0.01, 2.0), 3, combiner)
    elif method == "PST-F":
        learner = PSTF(level0(2.0), combiner)
    else:
        learner = PSTH(level0(2.0, 0.1), combiner, level0(2.0).fit(X, y, randomness=SeededRandomness(1)))
    account = Accountant.with_budget(2.0)
    model = learner.fit(X, y, randomness=SeededRandomness(5), accountant=account)
    assert account.spent.nano_epsilon == 2 * 10**9
    assert model.release.cost.nano_epsilon == 2 * 10**9
    assert roc_auc_score(y, model.margins(X)) > 0.75
    assert np.all((model.scores(X) >= 0) & (model.scores(X) <= 1))


def test_the_levels_see_disjoint_records(blobs, monkeypatch):
    X, y = blobs
    tagged = np.column_stack([X, np.arange(len(y))])
    seen = []
    train, of = PLRFS.train, Scores.of

    def spy_train(self, X, labels, randomness):
        if X.shape[1] == 7:
            seen.append(set(X[:, 6].astype(int)))
        return train(self, X, labels, randomness)

    def spy_scores(self, models, X):
        seen.append(set(X[:, 6].astype(int)))
        return of(self, models, X)

    monkeypatch.setattr(PLRFS, "train", spy_train)
    monkeypatch.setattr(Scores, "of", spy_scores)
    for learner in (
        PSTF(level0(1.0), LevelOne(1.0)),
        PSTS(PLR(Ball(2.5, columns=(0, 1, 2)), 0.1, 1.0), 4, LevelOne(1.0)),
    ):
        seen.clear()
        learner.fit(tagged, y)
        assert sum(len(rows) for rows in seen) == len(set().union(*seen)) == len(y)


def test_votes_use_all_records_for_level0(blobs):
    X, y = blobs
    assert PSTF(level0(1.0), WeightedVote()).release(*X.shape).parts[0].n == len(y)
    assert PSTF(level0(1.0), LevelOne(1.0)).release(*X.shape).parts[0].n == 750


def test_a_split_that_was_fixed_beforehand_is_kept(blobs):
    X, y = blobs
    held = np.arange(len(y)) % 10 == 0
    release = PSTF(level0(1.0), LevelOne(1.0)).fit(X, y, level1=held).release
    assert [part.n for part in release.parts] == [900, 100]
    with pytest.raises(WrongShape):
        given_split(len(y), held[:-1])
    with pytest.raises(TooFewRecords):
        given_split(len(y), np.zeros(len(y), dtype=bool))


def test_splits_are_disjoint_complete_and_random():
    a, b = split(101, 0.25, SeededRandomness(0)), split(101, 0.25, SeededRandomness(1))
    assert sorted([*a.level0, *a.level1]) == list(range(101))
    assert len(a.level1) == 25
    assert set(a.level1) != set(b.level1)
    with pytest.raises(TooFewRecords):
        split(1, 0.25, SeededRandomness(0))
    with pytest.raises(InvalidSetting):
        split(100, 1.0, SeededRandomness(0))


def test_scores_by_hand():
    X = np.array([[0.3, -0.4], [3.0, 4.0]])
    model = LinearModel(Ball(1.0, 0.5), np.array([2.0, 0.0]), 2)
    inside = 0.5 * np.array([[0.3, -0.4], [0.6, 0.8]])
    np.testing.assert_allclose(SIGMOID.of([model], X)[:, 0], 1 / (1 + np.exp(-2 * inside[:, 0])))
    np.testing.assert_allclose(Scores("margin", 1.0).of([model], X)[:, 0], inside[:, 0] / 0.5)
    np.testing.assert_allclose(Scores("margin", 2.0).of([model], X)[:, 0], [0.6, 1.0])
    nothing = LinearModel(Ball(1.0), np.zeros(2), 2)
    np.testing.assert_array_equal(MARGIN.of([nothing], X), np.zeros((2, 1)))


def test_shared_scores_add_up_to_the_sum_of_log_odds():
    X = np.random.default_rng(1).normal(size=(50, 3))
    strong = LinearModel(Ball(9.0, 0.6, (0, 1), offset=-2.0), np.array([3.0, 4.0]), 3)
    weak = LinearModel(Ball(9.0, 0.4, (2,), offset=-2.0), np.array([0.1]), 3)
    scores = Scores("shared", 1.0).of([strong, weak], X)
    odds = strong.margins(X) + weak.margins(X) + 4.0
    np.testing.assert_allclose(scores.sum(axis=1), odds / (5.0 * 0.6))
    np.testing.assert_allclose(SHARED.vote(np.array([0.6, 0.4])), [0.5, 0.5])


def test_votes_leave_an_offset_out():
    X = np.array([[1.0], [-1.0]])
    model = LinearModel(Ball(1.0, offset=-9.0), np.array([1.0]), 1)
    np.testing.assert_array_equal(MajorityVote().combine((model,), X), [1.0, -1.0])
    np.testing.assert_array_equal(WeightedVote().combine((model,), X), [1.0, -1.0])


def test_level1_takes_an_offset_and_a_jacobian():
    learner = LevelOne(1.0, offset=-1.0, jacobian="tight", intercept=False).learner(np.full(2, 0.5))
    assert learner.ball.offset == -1.0
    assert learner.release(100, 2).jacobian == "tight"


def test_meta_features_fill_the_level1_ball_without_being_cut():
    for scores in (SIGMOID, MARGIN, SHARED):
        ball = LevelOne(1.0, scores=scores).learner(np.full(5, 0.2)).ball
        corners = np.vstack([np.ones(5), -np.ones(5), np.zeros(5)])
        placed = ball.place(corners)
        assert np.all(np.linalg.norm(placed, axis=1) <= 1)
        assert np.linalg.norm(placed[0]) == pytest.approx(1)
        np.testing.assert_allclose(placed[:, -1], placed[0, -1])


@pytest.mark.parametrize("scores", [SIGMOID, MARGIN])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_level1_prior_is_the_weighted_vote(scores, intercept):
    q = np.array([0.5, 0.3, 0.2])
    learner = LevelOne(1.0, scores=scores, prior=3.0, intercept=intercept).learner(q)
    meta = np.random.default_rng(0).uniform(0, 1, size=(20, 3))
    prior = learner.ball.place(meta) @ learner.pull.towards
    centre = scores.middle if intercept else 0.0
    np.testing.assert_allclose(prior, 3.0 * (meta - centre) @ q, atol=1e-9)


def test_with_a_heavy_prior_level1_is_the_weighted_vote(blobs):
    X, y = blobs
    model = PSTF(level0(NON_PRIVATE), LevelOne(NON_PRIVATE, lam=1e4)).fit(X, y, randomness=SeededRandomness(0))
    vote = MARGIN.of(model.level0, X) @ [0.7, 0.3]
    assert np.corrcoef(vote, model.margins(X))[0, 1] > 0.9999


def test_combiners_by_hand(blobs):
    X, y = blobs
    model = PSTF(level0(NON_PRIVATE), WeightedVote()).fit(X, y)
    signs = np.array([np.sign(m.margins(X)) for m in model.level0])
    np.testing.assert_allclose(model.margins(X), 0.7 * signs[0] + 0.3 * signs[1])
    np.testing.assert_allclose(MajorityVote().combine(model.level0, X), signs.mean(axis=0))


@pytest.mark.parametrize("combiner", [MajorityVote(), WeightedVote()], ids=["C-mv", "C-wmv"])
def test_a_tie_is_a_tie(combiner):
    for K in (2, 4, 6, 10, 12):
        X = np.array(list(itertools.product([-0.5, 0.5], repeat=K)))
        models = tuple(LinearModel(Ball(1.0, 1 / K, (k,)), np.ones(1), K) for k in range(K))
        tied = X.sum(axis=1) == 0
        np.testing.assert_array_equal(combiner.combine(models, X)[tied], 0.0)


def test_transfer_pulls_each_group_to_its_source(blobs):
    X, y = blobs
    source = level0(NON_PRIVATE).fit(X, y)
    heavy = PLRFS(groups_of(BALLS, 1e5), NON_PRIVATE)
    model = PSTH(heavy, WeightedVote(), source).fit(X[::2], y[::2])
    for ours, theirs in zip(model.level0, source.groups, strict=True):
        np.testing.assert_allclose(ours.weights, theirs.weights, atol=1e-4)


def test_several_sources_mix_or_score(blobs):
    X, y = blobs
    randomness = SeededRandomness(0)
    sources = [level0(5.0).fit(X[rows], y[rows], randomness=randomness) for rows in (slice(200), slice(200, None))]
    by_count = PSTH(level0(1.0), LevelOne(1.0), sources).level0.groups[0].pull.towards
    expected = 0.2 * sources[0].groups[0].weights + 0.8 * sources[1].groups[0].weights
    np.testing.assert_allclose(by_count, expected)
    equal = PSTH(level0(1.0), LevelOne(1.0), sources, mix="uniform").level0.groups[0].pull.towards
    np.testing.assert_allclose(equal, (sources[0].groups[0].weights + sources[1].groups[0].weights) / 2)
    learner = PSTH(level0(NON_PRIVATE), LevelOne(NON_PRIVATE), sources, mix="scores")
    scored = learner.fit(X, y, randomness=randomness)
    assert len(scored.level0) == 6
    assert roc_auc_score(y, scored.margins(X)) > 0.85


def test_a_private_model_is_never_built_on_a_non_private_one(blobs):
    X, y = blobs
    twin = level0(NON_PRIVATE).fit(X, y)
    with pytest.raises(InvalidEpsilon, match="non-private"):
        PSTH(level0(1.0), LevelOne(1.0), twin)
    assert PSTH(level0(NON_PRIVATE), LevelOne(NON_PRIVATE), twin).fit(X, y).release.private is False


def test_a_vote_has_no_level1_records(blobs):
    X, y = blobs
    with pytest.raises(InvalidSetting, match="level1"):
        PSTF(level0(1.0), WeightedVote()).fit(X, y, level1=np.arange(len(y)) % 2 == 0)


def test_a_source_with_other_groups_is_refused(blobs):
    X, y = blobs
    other = PLRFS(groups_of(BALLS[:1], 0.1), 1.0).fit(X, y)
    with pytest.raises(WrongShape, match="groups"):
        PSTH(level0(1.0), LevelOne(1.0), other)
    with pytest.raises(InvalidSetting, match="source"):
        PSTH(level0(1.0), LevelOne(1.0), [])
    with pytest.raises(InvalidSetting, match="'uniform' or 'scores', not 'foo'"):
        PSTH(level0(1.0), LevelOne(1.0), level0(1.0).fit(X, y), mix="foo")


def test_pst_s_describes_the_parts_it_cuts():
    learner = PSTS(PLR(Ball(1.0), 0.1, 5.0), 4, LevelOne(5.0))
    for n in (40, 41, 42, 43, 47):
        told = [part.n for part in learner.release(n, 2).parts]
        held = told.pop()
        assert told == [len(part) for part in np.array_split(np.arange(n - held), 4)]


def test_settings_without_meaning_are_refused():
    with pytest.raises(InvalidSetting):
        Scores("logit")
    with pytest.raises(InvalidSetting):
        Scores("margin", -1.0)
    with pytest.raises(InvalidSetting):
        LevelOne(1.0, prior=-1.0)
    with pytest.raises(InvalidSetting):
        PSTS(PLR(Ball(1.0), 0.1, 1.0), 0, WeightedVote())
    with pytest.raises(TooFewRecords):
        PSTS(PLR(Ball(1.0), 0.1, 1.0), 20, WeightedVote()).release(10, 2)
