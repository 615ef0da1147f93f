"""Every rule of a study, with the line and the field it names."""

import pickle
from pathlib import Path

import pytest
from pydantic import ValidationError

from crossward.errors import InvalidSetting, StudyInvalid
from crossward.study import Study

EXAMPLE = Path(__file__).with_name("first_example.yaml").read_text()


def problems_of(text):
    with pytest.raises(StudyInvalid) as caught:
        Study.from_yaml(text)
    return caught.value.problems


def changed(*edits):
    """The example with pieces of its text replaced."""
    text = EXAMPLE
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text


def line_of(text, piece):
    return text[: text.index(piece)].count("\n") + 1


ONE_PROBLEM = [
    # old text, new text, field, a word of the cause, a word of the fix
    ("id: diabetes-2026", "id: Diabetes 2026", "id", "identifier", "dashes"),
    ("version: 1", "version: 2", "version", "not one of", "1"),
    ("title: Who", "titel: Who", "titel", "not known", "Did you mean 'title'"),
    ("positive: true", "positive: [1]", "label.positive", "cannot mark", "text"),
    ("positive: true", "positive: 1, negative: '1'", "label", "both", "two values"),
    ("low: 3.5", "low: 7.5", "features[0]", "range", "low below"),
    ("low: 3.5", "low: .nan", "features[0].low", "nan", "finite"),
    ("low: 3.5", "low: wide", "features[0].low", "'wide'", "a number"),
    ("low: 3.5", "low: true", "features[0].low", "True", "a number"),
    ("default: 5.5", "default: 9", "features[0]", "default", "3.5 to 7.5"),
    ("kind: number, name: Glu0", "kind: numbr, name: Glu0", "features[0].kind", "'numbr'", "Did you mean 'number'"),
    ("kind: number, name: Glu0", "name: Glu0", "features[0]", "no 'kind'", "Add"),
    ("kind: number, name: Glu0, low", "kind: number, name: Glu0, lowest: 1, low", "features[0].lowest", "known", "low"),
    ("importance: 0.06}", "importance: -1}", "features[0].importance", "-1", "at least 0"),
    ("name: HbA1c", "name: Glu0", "features[1].name", "twice", "Rename"),
    ("name: HbA1c", "name: diabetes", "features[1].name", "label", "Remove"),
    (
        "default: never, importance: 0.018}",
        "default: never}\n  - {kind: flag, name: smoker=never}",
        "features[8].name",
        "column",
        "R",
    ),
    ("[never, former, current], default: never", "[yes, no]", "features[7].levels[0]", "YAML reads yes", '"yes"'),
    ("[never, former, current], default: never", "[1, 2]", "features[7].levels[1]", "YAML reads 2", '"2"'),
    ("[never, former, current], default: never", "[one]", "features[7].levels", "little", "2"),
    ("default: never", "default: sometimes", "features[7]", "default", "one of"),
    ("k: 2}", "k: 11}", "groups.k", "10 columns cannot", "at most 10"),
    ("k: 2}", "k: 0}", "groups.k", "0", "at least 1"),
    ("k: 2}", "k: 2.5}", "groups.k", "2.5", "whole number"),
    ("kind: importance, k: 2", "kind: important, k: 2", "groups.kind", "'important'", "'importance'"),
    (", default: 5.5, importance: 0.06", ", default: 5.5", "features[0].importance", "declares none", "uniform"),
    ("groups: {kind: importance, k: 2}\n", "", "groups", "pst-h groups", "importance"),
    ("radius: 0.35", "radius: 0", "encoding.radius", "0", "above 0"),
    ("eta: 0", "eta: 1.5", "method.eta", "1.5", "at most 1"),
    ("eta: 0", "etta: 0", "method.etta", "not known", "Did you mean 'eta'"),
    ("name: pst-h", "name: psth", "method.name", "'psth'", "'pst-h'"),
    ("combiner: C-hl", "combiner: C-xy", "method.combiner", "'C-xy'", "C-wmv"),
    ("epsilon: {source: 1, target: 1}", "epsilon: {source: 0, target: 1}", "epsilon.source", "0", "above 0"),
    ("epsilon: {source: 1, target: 1}", "epsilon: {target: 1}", "epsilon.source", "Each source", "epsilon.source"),
    ("epsilon: {source: 1, target: 1}", "epsilon: {source: 1}", "epsilon.target", "Each target", "epsilon.target"),
    ("targets: [branch-1, branch-2]", "targets: [branch-1, branch-1]", "targets[1]", "twice", "once"),
    ("targets: [branch-1, branch-2]", "targets: [branch-1, main]", "targets[1]", "both", "one role"),
    ("targets: [branch-1, branch-2]", "targets: []", "targets", "little", "1"),
    ("targets: [branch-1, branch-2]", "targets: branch-1", "targets", "'branch-1'", "a list"),
    ("{sources: 1, deadline: 2h}", "{sources: 2, deadline: 2h}", "quorum.sources", "2", "at most 1"),
    ("{sources: 1, deadline: 2h}", "{sources: 0, deadline: 2h}", "quorum.sources", "nothing", "1 or more"),
    ("deadline: 2h", "deadline: soon", "quorum.deadline", "'soon'", "PT2H"),
    ("deadline: 2h", "deadline: 7200", "quorum.deadline", "7200", "2h"),
    ("holdout: 4", "holdout: 5", "cells", "= 21", "sum to 20"),
    ("level0: 12, level1: 4", "level0: 16, level1: 0", "cells.level1", "no cells", "C-wmv"),
]


