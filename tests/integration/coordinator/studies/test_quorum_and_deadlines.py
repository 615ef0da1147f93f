"""Every study ends: with its quorum, without it, or at its deadline, and always with a cause."""

import re


def test_the_others_go_on_with_the_quorum(world):
    study = world.begin(sources=["main", "north", "west"], quorum={"sources": 2})
    world.sites["main"].work()
    assert world.show(study)["state"] == "sources"
    assert [late["party"] for late in world.show(study)["waiting_for"]] == ["north", "west"]
    lost = world.sites["north"].next()
    world.sites["west"].work()
    shown = world.show(study)
    assert shown["state"] == "targets"
    north = next(task for task in shown["tasks"] if task["party"] == "north")
    assert (north["state"], north["cause"]) == ("cancelled", "The quorum of 2 sources was reached without it.")
    assert world.sites["north"].heartbeat(lost)["cancelled"]
    task = world.sites["branch-1"].next()
    assert {release.party for release in task.inputs} == {"main", "west"}


def test_without_the_quorum_the_deadline_ends_the_study(world):
    study = world.begin(sources=["main", "north", "west"], quorum={"sources": 3})
    world.sites["main"].work()
    world.sites["west"].next()
    world.pass_deadline(study)
    shown = world.until(study, "failed")
    assert shown["cause"].startswith("By the deadline 1 of the 3 sources needed had released.")
    assert "north (never seen)" in shown["cause"]
    assert re.search(r"west \(at work, last seen 20\d\d-\d\d-\d\d [\d:]+ UTC\)", shown["cause"])
    assert {task["state"] for task in shown["tasks"]} == {"done", "cancelled"}
    world.ask("auditor", "GET", f"/studies/{study.id}/certificate")


def test_when_the_quorum_is_out_of_reach_nobody_waits(world):
    study = world.begin(sources=["main", "north"])
    site = world.sites["north"]
    site.decline(site.next(), "budget")
    shown = world.show(study)
    assert shown["state"] == "failed"
    assert "north (declined: budget)" in shown["cause"]
    assert "main (waited for, never" not in shown["cause"]


def test_targets_that_do_not_come_are_left_behind(world):
    study = world.begin(targets=["branch-1", "branch-2", "branch-3"], quorum={"sources": 1})
    world.sites["main"].work()
    world.sites["branch-1"].work()
    site = world.sites["branch-2"]
    site.decline(site.next(), "unfit-data", "Too few records.")
    world.pass_deadline(study)
    shown = world.until(study, "complete")
    assert shown["cause"].startswith("By the deadline 1 of 3 targets were done.")
    assert "branch-2 (declined: unfit-data: Too few records.)" in shown["cause"]
    assert "branch-3 (never seen)" in shown["cause"]


def test_without_any_target_the_study_has_failed(small):
    study = small.begin(method="direct", targets=["branch-1", "branch-2"])
    for name in study.targets:
        site = small.sites[name]
        site.decline(site.next(), "no-data")
    assert small.show(study)["state"] == "failed"


def test_when_all_targets_are_gone_at_the_quorum_nobody_waits(small):
    study = small.begin()
    small.ask("operator", "DELETE", "/parties/branch-1")
    assert small.show(study)["state"] == "sources"
    small.sites["main"].work()
    shown = small.show(study)
    assert shown["state"] == "failed"
    assert "branch-1 (cancelled: The party was revoked.)" in shown["cause"]


def test_a_deadline_that_passed_while_nobody_served(world_of, sqlite_url):
    world = world_of(sqlite_url, serve=False)
    with world.serving():
        study = world.begin(quorum={"sources": 1})
    world.pass_deadline(study)
    with world.serving():
        world.until(study, "failed")
