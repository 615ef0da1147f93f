"""A statement is checked, not repeated: change the numbers and the verdict changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from crossward_lab.bench.claims import MNIST_GOALS, our_claims
from crossward_lab.bench.measurements import Measurement
from crossward_lab.bench.paper_claims import paper_claims

MakeRow = Callable[..., Measurement]


def _goal_rows(row: MakeRow, auc: float) -> list[Measurement]:
    private = [row("SimComb", auc, epsilon=epsilon) for epsilon in MNIST_GOALS]
    return [*private, row("SimComb", 0.999, epsilon=None)]


@pytest.mark.parametrize(("auc", "outcome"), [(0.995, "held"), (0.95, "in part"), (0.6, "did not hold")])
def test_a_goal_is_held_in_part_or_not(row: MakeRow, auc: float, outcome: str) -> None:
    (verdict,) = our_claims(_goal_rows(row, auc))
    assert verdict.outcome == outcome
    assert f"{auc:.3f}".lstrip("0") in verdict.numbers
    assert bool(verdict.why) == (outcome != "held")


def _order(row: MakeRow, *aucs: float) -> list[Measurement]:
    methods = ("PST-H (W)", "PST-H (U)", "SimComb", "Direct")
    return [
        row(method, auc, preset="paper", epsilon=epsilon)
        for epsilon in (0.5, 1.0)
        for method, auc in zip(methods, aucs, strict=True)
    ]


def test_an_order_of_methods_holds_only_beyond_chance(row: MakeRow) -> None:
    outcomes = [v.outcome for v in paper_claims(_order(row, 0.9, 0.8, 0.7, 0.6)) if "then" in v.statement]
    assert outcomes == ["held", "held"]
    outcomes = [v.outcome for v in paper_claims(_order(row, 0.8, 0.79, 0.7, 0.69999)) if "then" in v.statement]
    assert outcomes == ["in part", "in part"]
    outcomes = [v.outcome for v in paper_claims(_order(row, 0.6, 0.7, 0.8, 0.9)) if "then" in v.statement]
    assert outcomes == ["did not hold", "did not hold"]


def test_no_target_may_lose_by_more_than_a_hundredth(row: MakeRow) -> None:
    rows = [
        row(method, auc, dataset="brfss", setting="Washington->16", site=site)
        for site in ("Ohio", "Texas")
        for method, auc in (("Direct", 0.78), ("SimComb", 0.80))
    ]
    (verdict,) = [v for v in our_claims(rows) if "no target" in v.statement]
    assert verdict.outcome == "held"
    rows[3] = replace(rows[3], auc_mean=0.76)
    (verdict,) = [v for v in our_claims(rows) if "no target" in v.statement]
    assert verdict.outcome == "in part"
    assert "Texas" in verdict.numbers


def test_claims_about_what_was_not_measured_are_left_out(row: MakeRow) -> None:
    assert paper_claims([row("Direct", 0.9, dataset="news20", setting="else")]) == []
