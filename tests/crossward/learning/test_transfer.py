"""Hypothesis transfer with one group, its baselines, and several sources."""

import numpy as np
import pytest

from crossward.errors import InvalidSetting, NotFinite, WrongShape
from crossward.learning.combining import source_directly
from crossward.learning.plr import PLR, PLRFS, groups_of
from crossward.learning.records import Ball
from crossward.learning.regulariser import Pull
from crossward.learning.transfer import SimComb, mixture
from crossward.privacy import NON_PRIVATE
from toys import ToyRelease

BALL = Ball(2.5, intercept=0.5)


def test_the_papers_regulariser_is_a_pull_to_one_point():
    """eta/2 |w|^2 + (1 - eta)/2 |w - u|^2 and 1/2 |w - (1 - eta) u|^2 differ by a constant."""
    rng = np.random.default_rng(0)
    u, points = rng.normal(size=4), rng.normal(size=(50, 4))
    for eta in (0.0, 0.3, 1.0):
        paper = eta / 2 * (points**2).sum(1) + (1 - eta) / 2 * ((points - u) ** 2).sum(1)
        ours = 0.5 * ((points - Pull(u, eta).centre(4)) ** 2).sum(1)
        np.testing.assert_allclose(paper - ours, (paper - ours)[0])


@pytest.mark.parametrize(("eta", "share"), [(0.0, 1.0), (0.25, 0.75), (1.0, 0.0)])
def test_a_heavy_pull_ends_where_eta_says(blobs, eta, share):
    X, y = blobs
    source = PLR(BALL, 0.01, NON_PRIVATE).fit(X, y)
    target = SimComb(PLR(BALL, 1e5, NON_PRIVATE), source, eta=eta).fit(X, y)
    np.testing.assert_allclose(target.weights, share * source.weights, atol=1e-4)


def test_transfer_costs_the_target_its_own_epsilon_only(blobs):
    X, y = blobs
    source = PLR(BALL, 0.01, 3.0).fit(X, y)
    assert SimComb(PLR(BALL, 0.1, 1.0), source).fit(X, y).release.epsilon == 1.0


def test_the_groups_of_a_source_vote_by_importance_and_cost_the_target_nothing(blobs):
    X, y = blobs
    balls = (Ball(1.7, 0.6, (0, 1, 2)), Ball(1.7, 0.4, (3, 4, 5)))
    source = PLRFS(groups_of(balls, 0.01), 3.0).fit(X, y)
    voted = source_directly(source)
    assert set(np.round(np.abs(voted.margins(X)), 6)) <= {0.2, 1.0}
    assert voted.release is source.release


def test_mixtures_are_convex_and_by_public_counts():
    def release(n):
        return ToyRelease(epsilon=1.0, n=n)

    a, b = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    np.testing.assert_allclose(mixture([(a, release(300)), (b, release(100))]), [0.75, 0.25])
    np.testing.assert_allclose(mixture([(a, release(300)), (b, release(100))], "uniform"), [0.5, 0.5])
    with pytest.raises(InvalidSetting):
        mixture([])
    with pytest.raises(InvalidSetting):
        mixture([(a, ToyRelease(epsilon=1.0))])
    with pytest.raises(InvalidSetting):
        mixture([(a, release(1))], "loudest")
    with pytest.raises(WrongShape):
        mixture([(a, release(1)), (np.zeros(3), release(1))])


def test_what_cannot_be_pulled_towards_is_refused(blobs):
    X, y = blobs
    with pytest.raises(NotFinite):
        Pull(np.array([1.0, np.nan]))
    with pytest.raises(InvalidSetting):
        Pull(np.zeros(2), 1.5)
    other = PLR(Ball(9.0, intercept=0.5), 0.1, 1.0).fit(X, y)
    with pytest.raises(WrongShape, match="same"):
        SimComb(PLR(BALL, 0.1, 1.0), other)