@pytest.mark.parametrize(("old", "new", "field", "cause", "fix"), ONE_PROBLEM)
def test_one_problem_is_named_with_its_line(old, new, field, cause, fix):
    text = changed((old, new))
    found = {problem.field: problem for problem in problems_of(text)}
    assert field in found, found
    problem = found[field]
    assert cause in problem.cause
    assert fix in problem.fix
    if new:
        assert problem.line == line_of(EXAMPLE, old) + new.count("\n")


def method(settings, *edits):
    """The example with another method, its epsilon and groups edited to suit."""
    start, end = EXAMPLE.index("method:"), EXAMPLE.index("epsilon:")
    text = EXAMPLE[:start] + f"method: {settings}\n" + EXAMPLE[end:]
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return text


ALONE = (
    ("sources: [main]\n", ""),
    ("{sources: 1, deadline: 2h}", "{deadline: 2h}"),
    ("{source: 1, target: 1}", "{target: 1}"),
    ("groups: {kind: importance, k: 2}\n", ""),
)
LENT = (("{source: 1, target: 1}", "{source: 1}"), ("groups: {kind: importance, k: 2}\n", ""))


@pytest.mark.parametrize(
    ("settings", "edits", "field", "word"),
    [
        ("direct", (), "sources", "uses no sources"),
        ("direct", (), "epsilon.source", "No source releases"),
        ("direct", (), "groups", "does not group"),
        ("sourced", (), "epsilon.target", "No target releases"),
        ("simcomb", (("sources: [main]", "sources: []"),), "sources", "none is listed"),
        ("{name: amp}", ALONE, "method.delta", "missing"),
        ("{name: amp, delta: 1}", ALONE, "method.delta", "1"),
        ("{name: amp, delta: 1e-6}", (*ALONE, ("target: 1}", "target: 100}")), "method", "too large"),
        ("{name: average, learner: amp}", LENT, "method.learner.delta", "missing"),
        ("{name: average, learner: plrr}", LENT, "method.learner", "'plrr'"),
        ("{name: average, learner: {name: dppsgd, batches: 3}}", LENT, "method.learner.batches", "not known"),
        ("{name: feature}", LENT, "method.public_set", "missing"),
        ("{name: pst-s, parts: 13}", ALONE, "method.parts", "12 cells"),
        ("{name: pst-s, parts: 17, combiner: C-mv}", ALONE, "method.parts", "16 cells"),
        ("7", (), "method", "7"),
    ],
)
def test_methods_and_what_they_need(settings, edits, field, word):
    text = method(settings, *edits)
    found = {problem.field: problem for problem in problems_of(text)}
    assert word in found[field].cause
    assert found[field].line
    assert found[field].fix


@pytest.mark.parametrize(
    ("settings", "edits"),
    [
        ("direct", ALONE),
        ("{name: amp, delta: 1e-6}", ALONE),
        ("{name: pst-s, parts: 16, combiner: C-mv}", ALONE),
        ("{name: feature, public_set: survey, learner: dppsgd}", LENT),
        ("sourced", LENT),
    ],
)
def test_methods_as_they_should_be(settings, edits):
    assert Study.from_yaml(method(settings, *edits)).to_yaml()


def test_scaled_columns_need_an_importance_above_zero():
    text = method("direct", *ALONE)
    for value in ("0.06", "0.058", "0.045", "0.043", "0.018", "0.052", "0.03"):
        text = text.replace(f"importance: {value}}}", "importance: 0}")
    (problem,) = problems_of(text)
    assert problem.field == "encoding"
    assert "importance" in problem.cause


def test_all_problems_come_at_once_in_the_order_of_lines():
    text = changed(
        ("id: diabetes-2026", "id: A B"),
        ("low: 3.5", "low: 9"),
        ("eta: 0", "eta: 2"),
        ("{sources: 1, deadline", "{sources: 5, deadline"),
        ("holdout: 4", "holdout: 9"),
        ("title: Who", "heading: Who"),
    )
    found = problems_of(text)
    fields = {"title", "id", "heading", "features[0]", "method.eta", "quorum.sources", "cells"}
    assert {problem.field for problem in found} == fields
    lines = [p.line for p in found]
    assert lines == sorted(lines)


def test_the_error_reads_as_a_list_and_survives_pickling():
    with pytest.raises(InvalidSetting) as caught:
        Study.from_yaml(changed(("holdout: 4", "holdout: 5"), ("eta: 0", "eta: 2")))
    text = str(caught.value)
    assert text.startswith("The study has 2 problems:\n- line ")
    assert "method.eta: It is 2." in text
    assert pickle.loads(pickle.dumps(caught.value)).problems == caught.value.problems


@pytest.mark.parametrize("text", ["", "just a text", "[1, 2]", "id: x"])
def test_what_is_no_study(text):
    assert problems_of(text)


def test_levels_that_cannot_be_read_are_not_also_too_few():
    found = problems_of(changed(("[never, former, current], default: never", "[yes, no]")))
    assert [problem.field for problem in found] == ["features[7].levels[0]", "features[7].levels[1]"]


def test_a_missing_section_is_named():
    assert "epsilon" in {p.field for p in problems_of(changed(("epsilon: {source: 1, target: 1}\n", "")))}


def test_duplicate_keys_are_named_by_path():
    text = changed(("eta: 0", "eta: 0\n  eta: 1"))
    (problem,) = problems_of(text)
    assert problem.field == "method.eta"
    assert problem.line == line_of(text, "eta: 1")


def test_built_by_hand_the_rules_hold_too():
    study = Study.from_yaml(EXAMPLE)
    data = study.model_dump(mode="json")
    data["targets"] = ["main"]
    with pytest.raises(ValidationError, match="both a source and a target"):
        Study.model_validate(data)
    with pytest.raises(ValidationError, match="frozen"):
        study.id = "other"
