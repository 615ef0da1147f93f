"""Rows on disk: what is read back, what is left behind, and that every learner learns the same from them."""

import os
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossward.errors import EmptyData, InvalidSetting, NotFinite, StorageFailed, WrongShape
from crossward.learning import stored
from crossward.learning.aggregation import BoostedEnsemble
from crossward.learning.amp import AMP
from crossward.learning.checks import check_labels, check_matrix
from crossward.learning.combining import MARGIN, SHARED, SIGMOID, LevelOne, MajorityVote, WeightedVote
from crossward.learning.dppsgd import DPPSGD
from crossward.learning.losses import LOGISTIC, Huber
from crossward.learning.plr import PLR, PLRFS, groups_of
from crossward.learning.records import Ball, Records
from crossward.learning.solver import blocked, minimise, solve
from crossward.learning.solver.blocked import Blocked
from crossward.learning.stacking import PSTF, PSTH, PSTS, given_split
from crossward.learning.stored import StoredRows, as_slice, rows_store, runs
from crossward.learning.transfer import SimComb
from crossward.learning.workers import ALONE, Workers
from crossward.privacy import NON_PRIVATE, Accountant, SeededRandomness

FEATURES = 6


@pytest.fixture(scope="module", autouse=True)
def _small_blocks():
    """Blocks and piles of 64 rows, so that a few hundred make many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored, "BLOCK_BYTES", 1)
        patch.setattr(stored, "TAKEN_BYTES", 1)
        patch.setattr(stored, "_PILE_BLOCK", 1)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("scratch")


def store(folder, X, cuts=(), memory=0):
    """X, appended in batches that end at `cuts`."""
    rows = StoredRows.writing(folder, X.shape[1], memory)
    for batch in np.split(X, sorted(cuts)):
        rows.append(batch)
    return rows


def draw(n, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, FEATURES))
    odds = 2.0 * X[:, 0] - X[:, 1] + 0.5 * X[:, 4] - 0.5
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-odds)), 1, -1).astype(np.int8)


CUTS = st.lists(st.integers(0, 500), max_size=6)


# -- the store itself -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("memory", [0, 8 * FEATURES * 200, 1 << 20], ids=["disk", "spilt", "memory"])
@settings(max_examples=30)
@given(n=st.integers(0, 500), cuts=CUTS, start=st.integers(-9, 500), stop=st.integers(-9, 510), seed=st.integers(0, 99))
def test_what_was_appended_is_read(folder, memory, n, cuts, start, stop, seed):
    X = np.random.default_rng(seed).normal(size=(n, FEATURES))
    rows = store(folder, X, cuts, memory)
    assert rows.on_disk == (X.nbytes > memory and n >= rows.block_rows and n // 64 * 64 * 8 * FEATURES > memory)
    assert (rows.shape, len(rows), rows.ndim, rows.dtype) == (X.shape, n, 2, np.float64)
    part, expected = rows[start:stop], X[start:stop]
    assert isinstance(part, StoredRows)
    assert part.shape == expected.shape
    np.testing.assert_array_equal(part.read(0, len(part)), expected)
    np.testing.assert_array_equal(part[5:].read(0, 20), expected[5:][:20])
    np.testing.assert_array_equal(np.concatenate([np.empty((0, FEATURES)), *part.blocks()]), expected)
    np.testing.assert_array_equal(part[::7], expected[::7])
    np.testing.assert_array_equal(part[::-3], expected[::-3])
    mask = np.arange(len(part)) % 3 == 1
    np.testing.assert_array_equal(part[mask], expected[mask])
    if len(part):
        index = np.random.default_rng(seed).integers(-len(part), len(part), 40)
        np.testing.assert_array_equal(part[index], expected[index])
        np.testing.assert_array_equal(part[-1], expected[-1])
        some = np.random.default_rng(seed).permutation(len(part))[: len(part) * 2 // 3]
        taken = part.take(some, memory)
        np.testing.assert_array_equal(taken.read(0, len(taken)), expected[some])
    for index in range(part.block_count):
        np.testing.assert_array_equal(part.block(index, runs([4, 5, 0])), expected[part.span(index)][:, [4, 5, 0]])


def test_blocks_do_not_depend_on_batches(folder):
    X, _ = draw(400)
    one, many = store(folder, X), store(folder, X, range(400))
    assert one.block_count == many.block_count == 7
    assert [len(block) for block in one.blocks()] == [64] * 6 + [16]
    assert [len(block) for block in one[10:200].blocks()] == [54, 64, 64, 8]


def test_small_rows_of_other_types_are_stored_as_numbers(folder):
    rows = StoredRows.writing(folder, 2)
    rows.append(np.ones((70, 2), np.float32))
    rows.append(np.array([[1, 2]]))
    assert rows.read(69, 71).tolist() == [[1, 1], [1, 2]]


@pytest.mark.parametrize("named", [False, True], ids=["O_TMPFILE", "unlinked"])
def test_nobody_else_can_open_the_file_and_nothing_is_left(tmp_path, monkeypatch, named):
    if named:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    X, _ = draw(300)
    rows = store(tmp_path, X)
    about = os.fstat(rows._blocks._file)
    assert (about.st_nlink, about.st_mode & 0o777) == (0, 0o600)
    assert not os.get_inheritable(rows._blocks._file)
    assert list(tmp_path.iterdir()) == []
    np.testing.assert_array_equal(rows.read(0, 300), X)


def test_the_disk_has_its_room_back_with_the_last_view(tmp_path):
    rows = store(tmp_path, draw(300)[0])
    file, part = rows._blocks._file, rows[10:20]
    del rows
    os.fstat(file)
    assert len(part.read(0, 10)) == 10
    del part
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(file)


def test_closed_rows_are_gone(folder):
    rows = store(folder, draw(300)[0])
    file = rows._blocks._file
    rows.close()
    rows.close()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(file)
    with pytest.raises(InvalidSetting, match="closed"):
        rows.read(0, 1)


def test_many_threads_read_at_once(folder):
    X, _ = draw(4000)
    rows = store(folder, X)
    with ThreadPoolExecutor(8) as pool:
        for index, block in enumerate(pool.map(lambda i: rows.block(i, runs([5, 1])), range(rows.block_count))):
            np.testing.assert_array_equal(block, X[rows.span(index)][:, [5, 1]])


def test_what_a_store_refuses(folder, tmp_path):
    X, _ = draw(100)
    rows = store(folder, X)
    for wrong in (X[:, :-1], X[0]):
        with pytest.raises(WrongShape):
            rows.append(wrong)
    with pytest.raises(InvalidSetting, match="part"):
        rows[:50].append(X)
    with pytest.raises(InvalidSetting, match="twice"):
        rows.take(np.array([1, 2, 1]))
    with pytest.raises(InvalidSetting):
        StoredRows.writing(folder, 0)
    with pytest.raises(TypeError, match="memory"):
        np.asarray(rows)
    for wrong in (np.array([100]), np.array([-101]), np.zeros(99, bool)):
        with pytest.raises(IndexError):
            rows[wrong]
    with pytest.raises(StorageFailed, match="scratch file"):
        store(tmp_path / "absent", X)


def test_a_full_disk_is_said(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    rows = StoredRows.writing(tmp_path, 100)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        with pytest.raises(StorageFailed, match="written"):
            rows.append(np.ones((64, 100)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_that_was_cut_short_is_noticed(folder):
    rows = store(folder, draw(300)[0])
    os.truncate(rows._blocks._file, 1000)
    with pytest.raises(StorageFailed, match="ends early"):
        rows.read(0, 300)


def test_few_rows_never_touch_the_disk(tmp_path):
    rows = rows_store(tmp_path / "absent", FEATURES)
    X, _ = draw(5000)
    rows.append(X)
    assert not rows.on_disk
    np.testing.assert_array_equal(rows.read(0, 5000), X)
    assert rows_store(tmp_path, 1, 1000)._blocks.block_rows == 64


def test_rows_side_by_side_are_a_slice():
    assert as_slice(np.array([3, 4, 5])) == slice(3, 6)
    for index in ([], [3, 5], [5, 4, 3], [3, 5, 4, 6], [1, 1, 3]):
        assert isinstance(as_slice(np.array(index, dtype=np.intp)), np.ndarray)
    split = given_split(10, np.arange(10) >= 7)
    assert (split.level0, split.level1) == (slice(0, 7), slice(7, 10))
    split = given_split(10, slice(0, 4))
    assert (split.level0, split.level1) == (slice(4, 10), slice(0, 4))
    middle = given_split(10, slice(4, 6))
    assert middle.level0.tolist() == [0, 1, 2, 3, 6, 7, 8, 9]
    with pytest.raises(WrongShape):
        given_split(10, slice(0, 4, 2))


# -- checks -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("wild", [np.nan, np.inf, -np.inf, 1e101, -1e101])
def test_numbers_that_cannot_be_used_are_refused_before_the_charge(folder, wild):
    X, y = draw(200)
    X[137, 2] = wild
    account = Accountant.with_budget(10)
    with pytest.raises(NotFinite):
        PLR(Ball(1.0), 0.1, 1.0).fit(store(folder, X, [100]), y, accountant=account)
    assert account.spent.releases == 0


def test_shapes_are_checked_as_of_any_matrix(folder):
    rows = store(folder, draw(100)[0])
    assert check_matrix(rows, FEATURES) is rows
    with pytest.raises(WrongShape):
        check_matrix(rows, 5)
    with pytest.raises(EmptyData):
        check_matrix(rows[:0])


def test_labels_of_one_byte_stay_so():
    y = np.array([1, -1, 1], np.int8)
    assert check_labels(y, 3) is y
    assert check_labels(np.array([1, -1]), 2).dtype == np.float64


# -- the same model ---------------------------------------------------------------------------------------------------
BALL = Ball(2.5, intercept=0.4, offset=-0.3)
BALLS = (Ball(1.7, 0.7, (0, 5, 2), intercept=0.4), Ball(1.7, 0.3, (3, 4), scale=(1.0, 2.0)))
SPLIT = PLRFS(groups_of(BALLS, 0.1), NON_PRIVATE)
SOURCE = SPLIT.fit(*draw(300, 8))
ONE = PLR(BALL, 0.1, NON_PRIVATE)


def top(scores=MARGIN):
    return LevelOne(NON_PRIVATE, scores=scores)


WHATEVER_THE_ORDER = {
    "plr": ONE,
    "plr-huber": PLR(BALL, 0.1, NON_PRIVATE, loss=Huber()),
    "plr-fs": SPLIT,
    "simcomb": SimComb(ONE, ONE.fit(*draw(300, 8)), eta=0.3),
    "amp": AMP(BALL, NON_PRIVATE, 1e-6, 0.1),
}
BY_LEVEL = {
    "pst-f": PSTF(SPLIT, top()),
    "pst-f-sigmoid": PSTF(SPLIT, top(SIGMOID)),
    "pst-h": PSTH(SPLIT, top(SHARED), SOURCE, eta=0.2),
    "pst-h-scores": PSTH(SPLIT, top(), SOURCE, mix="scores"),
}
OF_AN_ORDER = {
    "dppsgd": DPPSGD(BALL, 0.1, NON_PRIVATE, passes=2, batch=7),
    "pst-s": PSTS(ONE, 3, top()),
    "pst-s-vote": PSTS(ONE, 3, MajorityVote()),
    "pst-f-drawn": PSTF(SPLIT, top()),
    "pst-f-vote": PSTF(SPLIT, WeightedVote()),
}


def weights(model):
    """All weights of a model, before any noise (its epsilon is infinite)."""
    if hasattr(model, "level0"):
        above = [model.combiner.model.weights] if hasattr(model.combiner, "model") else []
        return np.concatenate([*(each.weights for each in model.level0), *above])
    if hasattr(model, "groups"):
        return np.concatenate([group.weights for group in model.groups])
    return model.weights


def same(one, other):
    np.testing.assert_allclose(weights(one), weights(other), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", WHATEVER_THE_ORDER)
@settings(max_examples=8)
@given(cuts=CUTS, seed=st.integers(0, 1000), memory=st.sampled_from([0, 10_000, 1 << 20]))
def test_neither_batches_nor_order_nor_place_change_the_weights(folder, name, cuts, seed, memory):
    X, y = draw(500)
    order = np.random.default_rng(seed).permutation(len(y))
    learner = WHATEVER_THE_ORDER[name]
    same(learner.fit(store(folder, X[order], cuts, memory), y[order]), learner.fit(X, y.astype(float)))


@pytest.mark.parametrize("lam", [0.1, 0.001, 1e-4])
def test_nor_where_samples_lead_to_the_solution(folder, lam):
    """Another order is another sample, and another way."""
    X, y = draw(30_000)
    order = np.random.default_rng(1).permutation(len(y))
    learner = PLR(BALL, lam, NON_PRIVATE)
    same(learner.fit(store(folder, X[order]), y[order]), learner.fit(X, y.astype(float)))


@pytest.mark.parametrize("name", BY_LEVEL)
@settings(max_examples=8)
@given(cuts=CUTS, seed=st.integers(0, 1000), first=st.booleans())
def test_nor_with_rows_by_level(folder, name, cuts, seed, first):
    """Whichever level stands first."""
    X, y = draw(500)
    rng, high = np.random.default_rng(seed), np.arange(500) % 5 == 0
    low, top = (rng.permutation(np.flatnonzero(rows)) for rows in (~high, high))
    order = np.concatenate([top, low] if first else [low, top])
    learner = BY_LEVEL[name]
    level1 = slice(0, len(top)) if first else slice(len(low), 500)
    rows = store(folder, X[order], cuts)
    model = learner.fit(rows, y[order], level1=level1)
    expected = learner.fit(X, y, level1=high)
    same(model, expected)
    same(learner.fit(X[order], y[order], level1=level1), expected)
    np.testing.assert_allclose(model.margins(rows), expected.margins(X[order]), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", OF_AN_ORDER)
@settings(max_examples=8)
@given(cuts=CUTS, seed=st.integers(0, 1000))
def test_methods_that_draw_an_order_draw_the_same(folder, name, cuts, seed):
    X, y = draw(500)
    learner, rows = OF_AN_ORDER[name], store(folder, X, cuts)
    stored, held = (learner.fit(each, y, randomness=SeededRandomness(seed)) for each in (rows, X))
    same(stored, held)
    np.testing.assert_allclose(stored.margins(rows), held.margins(X), atol=1e-9)


@pytest.mark.parametrize(
    "learner",
    [
        PLR(BALL, 0.1, 1.0),
        PLRFS(groups_of(BALLS, 0.1), 1.0),
        AMP(BALL, 1.0, 1e-6),
        DPPSGD(BALL, 0.1, 1.0),
        PSTS(PLR(BALL, 0.1, 1.0), 2, LevelOne(1.0)),
        PSTF(PLRFS(groups_of(BALLS, 0.1), 1.0), LevelOne(1.0)),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_with_the_same_noise_the_same_release(folder, learner):
    X, y = draw(500)
    models = [learner.fit(each, y, randomness=SeededRandomness(4)) for each in (store(folder, X), X)]
    assert models[0].release == models[1].release
    np.testing.assert_allclose(weights(models[0]), weights(models[1]), rtol=1e-6, atol=1e-6)


def test_an_ensemble_of_scores(folder):
    X, y = draw(500)
    rows, partners = store(folder, X), [ONE.fit(*draw(300, seed)) for seed in (5, 6)]
    stored, held = (BoostedEnsemble(10).fit(partners, each, y) for each in (rows, X))
    np.testing.assert_allclose(stored.margins(rows), held.margins(X))
    np.testing.assert_allclose(stored.contributions(rows).values, held.contributions(X).values)


# -- what the solver does with them -----------------------------------------------------------------------------------
@pytest.mark.parametrize("ball", [Ball(2.0, intercept=0.5, offset=1.0), Ball(1.0, columns=(4, 5, 1)), *BALLS])
def test_records_are_the_same_numbers(folder, ball):
    X, y = draw(700)
    for start in (0, 1, 64, 100):
        held, kept = (Records.inside(ball, each[start:], y[start:]) for each in (X, store(folder, X)))
        w = np.linspace(-1, 1, held.dimension)
        np.testing.assert_allclose(kept.dense(), held.dense(), rtol=1e-14)
        np.testing.assert_allclose(kept.margins(w), held.margins(w), atol=1e-14)
        for stride in (1, 7, 100, 1000):
            np.testing.assert_allclose(kept.single(ALONE, stride), held.single(ALONE, stride), rtol=1e-6)
        index = np.array([5, 3, 599])
        np.testing.assert_allclose(kept.rows(index), held.rows(index), rtol=1e-14)
        np.testing.assert_allclose(kept.rows(range(60, 70)), held.dense()[60:70], rtol=1e-14)


def test_a_solution_from_samples_takes_as_few_passes(folder, monkeypatch):
    """To a tolerance; where it goes on from there, rounding decides which pass is the last."""
    monkeypatch.setattr(solve, "CLOSE", np.inf)
    X, y = draw(30_000)
    found = [
        minimise(Records.inside(BALL, each, y), LOGISTIC, np.zeros(7), 30.0, 1e-4) for each in (store(folder, X), X)
    ]
    np.testing.assert_allclose(found[0].w, found[1].w, rtol=1e-9, atol=1e-9)
    assert found[0].passes == found[1].passes


def test_a_line_search_that_holds_no_margins_finds_the_same_slopes(folder, monkeypatch):
    X, y = draw(500)
    w, step = np.linspace(-1, 2, 7), np.linspace(3, -1, 7)
    with ThreadPoolExecutor(2) as pool:
        for each in (X, store(folder, X)[3:], store(folder, X)):
            records = Records.inside(BALL, each, y[-len(each) :])
            objective = Blocked(records, LOGISTIC, np.arange(7.0), 0.7, Workers(pool, 3))
            held = objective.along(w, step)
            with monkeypatch.context() as patch:
                patch.setattr(blocked, "HELD_BYTES", 0)
                read = objective.along(w, step)
            for t in (0.0, 0.5, 2.0):
                assert read(t) == pytest.approx(held(t), rel=1e-12)
                assert read(t) == pytest.approx(float(objective.gradient(w + t * step) @ step), rel=1e-9)


def test_hard_problems_are_solved_by_passes_too(folder, monkeypatch):
    """Separable records at a small lambda, sorted by class, need line searches."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(8000, FEATURES))
    y = np.where(np.sort(X[:, 0]) > 0, 1, -1).astype(np.int8)
    X[:, 0] = np.sort(X[:, 0])
    held = minimise(Records.inside(Ball(1.0), X, y), Huber(0.01), np.zeros(FEATURES), 0.1, 1e-6)
    monkeypatch.setattr(blocked, "HELD_BYTES", 0)
    found = minimise(Records.inside(Ball(1.0), store(folder, X), y), Huber(0.01), np.zeros(FEATURES), 0.1, 1e-6)
    np.testing.assert_allclose(found.w, held.w, atol=1e-4)


