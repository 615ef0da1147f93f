"""`method: auto`: resolved as a study is read, from public facts alone, into numbers that every party approves."""

import json
from dataclasses import replace

import numpy as np
import pytest
import yaml

from crossward.errors import InvalidMessage, StudyInvalid
from crossward.learning.defaults import Circumstances, Defaults, Party
from crossward.privacy.noise import SeededRandomness
from crossward.protocol.constants import Role
from crossward.protocol.messages import ModelMessage
from crossward.study import Study, example, study_for
from crossward.study.wire import check_message, to_message, to_model
from crossward.study.work import announce, train
from crossward_lab.simulate.hospitals import Federation

COUNTS = {"main": 12_702, "branch-1": 4_334, "branch-2": 2_327}


def auto_study(schema, **sections):
    label = {"name": "outcome", "positive": True, "positive_rate": 0.125}
    given = {"method": "auto", "records": COUNTS, "label": label, "targets": ["branch-1", "branch-2"], **sections}
    return study_for(schema, **given)


@pytest.fixture(scope="module")
def hospitals():
    return Federation.simulate(branches=2, seed=4, scale=0.2)


def trained(n):
    return n * 16 // 20


def test_the_example_is_frozen_as_it_is_read():
    study = Study.from_yaml(example())
    assert study.method.name == "simcomb"
    assert study.chosen is not None
    assert "12,700" in study.chosen.why
    assert '"auto"' not in study.model_dump_json(include={"method"})
    assert Study.from_canonical(study.canonical()) == study
    assert Study.from_yaml(study.to_yaml()).digest == study.digest == Study.from_yaml(example()).digest


def test_a_study_that_still_says_auto_is_no_canonical_study():
    data = json.loads(Study.from_yaml(example()).canonical())
    data["method"] = {"name": "auto"}
    with pytest.raises(StudyInvalid, match="auto chooses encoding itself"):
        Study.from_canonical(json.dumps(data, sort_keys=True, separators=(",", ":")))
    for section in ("encoding", "chosen"):
        del data[section]
    with pytest.raises(InvalidMessage, match="canonical"):
        Study.from_canonical(json.dumps(data, sort_keys=True, separators=(",", ":")))
    with pytest.raises(ValueError, match="auto"):
        Study.model_validate(data)


def test_what_it_chooses(hospitals):
    assert auto_study(hospitals.schema).method.name == "simcomb"
    alone = auto_study(hospitals.schema, sources=(), records={"branch-1": 4_334, "branch-2": 2_327})
    assert alone.method.name == "direct"
    assert alone.epsilon.source is None
    borrowed = auto_study(hospitals.schema, epsilon=1.0).model_dump(mode="json", exclude={"encoding", "chosen"})
    borrowed |= {"method": "auto", "epsilon": {"source": 1.0}}
    lent = Study.from_data({name: value for name, value in borrowed.items() if value is not None})
    assert lent.method.name == "sourced"
    assert lent.method.learner.loss == "huber"


@pytest.mark.parametrize("epsilon", [0.02, 0.3, 4.0])
def test_the_frozen_learners_are_those_of_the_rules(hospitals, epsilon):
    """Up to the four digits that a study writes, and exactly so for the smallest and the largest target."""
    study = auto_study(hospitals.schema, epsilon=epsilon)
    sources = (Party(trained(COUNTS["main"]), epsilon),)
    targets = tuple(Party(trained(COUNTS[name]), epsilon) for name in study.targets)
    facts = Circumstances.from_schema(hospitals.schema, sources=sources, targets=targets, prevalence=0.125)
    rules, features = Defaults.of(facts), len(hospitals.schema.columns)
    wanted, got = rules.source(sources[0]), source_learner(study, sources[0].records)
    assert got.ball.columns == wanted.ball.columns
    # A ball is the same when scale and radius are multiplied by one number.
    assert np.divide(got.ball.scale, got.ball.radius) == pytest.approx(
        np.divide(wanted.ball.scale, wanted.ball.radius), rel=1e-3
    )
    assert (got.ball.intercept, got.ball.offset) == pytest.approx((wanted.ball.intercept, wanted.ball.offset), rel=1e-3)
    assert (got.lam, got.loss, got.jacobian) == (pytest.approx(wanted.lam, rel=1e-3), wanted.loss, wanted.jacobian)
    dimension = wanted.ball.dimension(features)
    assert got.pull.centre(dimension) == pytest.approx(wanted.pull.centre(dimension), rel=1e-3)
    released = [replace(got, epsilon=epsilon).fit(*_some(features), randomness=SeededRandomness(1))]
    for party in targets:
        learner = study.method.target_work(study.terms, party.records, released).learner
        assert learner.lam == pytest.approx(rules.lambda_pulled(party), rel=2e-3)
        assert learner.loss == wanted.loss


