"""Average, feature method, boosted ensemble."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from crossward.errors import InvalidEpsilon, InvalidSetting, WrongShape
from crossward.learning.aggregation import BoostedEnsemble, FeatureMethod, average
from crossward.learning.losses import Huber
from crossward.learning.plr import PLR
from crossward.learning.records import Ball
from crossward.privacy import NON_PRIVATE, Accountant, SeededRandomness

BALL = Ball(2.5, intercept=0.5)


@pytest.fixture(scope="module")
def partners(blobs):
    X, y = blobs
    return [
        PLR(BALL, 0.01, 1.0, loss=Huber(0.5)).fit(X[i::5], y[i::5], randomness=SeededRandomness(i)) for i in range(5)
    ]


def test_average_is_the_mean_of_weights(partners):
    np.testing.assert_allclose(average(partners).weights, np.mean([p.weights for p in partners], axis=0))


def test_the_feature_method_lies_in_the_span_and_beats_the_average(blobs, partners):
    X, y = blobs
    feature = FeatureMethod(1e-3).fit(partners, X[:300], y[:300])
    M = np.stack([p.weights for p in partners])
    residual = feature.weights - M.T @ np.linalg.lstsq(M.T, feature.weights, rcond=None)[0]
    assert np.linalg.norm(residual) < 1e-9 * np.linalg.norm(feature.weights)
    assert roc_auc_score(y, feature.margins(X)) > roc_auc_score(y, average(partners).margins(X))


def test_the_feature_method_discards_a_useless_partner(blobs, partners):
    X, y = blobs
    wrong = PLR(BALL, 0.01, NON_PRIVATE).fit(X, -y)
    feature = FeatureMethod(1e-3).fit([*partners, wrong], X[:300], y[:300])
    assert roc_auc_score(y, feature.margins(X)) > 0.85


def test_the_boosted_ensemble_learns_and_can_never_be_released(blobs, partners):
    X, y = blobs
    boosted = BoostedEnsemble().fit(partners, X, y)
    assert roc_auc_score(y, boosted.margins(X)) > 0.85
    assert np.all((boosted.scores(X) >= 0) & (boosted.scores(X) <= 1))
    assert not boosted.release.private
    with pytest.raises(InvalidEpsilon, match="non-private"):
        Accountant.with_budget(1e6).charge(boosted.release)


def test_partners_must_match(blobs, partners):
    X, y = blobs
    stranger = PLR(Ball(1.0, intercept=0.5), 0.1, 1.0).fit(X, y)
    for combine in (average, lambda p: FeatureMethod().fit(p, X, y)):
        with pytest.raises(WrongShape):
            combine([*partners, stranger])
        with pytest.raises(InvalidSetting):
            combine([])
    with pytest.raises(InvalidSetting):
        BoostedEnsemble().fit([], X, y)
