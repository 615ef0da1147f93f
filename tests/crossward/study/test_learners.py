"""Every method of the papers, from a study and encoded rows to a model that scores."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from crossward.errors import CrosswardError, InvalidSetting, TooFewRecords, WrongShape
from crossward.learning.amp import AMP
from crossward.learning.dppsgd import DPPSGD
from crossward.learning.plr import PLR
from crossward.learning.plr_fs import PLRFS
from crossward.study import Study, study_for
from crossward.study.learners import (
    Use,
    aggregate,
    balls_for,
    cells_for,
    charged_cells,
    cost,
    source_learner,
    target_learner,
    train_target,
    trains,
)

EXAMPLE = Path(__file__).with_name("first_example.yaml").read_text()


def inputs_of(study, federation, trained):
    """What the target is sent: the sources' models or, under the feature method, the aggregator's one."""
    models = [source.model for source in trained]
    if study.method.name == "feature":
        public = federation.branches[2].encode(study.schema)
        return [aggregate(study, models, *public).model]
    return models


def test_every_method_trains(study, federation, randomness, rows, sources_of):
    trained = sources_of(study, federation, randomness)
    inputs = inputs_of(study, federation, trained)
    X, y, level = rows(study, "target", federation.branches[1])
    target = train_target(study, inputs, X, y, level, randomness)

    for source in trained:
        assert source.release.epsilon == study.epsilon.source
        assert source.release == cost(study, "source", {"level0": source.n}).with_seed_mark(True)
    counts = {name: int(np.sum(level == name)) for name in cells_for(study, "target") if name != "holdout"}
    announced = cost(study, "target", counts, inputs)
    if study.method.target_pays:
        assert target.release == announced.with_seed_mark(True)
        assert target.release.epsilon == study.epsilon.target
        assert target.n == len(y) == sum(counts.values())
        assert cost(study, "target", counts).epsilon == target.release.epsilon
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
    for role in ("source", "target"):
        levels = cells_for(study, role)
        used = [cell for cells in levels.values() for cell in cells]
        assert len(used) == len(set(used))
        assert levels["holdout"] == (16, 17, 18, 19)
        assert set(charged_cells(study, role)).isdisjoint(levels["holdout"])
        if trains(study, role):
            assert sorted(used) == list(range(20))


def test_cells_of_each_kind():
    schema = Study.from_yaml(EXAMPLE).schema
    stacked = study_for(schema, method="pst-h")
    low, high = tuple(range(12)), (12, 13, 14, 15)
    assert cells_for(stacked, "target") == {"level0": low, "level1": high, "holdout": (16, 17, 18, 19)}
    assert cells_for(stacked, "source")["level0"] == low + high
    vote = study_for(schema, method={"name": "pst-f", "combiner": "C-mv"})
    assert cells_for(vote, "target") == {"level0": low + high, "holdout": (16, 17, 18, 19)}
    parts = cells_for(study_for(schema, method={"name": "pst-s", "parts": 5}), "target")
    assert parts["level0/1"] == (0, 1, 2)
    assert [len(parts[f"level0/{k}"]) for k in range(1, 6)] == [3, 3, 2, 2, 2]
    assert parts["level1"] == high
    assert charged_cells(study_for(schema, method="boosted"), "target") == ()
    halves = study_for(schema, method="pst-f", cells={"level0": 8, "level1": 8, "holdout": 4})
    assert cells_for(halves, "target")["level1"] == tuple(range(8, 16))


def test_source_learners(federation):
    def learner(method):
        return source_learner(study_for(federation.schema, method=method), 1000)

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
    balls = balls_for(study, "target")
    assert len(balls) == 4
    assert sum(ball.q for ball in balls) == pytest.approx(1)
    assert [ball.q for ball in balls] == sorted((ball.q for ball in balls), reverse=True)
    assert sorted(column for ball in balls for column in ball.columns) == list(range(len(study.schema.columns)))


def test_where_the_target_trains_nothing_rows_are_not_looked_at(federation, randomness, sources_of):
    study = study_for(federation.schema, method="sourced")
    sources = [source.model for source in sources_of(study, federation, randomness)]
    assert isinstance(target_learner(study, sources, 1000), Use)
    nothing = np.empty((0, 0))
    model = train_target(study, sources, nothing, np.empty(0), [], randomness)
    X, _ = federation.main.encode(study.schema)
    assert np.array_equal(model.margins(X), sources[0].margins(X))


def test_below_the_quorum_a_target_does_not_start(federation, randomness, sources_of):
    study = study_for(federation.schema, method="simcomb", sources=["main", "other"])
    sources = [source.model for source in sources_of(study, federation, randomness)]
    with pytest.raises(InvalidSetting, match="2 released models"):
        target_learner(study, sources[:1], 1000)
    patient = study_for(federation.schema, method="simcomb", sources=["a", "b"], quorum={"sources": 1})
    assert target_learner(patient, sources[:1], 1000)
    with pytest.raises(InvalidSetting, match="1 to 2"):
        target_learner(patient, [*sources, *sources], 1000)
    with pytest.raises(InvalidSetting, match="0 released models"):
        target_learner(study_for(federation.schema, method="direct"), sources, 1000)


def test_models_of_another_kind_are_refused(federation, randomness, sources_of):
    grouped = study_for(federation.schema, method="pst-h")
    single = study_for(federation.schema, method="simcomb")
    split = [s.model for s in sources_of(grouped, federation, randomness)]
    one = [s.model for s in sources_of(single, federation, randomness)]
    with pytest.raises(InvalidSetting, match="groups"):
        target_learner(single, split, 1000)
    with pytest.raises(InvalidSetting, match="groups"):
        target_learner(grouped, one, 1000)


def test_rows_are_checked_before_anything_is_drawn(federation, rows):
    study = study_for(federation.schema, method="pst-f")
    X, y, level = rows(study, "target", federation.branches[1])
    for given, labels, levels, error, word in (
        (X[:, :-1], y, level, WrongShape, "columns"),
        (X, y, level[:-1], WrongShape, "levels"),
        (X, y, np.where(level == "level1", "holdout", level), InvalidSetting, "holdout"),
        (X, y, np.full(len(y), "level0"), TooFewRecords, "level1"),
    ):
        with pytest.raises(error, match=word):
            train_target(study, [], given, labels, levels, _Broken())


class _Broken:
    """Randomness that must not be asked."""

    seeded = True

    def __getattr__(self, name):
        raise AssertionError(name)


def test_costs_are_asked_for_level_by_level(federation):
    study = study_for(federation.schema, method="pst-f")
    with pytest.raises(InvalidSetting, match="level0, level1"):
        cost(study, "target", {"level0": 10})
    with pytest.raises(TooFewRecords, match="level1"):
        cost(study, "target", {"level0": 10, "level1": 0})
    with pytest.raises(CrosswardError):
        cost(study, "source", {"level0": 10})


def test_aggregates(federation, randomness, sources_of):
    study = study_for(federation.schema, method={"name": "feature", "public_set": "p"})
    sources = [s.model for s in sources_of(study, federation, randomness)]
    with pytest.raises(InvalidSetting, match="public set"):
        aggregate(study, sources)
    with pytest.raises(InvalidSetting, match="quorum"):
        aggregate(study, [])
    mean = aggregate(study_for(federation.schema, method="average"), sources)
    assert np.array_equal(mean.model.weights, sources[0].weights)
    assert mean.release.epsilon == sources[0].release.epsilon
