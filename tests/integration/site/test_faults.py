"""Every fault of a site, really done: afterwards one release, the same bytes, one charge."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import pytest

from crossward.errors import CrosswardError, NotReady, StorageFailed, Unreachable
from crossward.privacy.budget import Budget
from crossward.protocol.ledger.lines import OpenBody
from crossward_service.db.engine import connect, read, write
from crossward_site import outbox, status, sync
from crossward_site.coordinator import Coordinator
from crossward_site.crash import POINTS
from crossward_site.vault import CsvPlace, DataMap, Vault

STORED = ("after-store", "after-publish", "before-settle")


def alone(study, id: str = "sugar"):
    """A study of one hospital: whatever goes wrong is its own."""
    return study(id, method="direct", epsilon=1.0, targets=("main",))


def released(federation, id: str = "sugar") -> list[str]:
    return [task["release"] for task in federation.study(id)["tasks"]]


@pytest.mark.parametrize("point", POINTS)
def test_a_site_killed_at_any_point_releases_once(sites, study, point: str) -> None:
    federation = sites
    main = federation.hospital("main", "target")
    federation.start(alone(study))
    main.killed_at(point)
    before = main.outbox()
    assert (before is not None) == (point in STORED)
    main.settle()
    assert [line.kind for line in main.lines()] == ["open", "reserve", "release"]
    assert federation.mirror("main") == main.lines()
    sent = json.loads(main.outbox())
    assert before is None or json.loads(before) == sent
    assert released(federation) == [sent["digest"]]
    assert federation.call("auditor", "GET", f"/v1/releases/{sent['digest']}") == sent
    assert Vault(main.site).balance("patients").spend.nano_epsilon == 10**9


def test_a_lost_acknowledgement_gets_the_same_receipt(federation, study, monkeypatch) -> None:
    main = federation.hospital("main", "target")
    federation.start(alone(study))
    lost = []

    def once(self, message, send=Coordinator.result):
        receipt = send(self, message)
        lost.append((message.release, receipt))
        if len(lost) == 1:
            raise Unreachable("The answer was lost.")
        return receipt

    monkeypatch.setattr(Coordinator, "result", once)
    main.settle()
    assert len(lost) == 2
    assert lost[0] == lost[1]
    assert federation.mirror("main") == main.lines()


def test_sent_twice_at_once(federation, study) -> None:
    main = federation.hospital("main", "target")
    federation.start(alone(study))
    main.killed_at("after-store")
    [task] = main.tasks()
    receipts = []
    runner = main.new_runner()
    threads = [
        threading.Thread(target=lambda: receipts.append(outbox.publish(main.site, runner.coordinator(), task)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(receipts) == 4
    assert len({receipt.digest for receipt in receipts}) == 1
    main.settle()


def test_two_worker_processes_never_spend_more_than_the_budget(sites, study) -> None:
    federation = sites
    main = federation.hospital("main", "target", epsilon=1.5)
    federation.start(alone(study, "one"))
    federation.start(alone(study, "two"))
    workers = [main.worker(), main.worker()]
    for worker in workers:
        with worker:
            worker.communicate(timeout=300)
    main.settle()
    assert sorted(task.state for task in main.tasks()) == ["declined", "settled"]
    assert [line.kind for line in main.lines()] == ["open", "reserve", "release"]
    states = sorted(federation.study(id)["tasks"][0]["state"] for id in ("one", "two"))
    assert states == ["declined", "done"]


def check_nothing_left(federation, main) -> None:
    assert [line.kind for line in main.lines()] == ["open"]
    assert released(federation) == [None]
    main.settle()
    assert [line.kind for line in main.lines()] == ["open", "reserve", "release"]


def test_a_read_only_database_releases_nothing(federation, study) -> None:
    main = federation.hospital("main", "target", rows=100)
    federation.start(alone(study))
    main.drive_until("approved")
    sound = main.site
    main.site = replace(sound, engine=connect(f"sqlite:///file:{main.home}/site.sqlite3?mode=ro&uri=true"))
    runner = main.new_runner()
    for _ in range(2):
        with pytest.raises(StorageFailed):
            runner.work()
    main.site.close()
    main.site = sound
    main.new_runner()
    check_nothing_left(federation, main)


def test_a_full_disk_releases_nothing(federation, study) -> None:
    main = federation.hospital("main", "target", rows=100)
    federation.start(alone(study))
    main.drive_until("approved")
    with main.worker("full") as process:
        errors = process.communicate(timeout=300)[1].decode()
    assert "StorageFailed" in errors
    check_nothing_left(federation, main)


def test_a_stale_backup_is_refused_until_it_is_reconciled(federation, study) -> None:
    main = federation.hospital("main", "target")
    runner = main.new_runner()
    runner.work()
    copy = main.backup()
    federation.start(alone(study, "one"))
    main.settle()
    spent = main.lines()
    main.restore(copy)
    assert [line.kind for line in main.lines()] == ["open"]

    federation.start(alone(study, "two"))
    runner.take()
    with pytest.raises(NotReady, match="old backup"):
        runner.work()
    assert [line.kind for line in main.lines()] == ["open"]
    seen = status.status(main.site)
    assert seen["health"] == "stopped"
    assert "restored from an old backup" in seen["stopped"]
    with pytest.raises(NotReady, match="has stopped"):
        runner.take()

    sync.reconcile(main.site, runner.coordinator())
    assert main.lines() == spent
    main.settle()
    assert federation.study("two")["tasks"][0]["state"] == "done"
    with pytest.raises(NotReady, match="closed"):
        Vault(main.site).add_version("patients")


def test_a_fork_stops_the_party_on_both_sides(federation, study) -> None:
    main = federation.hospital("main", "target")
    runner = main.new_runner()
    runner.work()
    copy = main.backup()
    federation.start(alone(study))
    main.settle()
    main.restore(copy)
    with write(main.site.engine) as connection:
        main.site.append(connection, OpenBody("other", 20, "basic", 10**9))
    with pytest.raises(CrosswardError):
        sync.sync(main.site, runner.coordinator())
    assert "differs" in main.site.stopped
    [party] = federation.call("operator", "GET", "/v1/parties")["items"]
    assert party["state"] == "stopped"
    with pytest.raises(CrosswardError):
        sync.reconcile(main.site, runner.coordinator())
    assert main.site.stopped


def test_a_site_that_stopped_opens_nothing(federation) -> None:
    main = federation.hospital("main", "target")
    main.site.stop("for a test")
    place = CsvPlace(path=str(main.home / "table.csv"))
    with pytest.raises(NotReady, match="for a test"):
        Vault(main.site).connect("again", place, DataMap(person="pid"), Budget.of(1))
    with read(main.site.engine) as connection:
        assert main.site.ledger.head(connection).sequence == 1
