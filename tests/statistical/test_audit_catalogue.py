"""The quick catalogue: every mechanism is clear, every planted fault is caught, and the report says so."""

import json
import math

import pytest

from crossward_lab.audit import audit_one, run
from crossward_lab.audit.mechanisms import MECHANISMS
from crossward_lab.audit.mutants import MUTANTS
from crossward_lab.audit.peers import PEERS
from crossward_lab.audit.report import AuditReport, Effort, MechanismVerdict, MutantVerdict
from crossward_lab.audit.sampled import one_class


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_is_clear(name: str) -> None:
    found = audit_one(name, seed=7)
    assert found.verdict == "clear", found


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_caught(name: str) -> None:
    found = audit_one(name, seed=7)
    assert found.verdict == "violation", found
    assert found.largest_loss > found.claimed_epsilon


@pytest.mark.parametrize("name", PEERS)
def test_the_peers_fail(name: str) -> None:
    assert audit_one(name, seed=7).verdict == "violation"


def test_a_refusal_is_an_answer_and_the_audit_says_so() -> None:
    """Data of one class are refused, and whoever hears of it learns a label: why errors stay at the site (ADR 0003)."""
    assert one_class("PLR, one class", Effort.of("PLR, one class", full=False, seed=7)).verdict == "violation"


def test_names_are_told_apart() -> None:
    assert len(MECHANISMS | MUTANTS | PEERS) == len(MECHANISMS) + len(MUTANTS) + len(PEERS)


def test_a_run_reports_its_progress_and_does_not_depend_on_workers() -> None:
    only = ("release step, K groups", "AMP, output noise", "no Delta")
    heard: list[tuple[str, int, int]] = []
    alone = run(seed=1, only=only, progress=lambda *news: heard.append(news))
    assert [(name, done) for name, done, _ in heard] == [(only[0], 0), *zip(only, (1, 2, 3), strict=True)]
    assert {total for _, _, total in heard} == {3}
    assert alone.passed
    assert run(seed=1, only=only, workers=2) == alone


def clear(name: str) -> MechanismVerdict:
    return MechanismVerdict.of(name, 1.0, 0.9, "exact")


def fault(name: str, loss: float) -> MutantVerdict:
    return MutantVerdict.of(MechanismVerdict.of(name, 1.0, loss, "exact"))


def test_a_report_passes_only_if_both_halves_do() -> None:
    assert AuditReport((clear("a"),), (fault("b", 1.1),)).passed
    assert not AuditReport((clear("a"),), (fault("b", 0.9),)).passed
    assert not AuditReport((MechanismVerdict.of("a", 1.0, 1.1, "exact"),), (fault("b", 1.1),)).passed


def test_using_epsilon_up_is_no_violation() -> None:
    assert MechanismVerdict.of("a", 0.1 * 3, 0.3 + 1e-16, "distance").verdict == "clear"
    assert MechanismVerdict.of("a", 1.0, 1.0 + 1e-6, "distance").verdict == "violation"


def test_the_description_is_plain_json() -> None:
    described = AuditReport((clear("a"),), (fault("b", math.inf),)).describe()
    assert set(described) == {"mechanisms", "mutants"}
    again = json.loads(json.dumps(described, allow_nan=False))
    assert {"name", "claimed_epsilon", "largest_loss", "verdict"} <= set(again["mechanisms"][0])
    assert again["mechanisms"][0]["verdict"] == "clear"
    assert again["mutants"][0]["caught"] is True
    assert again["mutants"][0]["largest_loss"] is None
