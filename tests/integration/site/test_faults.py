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
from crossward_site.approvals import service as approvals
from crossward_site.coordinator import Coordinator
from crossward_site.data.mapping import DataMap
from crossward_site.data.places import FilePlace
from crossward_site.data.service import Vault
from crossward_site.desk import service as desk
from crossward_site.ledger import service as ledger
from crossward_site.tasks import outbox, steps
from crossward_site.tasks.runner import PROCESSES_BEFORE_HELD
from crossward_site.tasks.service import CRASH_POINTS
from envelopes import digest_of

STORED = ("after-store", "after-publish", "before-settle")


def released(federation, id: str = "sugar") -> list[str]:
    return [task["release"] for task in federation.study(id)["tasks"]]


@pytest.mark.parametrize("point", CRASH_POINTS)
def test_a_site_killed_at_any_point_releases_once(sites, alone, point: str) -> None:
    federation = sites
    main = federation.hospital("main", "target")
    federation.start(alone())
    main.killed_at(point)
    before = main.outbox()
    assert (before is not None) == (point in STORED)
    main.settle()
    assert [task.attempt for task in main.tasks()] == [1]  # a crash costs no lease
    assert [line.kind for line in main.lines()] == ["open", "seats", "reserve", "release"]
    assert federation.mirror("main") == main.lines()
    sent = json.loads(main.outbox())
    assert before is None or json.loads(before) == sent
    assert released(federation) == [digest_of(sent)]
    assert federation.call("auditor", "GET", f"/v1/releases/{digest_of(sent)}") == sent
    assert Vault(main.site).balance().spend.nano_epsilon == 10**9


def test_a_lost_offer_is_made_again_at_once(federation, alone, monkeypatch) -> None:
    main = federation.hospital("main", "target")
    federation.start(alone())
    offers = []

    def once(self, wait, ask=Coordinator.next_task):
        offers.append(ask(self, wait))
        if len(offers) == 1:
            raise Unreachable("The answer was lost.")
        return offers[-1]

    monkeypatch.setattr(Coordinator, "next_task", once)
    with pytest.raises(Unreachable):
        main.drive()
    assert main.tasks() == []
    main.drive()
    assert [task.state for task in main.tasks()] == ["settled"]
    assert [offer and offer.attempt for offer in offers] == [1, 1, None, None]


def test_a_task_that_kills_process_after_process_is_held(sites, alone) -> None:
    federation = sites
    main = federation.hospital("main", "target")
    federation.start(alone())
    for _ in range(PROCESSES_BEFORE_HELD):
        main.killed_at("during-train")
    main.drive()
    [held] = approvals.waiting(main.site)
    assert (held.state, held.cause) == ("held", "3 processes of this site ended while they worked on it.")
    assert held.epsilon_charged == 1.0
    federation.start(alone("next"))  # and keeps no other back
    main.drive()
    assert federation.study("next")["tasks"][0]["state"] == "done"
    approvals.answer(main.site, held.task, True)
    main.killed_at("during-train")  # it is counted anew
    main.settle()
    assert federation.study("sugar")["tasks"][0]["state"] == "done"
    assert [line.kind for line in main.lines()].count("reserve") == 2


def test_what_is_stored_is_sent_however_many_processes_end(federation, alone) -> None:
    main = federation.hospital("main", "target")
    federation.start(alone())
    for _ in range(PROCESSES_BEFORE_HELD + 1):
        main.killed_at("after-publish")
    main.settle()
    assert [task.state for task in main.tasks()] == ["settled"]


def test_an_orderly_stop_is_no_death(federation, alone, monkeypatch) -> None:
    """Also one that does not wait for the end of a long training."""
    main = federation.hospital("main", "target")
    federation.start(alone())
    begun, go_on = threading.Event(), threading.Event()

    def long(*given, train=steps.train):
        begun.set()
        assert go_on.wait(300)
        return train(*given)

    with monkeypatch.context() as patched:
        patched.setattr(steps, "train", long)
        for _ in range(PROCESSES_BEFORE_HELD + 1):
            runner = main.new_runner()
            runner.start()
            assert begun.wait(300)
            begun.clear()
            runner.stop(0.1)
        go_on.set()
        for runner in main.runners:
            for worker in runner._workers:
                worker.join()
    main.new_runner()
    main.settle()
    assert [line.kind for line in main.lines()] == ["open", "seats", "reserve", "release"]
    assert federation.study("sugar")["tasks"][0]["state"] == "done"


