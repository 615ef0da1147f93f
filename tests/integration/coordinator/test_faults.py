"""The fault table, as far as it is the coordinator's: every row really happens."""

import re
import time
from contextlib import suppress

import pytest
from sqlalchemy import select

from crossward.errors import Conflict, NotNext, PartyStopped, Unreachable
from crossward.protocol.ledger.lines import Line, OpenBody
from crossward.protocol.ledger.rules import Replay
from crossward_coordinator.tables import ledger, tasks
from crossward_service.db.engine import connect, read, write


# -- killed -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("point", ["before-store", "after-store", "after-commit"])
def test_killed_while_it_takes_a_result(world_of, url, zygote, dies, point):
    """Before the commit nothing has happened; after it, all has. The site sends the same bytes again."""
    world = world_of(url, serve=False)
    with world.serving():
        study = world.begin()
        site = world.sites["main"]
        task = site.next()
        result = site.result(task)
    with zygote.coordinator(world.settings, crash_at=point) as address, dies():
        site.publish(result, url=address)
    with world.serving():
        shown = world.show(study)
        assert shown["state"] == ("targets" if point == "after-commit" else "sources")
        receipt = site.publish(result)
        assert site.publish(result) == receipt
        assert world.ask("auditor", "GET", "/ledger/main/verify").json()["head"]["sequence"] == 3
        world.sites["branch-1"].work()
        assert world.show(study)["state"] == "complete"


def test_killed_while_it_starts_a_study(world_of, url, zygote, dies):
    world = world_of(url, serve=False)
    with world.serving():
        study = world.create()
        world.site("main", "source")
        world.site("branch-1", "target")
    with zygote.coordinator(world.settings, crash_at="study-started") as world.url, dies():
        world.start(study)
    with world.serving():
        assert world.show(study)["state"] == "draft"
        world.start(study)
        world.sites["main"].work()
        world.sites["branch-1"].work()
        assert world.show(study)["state"] == "complete"


def test_killed_after_it_granted_a_lease(world_of, url, zygote, dies):
    """Nobody knows of the lease; it expires, and the task is given again."""
    world = world_of(url, serve=False)
    with world.serving():
        study = world.begin(method="direct")
        site = world.sites["branch-1"]
    with zygote.coordinator(world.settings, crash_at="lease-granted") as address, dies():
        site.next(url=address)
    world.expire_leases()
    with world.serving():
        task = site.next(wait=120)
        assert task.attempt == 2
        site.publish(site.result(task))
        assert world.show(study)["state"] == "complete"


def test_killed_before_it_stored_the_aggregate(world_of, url, zygote, federation):
    world = world_of(url, serve=False)
    with world.serving():
        study = world.create(method={"name": "feature", "public_set": "survey"})
        hospital, names = federation.branches[2], [feature.name for feature in study.features]
        rows = [",".join([*names, "outcome"])]
        for row in range(60):
            values = [hospital.table[name][row] for name in names]
            rows.append(
                ",".join(
                    [*("" if str(v) in ("None", "nan") else str(v) for v in values), str(bool(hospital.labels[row]))]
                )
            )
        world.ask("lead", "PUT", f"/studies/{study.id}/public-set", body="\n".join(rows).encode())
        main, target = world.site("main", "source"), world.site("branch-1", "target")
        world.start(study)
        task = main.next()
        result = main.result(task)
    with zygote.coordinator(world.settings, crash_at="aggregate-computed") as address, suppress(Unreachable):
        main.publish(result, url=address)  # the clock then aggregates and dies, perhaps before the answer is out
    world.expire_leases()
    with world.serving():
        target.work()
        assert world.show(study)["state"] == "complete"


def test_killed_in_the_middle_of_a_long_poll(world_of, sqlite_url, zygote):
    world = world_of(sqlite_url, serve=False)
    with zygote.coordinator(world.settings) as world.url:
        study = world.begin()
        assert world.sites["branch-1"].next(wait=0.1) is None
    with world.serving():
        world.sites["main"].work()
        world.sites["branch-1"].work()
        assert world.show(study)["state"] == "complete"


# -- leases -----------------------------------------------------------------------------------------------------------
def test_a_lease_expires_and_the_task_is_given_again(world_of, url):
    world = world_of(url)
    study = world.begin(method="direct")
    site = world.sites["branch-1"]
    first = site.next()
    assert site.next() is None
    world.expire_leases()
    second = site.next(wait=120)
    assert (second.id, second.attempt) == (first.id, 2)
    with pytest.raises(Conflict):
        site.heartbeat(first)
    site.publish(site.result(first))  # a result is welcome as long as the task is open
    assert world.show(study)["state"] == "complete"


def test_heartbeats_keep_a_lease(world_of, sqlite_url):
    """Also one that has expired and that nobody else has taken: the clock may have noticed already, or not."""
    world = world_of(sqlite_url, backoff_seconds=3600)
    world.begin(method="direct")
    site = world.sites["branch-1"]
    task = site.next()
    for _ in range(3):
        world.expire_leases()
        began = time.time()
        assert not site.heartbeat(task)["cancelled"]
        engine = connect(world.settings["database_url"])
        with read(engine) as connection:
            kept = connection.execute(select(tasks.c.state, tasks.c.lease_until, tasks.c.attempt)).one()
        engine.dispose()
        assert (kept.state, kept.attempt) == ("leased", 1)
        assert kept.lease_until >= began + world.settings["lease_seconds"]
    assert site.next() is None


def test_after_so_many_attempts_a_task_has_failed(world_of, url):
    world = world_of(url, attempts=2)
    study = world.begin(method="direct")
    site = world.sites["branch-1"]
    for attempt in (1, 2):
        assert site.next(wait=120).attempt == attempt
        world.expire_leases()
    shown = world.until(study, "failed")
    assert "2 leases ended without a result" in shown["cause"]


