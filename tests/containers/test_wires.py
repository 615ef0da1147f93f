"""Wires that are cut: a hospital loses its network as it publishes, or is gone for good."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import engine


def test_a_hospital_cut_off_as_it_publishes(federation):
    """The wire is cut between the release being stored and its being sent; healed, the same bytes go out."""
    begun = federation.study(targets=("branch-1", "branch-2"))
    federation.kill("branch-1")
    federation.once("branch-1", "after-store", signal="SIGSTOP")
    federation.start("branch-1")
    federation.lead.start(begun.id)
    halted = ("logs", f"--since={federation.state('branch-1')['StartedAt']}", federation.container("branch-1"))
    federation.until("branch-1 halts", lambda: "halted" in engine.run(*halted).stdout)
    kept = federation.stored("branch-1")[begun.id]
    federation.cut("branch-1")
    engine.run("kill", "--signal=CONT", federation.container("branch-1"))

    said = federation.until("branch-1 knows that it is cut off", lambda: trouble_inside(federation, "branch-1"))
    assert "did not answer" in said
    shown = federation.lead.study(begun.id)
    assert "branch-1" in [late["party"] for late in shown["waiting_for"]]
    assert federation.auditor.ledger("branch-1")[-1].kind == "reserve"  # paid for, as both sides know

    federation.heal("branch-1")
    federation.ended(begun)
    assert federation.stored("branch-1")[begun.id] == kept
    federation.kill("branch-1")  # it would halt at its next release again
    federation.start("branch-1")


def trouble_inside(federation, service):
    """What its own command line says is wrong."""
    return json.loads(federation.inside(service, "crossward", "site", "status", "--json"))["trouble"]


def test_a_hospital_that_does_not_come_back_is_left_behind(federation):
    """The others end the study at the deadline; the lead sees who was missing and since when."""
    began = datetime.now(UTC)
    federation.kill("branch-2")
    targets = ("branch-1", "branch-2")
    begun = federation.begin(targets=targets, pays={"branch-1"}, quorum={"sources": 0, "deadline": "60s"})
    federation.in_state("branch-1", begun, "settled")
    [late] = federation.lead.study(begun.id)["waiting_for"]
    assert late["party"] == "branch-2"
    assert began - timedelta(minutes=20) < datetime.fromisoformat(late["last_seen"]) < datetime.now(UTC)
    cause = federation.ended(begun)["cause"]
    assert cause.startswith("By the deadline 1 of 2 targets were done.")
    assert "Missing: branch-2 (waited for, last seen 20" in cause
    federation.start("branch-2")  # too late for this study: nothing is charged for it