def test_a_lost_acknowledgement_gets_the_same_receipt(federation, alone, monkeypatch) -> None:
    main = federation.hospital("main", "target")
    federation.start(alone())
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


def test_sent_twice_at_once(federation, alone) -> None:
    main = federation.hospital("main", "target")
    federation.start(alone())
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


def test_two_worker_processes_never_spend_more_than_the_budget(sites, alone) -> None:
    federation = sites
    main = federation.hospital("main", "target", epsilon=1.5)
    federation.start(alone("one"))
    federation.start(alone("two"))
    workers = [main.worker(), main.worker()]
    for worker in workers:
        with worker:
            worker.communicate(timeout=300)
    main.settle()
    assert sorted(task.state for task in main.tasks()) == ["declined", "settled"]
    assert [line.kind for line in main.lines()] == ["open", "seats", "reserve", "release"]
    states = sorted(federation.study(id)["tasks"][0]["state"] for id in ("one", "two"))
    assert states == ["declined", "done"]


def check_nothing_left(federation, main) -> None:
    assert [line.kind for line in main.lines()] == ["open", "seats"]
    assert released(federation) == [None]
    main.settle()
    assert [line.kind for line in main.lines()] == ["open", "seats", "reserve", "release"]


def test_a_read_only_database_releases_nothing(federation, alone) -> None:
    main = federation.hospital("main", "target", rows=100)
    federation.start(alone())
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


def test_a_full_disk_releases_nothing(federation, alone) -> None:
    main = federation.hospital("main", "target", rows=100)
    federation.start(alone())
    main.drive_until("approved")
    with main.worker("full") as process:
        errors = process.communicate(timeout=300)[1].decode()
    assert "StorageFailed" in errors
    check_nothing_left(federation, main)


def test_a_stale_backup_is_refused_until_it_is_reconciled(federation, alone) -> None:
    main = federation.hospital("main", "target")
    runner = main.new_runner()
    runner.work()
    copy = main.backup()
    table = main.files / "table.csv"
    table.write_text(table.read_text() + "newcomer,100,25,N,N,0\n")
    Vault(main.site).refresh("patients")
    federation.start(alone("one"))
    main.settle()
    spent = main.lines()
    main.restore(copy)
    assert [line.kind for line in main.lines()] == ["open", "seats"]

    federation.start(alone("two"))
    runner.take()
    with pytest.raises(NotReady, match="old backup"):
        runner.work()
    assert [line.kind for line in main.lines()] == ["open", "seats"]
    seen = desk.status(main.site)
    assert seen.health == "stopped"
    assert "restored from an old backup" in seen.stopped
    with pytest.raises(NotReady, match="has stopped"):
        runner.take()

    ledger.reconcile(main.site, runner.coordinator())
    assert main.lines() == spent
    main.settle()
    assert federation.study("two")["tasks"][0]["state"] == "done"
    with pytest.raises(NotReady, match="does not know who came"):  # the newcomer might get another cell
        Vault(main.site).refresh("patients")
    assert desk.status(main.site).health == "well"


def test_a_fork_stops_the_party_on_both_sides(federation, alone) -> None:
    main = federation.hospital("main", "target")
    runner = main.new_runner()
    runner.work()
    copy = main.backup()
    federation.start(alone())
    main.settle()
    main.restore(copy)
    with write(main.site.engine) as connection:
        main.site.append(connection, OpenBody(2, 20, "basic", 10**9))
    with pytest.raises(CrosswardError):
        ledger.sync(main.site, runner.coordinator())
    assert "differs" in desk.status(main.site).stopped
    [party] = federation.call("operator", "GET", "/v1/parties")["items"]
    assert party["state"] == "stopped"
    with pytest.raises(CrosswardError):
        ledger.reconcile(main.site, runner.coordinator())
    assert desk.status(main.site).stopped


def test_a_site_that_stopped_opens_nothing(federation) -> None:
    main = federation.hospital("main", "target")
    main.site.stop("for a test")
    place = FilePlace(kind="csv", path="table.csv")
    for work in (
        lambda vault: vault.open("again", place, DataMap(person="pid"), Budget.of(1)),
        lambda vault: vault.refresh("patients"),
        lambda vault: vault.undo("patients"),
    ):
        with pytest.raises(NotReady, match="for a test"):
            work(Vault(main.site))
    with read(main.site.engine) as connection:
        assert main.site.ledger.head(connection).sequence == 2