def test_samples_are_bounded(monkeypatch):
    records = Records.inside(Ball(1.0), draw(10_000)[0])
    assert solve._stride(records) == 7
    for bound in (20_000, 10_000, 6_000):
        monkeypatch.setattr(solve, "SAMPLE_BYTES", bound)
        stride = solve._stride(records)
        assert records.single(ALONE, stride).nbytes <= bound + 4 * FEATURES
        assert all(stride % prime for prime in (2, 3, 5))


MEASURED = """
import sys
from pathlib import Path

import numpy as np

from crossward.learning.combining import LevelOne
from crossward.learning.plr import PLRFS, groups_of
from crossward.learning.records import Ball
from crossward.learning.stacking import PSTF
from crossward.learning.stored import StoredRows


def kilobytes(what):
    return int(Path("/proc/self/status").read_text().split(what + ":")[1].split()[0])


def fit(n):
    rng = np.random.default_rng(1)
    rows, y = StoredRows.writing(Path(sys.argv[1]), 40), np.empty(n, np.int8)
    for start in range(0, n, 5000):
        rows.append(rng.normal(size=(5000, 40)))
        y[start : start + 5000] = rng.choice([-1, 1], 5000)
    groups = groups_of([Ball(4.0, 0.5, tuple(range(k, k + 20))) for k in (0, 20)], 0.01)
    PSTF(PLRFS(groups, 1.0), LevelOne(1.0)).fit(rows, y, level1=slice(n * 3 // 4, n))


fit(20_000)
before = kilobytes("VmRSS")
fit(600_000)
print((kilobytes("VmHWM") - before) / 1024)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is measured as Linux tells it")
def test_memory_does_not_grow_with_the_records(tmp_path):
    """183 MB of records; the solver's sample of one group takes 6, and level-1's scores are few."""
    command = [sys.executable, "-c", MEASURED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 60


def test_levels_side_by_side_are_not_copied(monkeypatch):
    X, y = draw(500)
    shared, train = [], PLRFS.train

    def spy(self, rows, labels, randomness):
        shared.append(np.shares_memory(rows, X))
        return train(self, rows, labels, randomness)

    monkeypatch.setattr(PLRFS, "train", spy)
    for level1 in (slice(400, 500), np.arange(500) >= 400):
        PSTF(SPLIT, top()).fit(X, y, level1=level1)
    assert shared == [True, False] * 2  # level-1 trains on scores
