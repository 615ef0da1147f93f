"""Every method says what it is, and a new one is a module and a line."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from crossward.errors import InvalidSetting, StudyInvalid
from crossward.learning.model import ReleasedModel
from crossward.methods import METHODS
from crossward.methods.base import HOLDOUT, CellCounts
from crossward.privacy.noise import SeededRandomness
from crossward.protocol.constants import CELLS, Role
from crossward.protocol.messages import ModelMessage
from crossward.study import Study, study_for
from crossward.study.wire import check_message, to_message, to_model
from crossward.study.work import announce, train, trained_levels
from crossward_lab.simulate.hospitals import Federation
from halfway import Halfway

PROOFS = Path(__file__).parents[3] / "docs" / "proofs"


@pytest.fixture(scope="module")
def federation():
    return Federation.simulate(branches=2, seed=3, scale=0.1)


@pytest.fixture
def halfway(monkeypatch):
    """The one line."""
    monkeypatch.setitem(METHODS, "halfway", Halfway)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_says_what_it_is_and_why_it_is_private(name):
    method = METHODS[name]
    assert method.model_fields["name"].default == name
    assert method.title
    assert method.explanation.endswith(".")
    assert method.proofs
    for page in method.proofs:
        assert (PROOFS / page).is_file(), page
    assert method.__doc__


def test_nothing_asks_a_method_for_its_name():
    """What a method does, it says itself: its name is for messages and people."""
    root = Path(__file__).parents[3]
    asking = re.compile(r"method\.name\s*(==|!=|(not )?in\s*[(\[{])|getattr\((study\.)?method\b")
    files = [path for folder in ("shared", "services") for path in (root / folder).rglob("*.py")]
    assert [path for path in files if asking.search(path.read_text())] == []


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    "counts", [CellCounts(12, 4, 4), CellCounts(8, 8, 4), CellCounts(17, 2, 1), CellCounts(3, 1, 16)]
)
def test_levels_are_disjoint_and_only_what_is_released_is_charged(name, role, counts):
    required = {"amp": {"delta": 1e-6}, "feature": {"public_set": "p"}}
    method = METHODS[name](**required.get(name, {}))
    levels = method.levels(role, counts)
    used = [cell for cells in levels.values() for cell in cells]
    assert len(used) == len(set(used))
    assert levels[HOLDOUT] == tuple(range(CELLS - counts.holdout, CELLS))
    charged = method.charged_cells(role, counts)
    assert set(charged).isdisjoint(levels[HOLDOUT])
    assert bool(charged) == method.pays(role)
    if method.pays(role):
        assert method.trains(role)
        assert sorted([*charged, *levels[HOLDOUT]]) == list(range(CELLS))


def test_an_unknown_method_is_refused_and_the_known_are_named(federation):
    with pytest.raises(StudyInvalid, match=r"'halfway' is not one of the choices.*simcomb"):
        study_for(federation.schema, method="halfway")


def test_a_method_of_ones_own_runs_a_study(halfway, federation):
    study = study_for(federation.schema, method={"name": "halfway", "lam": 0.05}, targets=["branch-1"], epsilon=2.0)
    assert Study.from_canonical(study.canonical()) == study
    noise, rows = SeededRandomness(4), {}
    for role, hospital in ((Role.SOURCE, federation.main), (Role.TARGET, federation.branches[0])):
        X, y = hospital.encode(study.schema)
        rows[role] = X, y, [trained_levels(study, role)[0]] * len(y)
    source = train(study, Role.SOURCE, *rows[Role.SOURCE], randomness=noise)
    assert source.release == announce(study, Role.SOURCE, {"level0": source.n}).with_seed_mark(True)
    sent = ModelMessage.from_json(to_message(study, source, "main").canonical())
    check_message(study, sent, allow_seeded=True)
    target = train(study, Role.TARGET, *rows[Role.TARGET], [to_model(study, sent)], noise)
    back = to_model(study, ModelMessage.from_json(to_message(study, target, "branch-1", [sent]).canonical()))
    X = rows[Role.TARGET][0]
    assert isinstance(back, ReleasedModel)
    assert np.array_equal(back.margins(X), target.margins(X))
    assert np.allclose(back.contributions(X).values.sum(axis=1), back.margins(X))


def test_a_method_without_sources_has_no_work_for_them(federation):
    study = study_for(federation.schema, method="direct")
    with pytest.raises(InvalidSetting, match="no sources"):
        study.method.source_work(study.terms, 100)


@pytest.mark.parametrize("name", ["\ud800", "x" * 1_000_000, 7, None, ["direct"], {"name": {}}])
def test_a_name_that_is_none_is_refused_in_few_words(federation, name):
    data = study_for(federation.schema, method="direct").model_dump(mode="json") | {"method": {"name": name}}
    with pytest.raises(StudyInvalid) as refused:
        Study.from_data(data)
    assert len(str(refused.value)) < 1_000
