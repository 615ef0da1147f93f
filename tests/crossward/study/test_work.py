"""Every method of the papers, from a study and encoded rows to a model that scores."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from crossward.errors import CrosswardError, InvalidSetting, TooFewRecords, WrongShape
from crossward.learning.amp import AMP
from crossward.learning.dppsgd import DPPSGD
from crossward.learning.plr import PLR, PLRFS
from crossward.learning.stored import StoredRows
from crossward.privacy.noise import SeededRandomness
from crossward.protocol.constants import Role
from crossward.study import Study, study_for
from crossward.study.work import aggregate, announce, charged_cells, train
from crossward.study.work import levels as levels_of

EXAMPLE = Path(__file__).with_name("first_example.yaml").read_text()


def inputs_of(study, federation, trained):
    """What the target is sent: the sources' models or, under the feature method, the aggregator's one."""
    models = [source.model for source in trained]
    if study.method.aggregates:
        public = federation.branches[2].encode(study.schema)
        return [aggregate(study, models, *public).model]
    return models


def test_every_method_trains(study, federation, randomness, rows, sources_of):
    trained = sources_of(study, federation, randomness)
    inputs = inputs_of(study, federation, trained)
    X, y, level = rows(study, Role.TARGET, federation.branches[1])
    target = train(study, Role.TARGET, X, y, level, inputs, randomness)

    for source in trained:
        assert source.release.epsilon == study.epsilon.source
        assert source.release == announce(study, Role.SOURCE, {"level0": source.n}).with_seed_mark(True)
    counts = {name: int(np.sum(level == name)) for name in levels_of(study, Role.TARGET) if name != "holdout"}
    announced = announce(study, Role.TARGET, counts, inputs)
    if study.method.target_pays:
        assert target.release == announced.with_seed_mark(True)
        assert target.release.epsilon == study.epsilon.target
        assert target.n == len(y) == sum(counts.values())
        assert announce(study, Role.TARGET, counts).epsilon == target.release.epsilon
    else:
        assert target.release is None
        assert announced is None
    whole, labels = federation.branches[1].encode(study.schema)
    scores = target.scores(whole)
    assert scores.shape == labels.shape
    assert np.all((scores >= 0) & (scores <= 1))
    if getattr(study.method, "scores", "margin") == "margin":  # sigmoid scores may flip: docs/adr/0007
        assert roc_auc_score(labels, target.margins(whole)) > 0.45


def test_cells_are_disjoint_and_the_holdout_is_one(study):
    for role in Role:
        levels = levels_of(study, role)
        used = [cell for cells in levels.values() for cell in cells]
        assert len(used) == len(set(used))
        assert levels["holdout"] == (16, 17, 18, 19)
        assert set(charged_cells(study, role)).isdisjoint(levels["holdout"])
        if study.method.trains(role):
            assert sorted(used) == list(range(20))


def test_cells_of_each_kind():
    schema = Study.from_yaml(EXAMPLE).schema
    stacked = study_for(schema, method="pst-h")
    low, high = tuple(range(12)), (12, 13, 14, 15)
    assert levels_of(stacked, Role.TARGET) == {"level0": low, "level1": high, "holdout": (16, 17, 18, 19)}
    assert levels_of(stacked, Role.SOURCE)["level0"] == low + high
    vote = study_for(schema, method={"name": "pst-f", "combiner": "C-mv"})
    assert levels_of(vote, Role.TARGET) == {"level0": low + high, "holdout": (16, 17, 18, 19)}
    parts = levels_of(study_for(schema, method={"name": "pst-s", "parts": 5}), Role.TARGET)
    assert parts["level0/1"] == (0, 1, 2)
    assert [len(parts[f"level0/{k}"]) for k in range(1, 6)] == [3, 3, 2, 2, 2]
    assert parts["level1"] == high
    assert charged_cells(study_for(schema, method="boosted"), Role.TARGET) == ()
    halves = study_for(schema, method="pst-f", cells={"level0": 8, "level1": 8, "holdout": 4})
    assert levels_of(halves, Role.TARGET)["level1"] == tuple(range(8, 16))


def test_source_learners(federation):
    def learner(method):
        study = study_for(federation.schema, method=method)
        return study.method.source_work(study.terms, 1000).learner

    assert isinstance(learner("pst-h"), PLRFS)
    assert isinstance(learner("simcomb"), PLR)
    assert isinstance(learner({"name": "boosted", "learner": {"name": "dppsgd", "passes": 3}}), DPPSGD)
    amp = learner({"name": "average", "learner": {"name": "amp", "delta": 1e-7, "lam": 0.2}})
    assert isinstance(amp, AMP)
    assert (amp.delta, amp.lam) == (1e-7, 0.2)
    with pytest.raises(InvalidSetting, match="no sources"):
        learner("direct")


def test_groups_and_radii_follow_the_study(federation):
    study = study_for(federation.schema, method="pst-h", groups=4, encoding={"radius": 0.5, "intercept": 0})
    balls = study.terms.groups
    assert len(balls) == 4
    assert sum(ball.q for ball in balls) == pytest.approx(1)
    assert [ball.q for ball in balls] == sorted((ball.q for ball in balls), reverse=True)
    assert sorted(column for ball in balls for column in ball.columns) == list(range(len(study.schema.columns)))


def test_where_the_target_trains_nothing_rows_are_not_looked_at(federation, randomness, sources_of):
    study = study_for(federation.schema, method="sourced")
    sources = [source.model for source in sources_of(study, federation, randomness)]
    assert study.method.target_work(study.terms, 1000, sources).ready is not None
    nothing = np.empty((0, 0))
    model = train(study, Role.TARGET, nothing, np.empty(0), [], sources, randomness)
    X, _ = federation.main.encode(study.schema)
    assert np.array_equal(model.margins(X), sources[0].margins(X))


def counts(study):
    return {level: 1000 for level in levels_of(study, Role.TARGET) if level != "holdout"}


def test_below_the_quorum_a_target_does_not_start(federation, randomness, sources_of):
    study = study_for(federation.schema, method="simcomb", sources=["main", "other"])
    sources = [source.model for source in sources_of(study, federation, randomness)]
    with pytest.raises(InvalidSetting, match="2 released models"):
        announce(study, Role.TARGET, counts(study), sources[:1])
    patient = study_for(federation.schema, method="simcomb", sources=["a", "b"], quorum={"sources": 1})
    assert announce(patient, Role.TARGET, counts(patient), sources[:1])
    with pytest.raises(InvalidSetting, match="1 to 2"):
        announce(patient, Role.TARGET, counts(patient), [*sources, *sources])
    alone = study_for(federation.schema, method="direct")
    with pytest.raises(InvalidSetting, match="0 released models"):
        announce(alone, Role.TARGET, counts(alone), sources)


def test_models_of_another_kind_are_refused(federation, randomness, sources_of):
    grouped = study_for(federation.schema, method="pst-h")
    single = study_for(federation.schema, method="simcomb")
    split = [s.model for s in sources_of(grouped, federation, randomness)]
    one = [s.model for s in sources_of(single, federation, randomness)]
    with pytest.raises(InvalidSetting, match="groups"):
        announce(single, Role.TARGET, counts(single), split)
    with pytest.raises(InvalidSetting, match="groups"):
        announce(grouped, Role.TARGET, counts(grouped), one)


def test_rows_are_checked_before_anything_is_drawn(federation, rows):
    study = study_for(federation.schema, method="pst-f")
    X, y, level = rows(study, Role.TARGET, federation.branches[1])
    for given, labels, levels, error, word in (
        (X[:, :-1], y, level, WrongShape, "columns"),
        (X, y, level[:-1], WrongShape, "levels"),
        (X, y, np.where(level == "level1", "holdout", level), InvalidSetting, "holdout"),
        (X, y, np.full(len(y), "level0"), TooFewRecords, "level1"),
    ):
        with pytest.raises(error, match=word):
            train(study, Role.TARGET, given, labels, levels, (), _Broken())


class _Broken:
    """Randomness that must not be asked."""

    seeded = True

    def __getattr__(self, name):
        raise AssertionError(name)


def test_costs_are_asked_for_level_by_level(federation):
    study = study_for(federation.schema, method="pst-f")
    with pytest.raises(InvalidSetting, match="level0, level1"):
        announce(study, Role.TARGET, {"level0": 10})
    with pytest.raises(TooFewRecords, match="level1"):
        announce(study, Role.TARGET, {"level0": 10, "level1": 0})
    with pytest.raises(CrosswardError):
        announce(study, Role.SOURCE, {"level0": 10})


def test_aggregates(federation, randomness, sources_of):
    study = study_for(federation.schema, method={"name": "feature", "public_set": "p"})
    sources = [s.model for s in sources_of(study, federation, randomness)]
    public = federation.branches[2].encode(study.schema)
    with pytest.raises(InvalidSetting, match="quorum"):
        aggregate(study, [], *public)
    with pytest.raises(InvalidSetting, match="aggregates nothing"):
        aggregate(study_for(federation.schema, method="average"), sources, *public)
    weighed = aggregate(study, sources, *public)
    assert weighed.release.epsilon == sources[0].release.epsilon


def test_an_average_is_each_targets_own(federation, randomness, sources_of):
    study = study_for(federation.schema, method="average")
    sources = [s.model for s in sources_of(study, federation, randomness)]
    mean = train(study, Role.TARGET, np.empty((0, 0)), np.empty(0), [], sources, randomness)
    assert np.array_equal(mean.model.weights, sources[0].weights)


def by_level(study, X, y, level):
    """The rows, level by level, on disk; their labels in a byte each; and where each level is."""
    names = [name for name in levels_of(study, Role.TARGET) if name != "holdout" and np.any(level == name)]
    order = np.concatenate([np.flatnonzero(level == name) for name in names] or [np.empty(0, int)])
    ends = np.cumsum([0, *(int(np.sum(level == name)) for name in names)]).tolist()
    slices = {name: slice(*ends[k : k + 2]) for k, name in enumerate(names)}
    return X[order], y[order].astype(np.int8), slices


def test_rows_on_disk_by_level_give_what_rows_in_memory_give(study, federation, sources_of, rows, tmp_path):
    inputs = inputs_of(study, federation, sources_of(study, federation, SeededRandomness(11)))
    X, y, slices = by_level(study, *rows(study, Role.TARGET, federation.branches[1]))
    stored = StoredRows.writing(tmp_path, X.shape[1])
    for batch in np.array_split(X, 7):
        stored.append(batch)
    level = np.repeat(list(slices), [part.stop - part.start for part in slices.values()])
    models = [
        train(study, Role.TARGET, each, y, where, inputs, SeededRandomness(3))
        for each, where in ((X, level), (X, slices), (stored, slices), (stored, level))
    ]
    whole, _ = federation.branches[1].encode(study.schema)
    for model in models[1:]:
        assert model.release == models[0].release
        np.testing.assert_allclose(model.margins(whole), models[0].margins(whole), rtol=1e-6, atol=1e-6)
    if study.method.trains(Role.TARGET):
        np.testing.assert_allclose(models[0].scores(stored), models[0].scores(X), atol=1e-12)


def test_slices_must_cut_the_rows_into_levels(federation, rows):
    study = study_for(federation.schema, method="pst-f")
    X, y, slices = by_level(study, *rows(study, Role.TARGET, federation.branches[1]))
    cut, n = slices["level0"].stop, len(y)
    for wrong in (
        {"level0": slice(0, cut), "level1": slice(cut + 1, n)},
        {"level0": slice(0, cut + 1), "level1": slice(cut, n)},
        {"level0": slice(0, cut), "level1": slice(cut, n - 1)},
        {"level0": slice(1, cut), "level1": slice(cut, n)},
        {"level0": slice(0, n, 2), "level1": slice(1, n, 2)},
    ):
        with pytest.raises(WrongShape, match="parts"):
            train(study, Role.TARGET, X, y, wrong, (), _Broken())
    with pytest.raises(InvalidSetting, match="holdout"):
        train(study, Role.TARGET, X, y, slices | {"holdout": slice(0, 0)}, (), _Broken())
    with pytest.raises(TooFewRecords, match="level1"):
        train(study, Role.TARGET, X, y, {"level0": slice(0, n)}, (), _Broken())
