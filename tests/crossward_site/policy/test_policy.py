"""What a policy refuses, approves or asks; its limits round down, and a charge names no version of the code."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossward.learning.encoding import Flag, Schema
from crossward.privacy.budget import Cost
from crossward.protocol.ledger.lines import OpenBody
from crossward.protocol.ledger.rules import Balance
from crossward.study import study_for
from crossward_service.db.engine import write
from crossward_site.policy.service import Policy, Request, decide


def request(study, epsilon: float = 1.0, rows: int = 1000, taken: float = 0.0, spent: float = 0.0) -> Request:
    balance = Balance.of(OpenBody(1, 20, "basic", 10**10))
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
    assert decide(Policy(**rules), request(study, **asked)).decision == what


@given(st.floats(0, 5), st.floats(0, 5), st.floats(1e-9, 5), st.floats(0, 5))
def test_policy_never_approves_beyond_its_limits(per_study, lifetime, epsilon, spent) -> None:
    study = study_for(Schema((Flag("a"),)), method="direct", targets=("here",))
    policy = Policy(decide="approve", epsilon_per_study=per_study, epsilon_lifetime=lifetime)
    given = request(study, epsilon=epsilon, taken=spent, spent=spent)
    if decide(policy, given).decision == "approve":
        total = given.taken.nano_epsilon + given.cost.nano_epsilon
        assert total <= Decimal(repr(per_study)) * 10**9
        assert given.balance.spend.nano_epsilon + given.cost.nano_epsilon <= Decimal(repr(lifetime)) * 10**9


@pytest.mark.parametrize(("nano", "decision"), [(100_000_000, "approve"), (100_000_001, "refuse")])
@pytest.mark.parametrize("rule", ["epsilon_per_study", "epsilon_lifetime"])
def test_a_limit_rounds_down(study, rule, nano, decision) -> None:
    asked = Request(study, Cost(nano), 1000, Cost(0), Balance.of(OpenBody(1, 20, "basic", 10**10)))
    assert decide(Policy(decide="approve", **{rule: 0.1000000005}), asked).decision == decision


def test_documents_are_json(site) -> None:
    with write(site.engine) as connection:
        Policy(methods=("direct",)).save(connection)
        assert Policy.load(connection) == Policy(methods=("direct",))
    assert json.loads(Policy().model_dump_json())["decide"] == "ask"
    assert Path(site.home).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("rules", "lead", "what"),
    [
        ({"decide": "approve"}, "", "approve"),
        ({"decide": "approve", "leads": ("dr-*",)}, "dr-may", "approve"),
        ({"decide": "approve", "leads": ("dr-*",)}, "mallory", "refuse"),
        ({"decide": "approve", "leads": ("dr-*",)}, "", "refuse"),
        ({"decide": "approve", "methods": ("pst-h",)}, "", "refuse"),
        ({"decide": "approve", "minimum_rows": 10, "epsilon_lifetime": 0.0}, "", "approve"),
        ({}, "", "ask"),
    ],
)
def test_policy_of_a_task_without_data(study, rules, lead, what) -> None:
    assert decide(Policy(**rules), Request(study, Cost(0), None, Cost(0), None, lead)).decision == what
