"""Every correction to the papers (ADR 0002), with the form as printed failing where ours holds.

Where the fault is a privacy loss, the audit's planted mutant is the form as printed.
"""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from crossward.learning.combining import MARGIN, SIGMOID, LevelOne
from crossward.learning.encoding import NormShare, importance_groups
from crossward.learning.plr import PLRFS, groups_of
from crossward.learning.stacking import PSTH
from crossward.privacy import NON_PRIVATE, SeededRandomness, calibrate
from crossward_lab.audit.run import audit_one
from crossward_lab.simulate.hospitals import Federation


def test_noise_has_a_density_that_falls_with_its_norm():
    """000/001/002 print exp(+eps' ||b||/2): its mass grows without bound, so there is nothing to draw from."""
    norms = [np.linalg.norm(SeededRandomness(seed).in_all_directions(3, 2 / 0.7)) for seed in range(2000)]
    assert stats.kstest(norms, stats.gamma(3, scale=2 / 0.7).cdf).pvalue > 1e-4
    radius = np.linspace(0, 200, 20001)
    mass = np.cumsum(radius**2 * np.exp(0.35 * radius))
    assert mass[-1] > 1e15 * mass[len(mass) // 2]


@pytest.mark.parametrize(
    ("as_printed", "corrected"),
    [
        ("eps for eps', K = 1", "PLR, Huber loss"),  # 002 Alg. 3 step 6
        ("eps for eps', K = 3", "PLR-FS"),
        ("a full epsilon for each group", "PLR-FS"),  # 001 Alg. 4 steps 2-4
        ("divide by the largest norm in the data", "PLR"),  # all of them
        ("DPPSGD sensitivity divided by the batch size", "DPPSGD"),  # 003
        ("DPPSGD final projection scales up", "DPPSGD"),  # 003
        ("AMP output noise for one solver", "AMP, output noise"),  # 003, code
        ("AUC noise for one pair", "private AUC"),  # an AUC is a query
    ],
)
def test_as_printed_it_leaks_and_corrected_it_does_not(as_printed, corrected):
    printed, ours = audit_one(as_printed, seed=1), audit_one(corrected, seed=1)
    assert printed.largest_loss > printed.claimed_epsilon
    assert ours.largest_loss <= ours.claimed_epsilon


def test_delta_never_takes_regularisation_away():
    """000/002 let Delta_k fall below zero: the second group would end up with less than its lambda."""
    n, epsilon, lam, q = 100, 0.5, (0.001, 0.05), (0.7, 0.3)
    as_printed = [0.25 * qk**2 / (n * math.expm1(epsilon * qk / 4)) - lk for qk, lk in zip(q, lam, strict=True)]
    assert as_printed[1] < 0
    assert calibrate(n, epsilon, lam, q).delta == pytest.approx([as_printed[0], 0.0])


def test_sigmoid_scores_without_a_prior_flip_with_rare_positives():
    """000 step 14: with rare positives the level-1 weights turn against the level-0 models, noise or not."""
    federation = Federation.simulate(branches=2, seed=0)
    schema = federation.schema
    balls = importance_groups(schema.importance, 5, NormShare(0.35), intercept=0.3)

    def auc(epsilon, scores, prior, intercept, seed):
        level0 = PLRFS(groups_of(balls, 0.01), epsilon)
        source = level0.fit(*federation.main.encode(schema), randomness=SeededRandomness(seed))
        top = LevelOne(epsilon, 0.01, scores, prior, intercept)
        aucs = []
        for site in federation.branches:
            X, y = site.encode(schema)
            held = np.random.default_rng(0).permutation(len(y)) < 0.2 * len(y)
            model = PSTH(level0, top, source).fit(X[~held], y[~held], randomness=SeededRandomness(seed + 1))
            aucs.append(roc_auc_score(y[held], model.margins(X[held])))
        return float(np.mean(aucs))

    printed = [auc(2.0, SIGMOID, 0.0, False, seed) for seed in range(3)]
    ours = [auc(2.0, MARGIN, 4.0, True, seed) for seed in range(3)]
    assert np.mean(printed) < 0.55
    assert np.mean(ours) > 0.65
    assert auc(NON_PRIVATE, SIGMOID, 0.0, False, 0) < 0.5
    assert auc(NON_PRIVATE, MARGIN, 4.0, True, 0) > 0.65
