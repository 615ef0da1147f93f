"""Migrations, the site's secret, units, policy, tasks, evaluation."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from crossward.errors import Forged, InvalidSetting, NotReady, UnsafeKeyFile
from crossward.learning.encoding import Flag, Schema
from crossward.privacy.budget import Cost
from crossward.protocol.ledger.lines import OpenBody
from crossward.protocol.ledger.rules import Balance
from crossward.protocol.messages import TaskMessage
from crossward.study import study_for
from crossward_service.db.engine import read, write
from crossward_site import facts, tasks
from crossward_site.evaluation import auc, calibration, roc
from crossward_site.identity import Identity
from crossward_site.migrations import migrate
from crossward_site.outbox import seal, unseal
from crossward_site.policy import Policy, Request, decide
from crossward_site.site import Site
from crossward_site.tables import metadata
from crossward_site.vault.units import conversion


def test_migrations_lead_to_the_tables(site) -> None:
    migrate(site.engine)
    with read(site.engine) as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_another_secret_is_not_this_sites(site, tmp_path) -> None:
    path = site.home / "site.secret"
    assert path.stat().st_mode & 0o777 == 0o600
    kept = path.read_text()
    url = str(site.engine.url)
    path.write_text("00" * 32)
    with pytest.raises(UnsafeKeyFile, match="not the secret of this database"):
        Site.open(url, site.home)
    path.unlink()
    with pytest.raises(UnsafeKeyFile, match="cannot be read"):
        Site.open(url, site.home)
    path.write_text(kept)
    path.chmod(0o644)
    with pytest.raises(UnsafeKeyFile, match="chmod"):
        Site.open(url, site.home)


def test_before_joining_a_site_has_no_identity(site) -> None:
    with pytest.raises(NotReady, match="joined no coordinator"):
        Identity.load(site)


def test_a_sealed_model_opens_only_here() -> None:
    sealed = seal(b"a" * 32, {"w": [1.0]})
    assert unseal(b"a" * 32, sealed) == {"w": [1.0]}
    with pytest.raises(Forged):
        unseal(b"b" * 32, sealed)
    with pytest.raises(Forged):
        unseal(b"a" * 32, sealed[:-1] + b"x")


@pytest.mark.parametrize(
    ("local", "wanted", "substance", "value", "expected"),
    [
        ("mg/dL", "mmol/L", "glucose", 90.0, 4.9956),
        ("mmol/L", "mg/dL", "cholesterol", 5.0, 193.35),
        ("mg/dL", "µmol/L", "creatinine", 1.0, 88.42),
        ("°F", "°C", "", 212.0, 100.0),
        ("°C", "°F", "", 37.0, 98.6),
        ("lb", "kg", "", 220.0, 99.790),
        ("mmol/mol", "%", "", 48.0, 6.543),
        ("in", "cm", "", 70.0, 177.8),
        ("kg/m²", "kg/m2", "", 25.0, 25.0),
    ],
)
def test_units(local, wanted, substance, value, expected) -> None:
    factor, offset = conversion("x", local, wanted, substance)
    assert factor * value + offset == pytest.approx(expected, rel=1e-3)


@given(st.sampled_from([("mg/dL", "mmol/L", "glucose"), ("°F", "°C", ""), ("mmol/mol", "%", ""), ("cm", "m", "")]))
def test_units_go_both_ways(units) -> None:
    local, wanted, substance = units
    one, other = conversion("x", local, wanted, substance), conversion("x", wanted, local, substance)
    assert other[0] * (one[0] * 7.0 + one[1]) + other[1] == pytest.approx(7.0)


def test_a_substance_that_matters_is_asked_for() -> None:
    with pytest.raises(InvalidSetting, match="Name the substance"):
        conversion("glucose", "mg/dL", "mmol/L")


def request(study, epsilon: float = 1.0, rows: int = 1000, taken: float = 0.0, spent: float = 0.0) -> Request:
    balance = Balance.of(OpenBody("a", 20, "basic", 10**10))
    if spent:
        balance = balance.charge(range(20), Cost(int(spent * 1e9)))
    return Request(study, Cost(int(epsilon * 1e9)), rows, Cost(int(taken * 1e9)), balance)


@pytest.mark.parametrize(
    ("rules", "asked", "what"),
    [
        ({}, {}, "ask"),
        ({"decide": "approve"}, {}, "approve"),
        ({"decide": "approve", "epsilon_per_study": 1.0}, {"taken": 1e-9}, "refuse"),
        ({"decide": "approve", "epsilon_per_study": 1.0}, {}, "approve"),
        ({"decide": "approve", "epsilon_lifetime": 2.0}, {"spent": 1.0}, "approve"),
        ({"decide": "approve", "epsilon_lifetime": 2.0}, {"spent": 1.000000001}, "refuse"),
        ({"decide": "approve", "minimum_rows": 1001}, {}, "refuse"),
        ({"methods": ("direct",)}, {}, "ask"),
        ({"methods": ("pst-h",)}, {}, "refuse"),
        ({"studies": ("dem*",)}, {}, "ask"),
        ({"studies": ("other",)}, {}, "refuse"),
    ],
)
def test_policy(study, rules, asked, what) -> None:
    assert decide(Policy(**rules), request(study, **asked)).what == what


@given(st.floats(0, 5), st.floats(0, 5), st.floats(1e-9, 5), st.floats(0, 5))
def test_policy_never_approves_beyond_its_limits(per_study, lifetime, epsilon, spent) -> None:
    study = study_for(Schema((Flag("a"),)), method="direct", targets=("here",))
    policy = Policy(decide="approve", epsilon_per_study=per_study, epsilon_lifetime=lifetime)
    given = request(study, epsilon=epsilon, taken=spent, spent=spent)
    if decide(policy, given).what == "approve":
        total = given.taken.nano_epsilon + given.cost.nano_epsilon
        assert total <= np.ceil(per_study * 1e9)
        assert given.balance.spend.nano_epsilon + given.cost.nano_epsilon <= np.ceil(lifetime * 1e9)


def test_a_task_taken_again_goes_on_where_it_was(site, study) -> None:
    first = TaskMessage.of(study, id="t1", kind="train-target", lease_seconds=10)
    with write(site.engine) as connection:
        task = tasks.take(site, connection, first)
        assert task.state == "taken"
        tasks.move(connection, task, "waiting", 1.0)
        again = tasks.take(site, connection, first.model_copy(update={"attempt": 2}))
        assert (again.state, again.attempt) == ("waiting", 2)
        assert not tasks.move(connection, task, "approved", 1.0)  # it is no longer `taken`
        tasks.move(connection, again, "cancelled", 1.0)
        assert tasks.take(site, connection, first).state == "taken"


def test_a_claim_keeps_others_off(site, study) -> None:
    with write(site.engine) as connection:
        tasks.take(site, connection, TaskMessage.of(study, id="t1", kind="train-target", lease_seconds=10))
        assert tasks.claim(connection, "one", 100.0, 5.0).id == "t1"
        assert tasks.claim(connection, "two", 104.0, 5.0) is None
        assert tasks.claim(connection, "one", 104.0, 5.0).id == "t1"
        assert tasks.claim(connection, "two", 110.0, 5.0).id == "t1"


def test_facts(site) -> None:
    with write(site.engine) as connection:
        for value in ({"a": 1}, [1, 2], "x", None):
            facts.put(connection, "f", value)
            assert facts.get(connection, "f") == value


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=60))
def test_auc_is_that_of_pairs(pairs) -> None:
    scores, ill = np.array([score / 5 for score, _ in pairs]), np.array([label for _, label in pairs])
    if ill.all() or not ill.any():
        return
    y = np.where(ill, 1.0, -1.0)
    found = auc(scores, y)
    assert found.auc == pytest.approx(roc_auc_score(ill, scores))
    assert 0 <= found.low <= found.auc <= found.high <= 1
    points = roc(scores, y)
    area = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(points))
    assert area == pytest.approx(found.auc)
    assert sum(part["records"] for part in calibration(scores, y)) == len(y)


def test_the_interval_covers() -> None:
    """Normal scores one deviation apart have an AUC of Phi(1 / sqrt 2) = 0.7602."""
    draw, hits = np.random.default_rng(3), 0
    for _ in range(400):
        scores = np.concatenate([draw.normal(1.0, 1.0, 40), draw.normal(0.0, 1.0, 80)])
        found = auc(scores, np.repeat([1.0, -1.0], [40, 80]))
        hits += found.low <= 0.7602 <= found.high
    assert 0.92 <= hits / 400 <= 0.98


def test_documents_are_json(site) -> None:
    with write(site.engine) as connection:
        Policy(methods=("direct",)).save(connection)
        assert Policy.load(connection) == Policy(methods=("direct",))
    assert json.loads(Policy().model_dump_json())["decide"] == "ask"
    assert Path(site.home).stat().st_mode & 0o777 == 0o700