# -- quorum and deadlines ---------------------------------------------------------------------------------------------
def test_the_others_go_on_with_the_quorum(world):
    study = world.begin(sources=["main", "north", "west"], quorum={"sources": 2})
    world.sites["main"].work()
    assert world.show(study)["state"] == "sources"
    assert [late["party"] for late in world.show(study)["late"]] == ["north", "west"]
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


def test_a_deadline_that_passed_while_nobody_served(world_of, sqlite_url):
    world = world_of(sqlite_url, serve=False)
    with world.serving():
        study = world.begin(quorum={"sources": 1})
    world.pass_deadline(study)
    with world.serving():
        world.until(study, "failed")


# -- ledgers that disagree --------------------------------------------------------------------------------------------
def rewritten(site):
    """The party's ledger with another first line: a rewritten past, or another database."""
    site.replay, site.lines, site.confirmed = Replay(), [], 0
    site.append(OpenBody("records", 20, "basic", 10**12))
    return site


def test_a_rewritten_ledger_stops_its_party(world):
    study = world.begin(sources=["main", "west"], quorum={"sources": 1})
    site = world.sites["main"]
    site.send_lines()
    honest = list(site.lines), site.replay
    task = site.next()
    with pytest.raises(NotNext, match="Line 1 differs"):
        rewritten(site).publish(site.result(task))
    shown = world.party("main")  # the stop was committed although the request was refused
    assert shown["state"] == "stopped"
    assert shown["cause"] == "Line 1 differs from the line 1 here."
    assert world.ask("auditor", "GET", "/ledger/main/verify").json()["head"]["sequence"] == 1
    late = next(late for late in world.show(study)["late"] if late["party"] == "main")
    assert (late["state"], late["party_state"]) == ("ready", "stopped")  # its lease has ended
    for refused in (site.next, lambda: site.heartbeat(task)):
        with pytest.raises(PartyStopped, match="Line 1 differs"):
            refused()
    with pytest.raises(Conflict, match="has not shown"):
        world.ask("operator", "POST", "/parties/main/reconcile")
    world.sites["west"].work()
    world.sites["branch-1"].work()
    assert world.show(study)["state"] == "complete"
    # The site repairs its ledger, shows it, and an operator lets it go on.
    site.lines, site.replay = honest
    site.confirmed = 0
    site.send_lines()
    assert world.party("main")["state"] == "stopped"
    assert world.ask("operator", "POST", "/parties/main/reconcile").json()["state"] == "active"
    assert site.next() is None


def test_a_stale_backup_stops_its_party(world):
    """Restored from before its last charge, a site would spend the same budget again."""
    world.begin(id="first")
    site = world.sites["main"]
    backup = list(site.lines)
    site.work()
    spent = list(site.lines)
    world.begin(id="second")
    task = site.next()
    site.lines, site.replay, site.confirmed = list(backup), Replay(), len(backup)
    for line in backup:
        site.replay.take(line)
    with pytest.raises(NotNext, match="Line 2 differs"):
        site.publish(site.result(task))
    assert world.party("main")["state"] == "stopped"
    # It takes over what the mirror has, and goes on from there.
    answer = site.call("GET", "/v1/ledger/main").json()
    site.lines, site.replay = [Line.from_dict(line) for line in answer["lines"]], Replay()
    assert site.lines == spent
    for line in site.lines:
        site.replay.take(line)
    site.send_lines(site.lines[-1:])
    world.ask("operator", "POST", "/parties/main/reconcile")
    site.results.clear()
    site.confirmed = len(site.lines)
    site.publish(site.result(site.next(wait=120)))
    assert world.ask("auditor", "GET", "/ledger/main/verify").json()["head"]["sequence"] == 5


def test_lines_from_nowhere_stop_the_party(small):
    site = small.site("main", "source")
    site.append(OpenBody("more", 20, "basic", 10**9))
    with pytest.raises(NotNext):
        site.send_lines(site.lines[1:])
    assert small.party("main")["state"] == "stopped"
    with pytest.raises(Conflict, match="has not shown"):
        small.ask("operator", "POST", "/parties/main/reconcile")


def test_a_charge_above_the_budget_stops_the_party(small):
    """The site's own rule would have refused it; a site that wrote it anyway is not believed."""
    small.site("main", "source", budget=1.0)
    small.begin()
    site = small.sites["main"]
    task = site.next()
    release, description = site.train(task)
    line = type(site)(small.url, "main", site.hospital)
    line.charge(task, description)
    site.lines.append(Line.after(site.replay.head, line.lines[-1].body, 0))
    with pytest.raises(Exception, match="Cell 0 of dataset records"):
        site.send_lines()
    assert small.party("main")["state"] == "stopped"
    assert release is not None


def test_a_damaged_mirror_is_named_and_stops_the_party(world):
    world.begin()
    site = world.sites["main"]
    site.send_lines()
    engine = connect(world.settings["database_url"])
    with write(engine) as connection:
        changed = ledger.lines.update().where(ledger.lines.c.owner == "main").values(time=7)
        connection.execute(changed)
    engine.dispose()
    shown = world.ask("auditor", "GET", "/ledger/main/verify").json()
    assert (shown["holds"], shown["line"]) == (False, 1)
    task = site.next()
    result = site.result(task)
    whole = result.model_copy(update={"lines": tuple(line.to_dict() for line in site.lines)})
    with pytest.raises(Exception, match="Line 1"):
        site.publish(whole)
    assert world.party("main")["state"] == "stopped"