def source_learner(study, n):
    return study.method.source_work(study.terms, n).learner


def _some(features, n=300):
    rng = np.random.default_rng(0)
    return rng.uniform(-1, 1, size=(n, features)), np.where(rng.random(n) < 0.3, 1.0, -1.0)


def test_parties_train_what_auto_chose_and_others_can_check_it(hospitals):
    """A federation in one process: source, message, target, message, and back to a model that predicts as trained."""
    counts = {"main": len(hospitals.main.labels), "branch-1": len(hospitals.branches[0].labels)}
    study = auto_study(hospitals.schema, targets=["branch-1"], records=counts, epsilon=2.0)
    assert study.encoding.start is not None
    X, y = hospitals.main.encode(study.schema)
    source = train(study, Role.SOURCE, X, y, ["level0"] * len(y), randomness=SeededRandomness(2))
    announced = announce(study, Role.SOURCE, {"level0": len(y)})
    assert source.release == announced.with_seed_mark(True)
    sent = to_message(study, source, "main")
    X, y = hospitals.branches[0].encode(study.schema)
    models = [to_model(study, sent)]
    target = train(study, Role.TARGET, X, y, ["level0"] * len(y), models, SeededRandomness(3))
    received = ModelMessage.from_json(to_message(study, target, "branch-1", [sent]).canonical())
    check_message(study, received, allow_seeded=True)
    assert np.array_equal(to_model(study, received).margins(X), target.margins(X))
    described = json.loads(json.dumps(received.release))
    described["parameters"]["groups"][0]["ball"]["offset"] = 0.5
    with pytest.raises(InvalidMessage, match="not the one that the study leads to"):
        check_message(study, received.model_copy(update={"release": described}), allow_seeded=True)


def test_declared_directions_are_where_a_source_starts(hospitals):
    features = [{**f, "direction": None} for f in hospitals.schema.to_dict()["features"]]
    told = auto_study(hospitals.schema, epsilon=0.05)
    silent = auto_study(hospitals.schema, epsilon=0.05, features=features)
    assert silent.encoding.start is None
    start = told.encoding.start.columns
    assert start["Glu0"] > 0 > start["HDL"]
    assert source_learner(told, 10_000).pull is not None
    assert source_learner(silent, 10_000).pull is None


def test_smaller_targets_are_held_more_tightly(hospitals):
    study = auto_study(hospitals.schema, epsilon=0.1)
    lam = study.method.lam_target
    assert lam.at(trained(2_327)) > lam.at(trained(4_334))
    with pytest.raises(StudyInvalid, match="above 0"):
        study_for(hospitals.schema, method={"name": "direct", "lam_target": -1})
    with pytest.raises(StudyInvalid, match="power"):
        study_for(hospitals.schema, method={"name": "direct", "lam_target": {"value": 1, "records": 5, "power": -1}})


RECORDS = "records: {main: 12700, branch-1: 4300, branch-2: 4700}"


@pytest.mark.parametrize(
    ("old", "new", "field", "words"),
    [
        ("method: auto", "method: {name: auto, eta: 0}", "method", "takes no settings"),
        ("method: auto", "method: auto\nencoding: {radius: 0.3}", "encoding", "auto chooses"),
        ("method: auto", "method: auto\ngroups: {kind: importance, k: 2}", "groups", "auto chooses"),
        (RECORDS, "", "records", "none for main, branch-1, branch-2"),
        (RECORDS, "records: {main: 12700}", "records", "none for branch-1, branch-2"),
        ("branch-2: 4700", "branch-2: 4700, branch-9: 3", "records.branch-9", "takes no part"),
        ("branch-2: 4700", "branch-2: 0", "records.branch-2", "at least 1"),
        ("{source: 1, target: 1}", "{target: 1}", "epsilon.source", "Each source"),
        ("{source: 1, target: 1}", "{source: 1, target: 1e-4}", "records.branch-1", "epsilon.target to use"),
        ("sources: [main]", "sources: []", "epsilon.source", "no sources"),
        ("low: 16", "low: 60", "features[3]", "bmi"),
    ],
)
def test_what_keeps_it_from_choosing_is_named_with_its_line(old, new, field, words):
    text = example()
    assert old in text
    with pytest.raises(StudyInvalid) as caught:
        Study.from_yaml(text.replace(old, new))
    found = {problem.field: problem for problem in caught.value.problems}
    assert field in found
    assert words in f"{found[field].cause} {found[field].fix}"
    assert found[field].line is not None


def test_the_same_facts_in_any_writing_give_the_same_study():
    data = yaml.safe_load(example())
    other = dict(reversed(data.items())) | {"method": {"name": "auto"}}
    other["records"] = dict(reversed(data["records"].items()))
    assert Study.from_data(other).digest == Study.from_yaml(example()).digest
