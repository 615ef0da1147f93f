"""What an adversarial review found, done for real: a stop at the coordinator, failed sends, odd addresses."""

from __future__ import annotations

import time

import httpx
import pytest
from sqlalchemy import update

from crossward.client.http import NEVER, Answer, HttpClient
from crossward.errors import NotReady, Unreachable
from crossward_coordinator.parties.tables import parties
from crossward_service.db.engine import connect, write
from crossward_site import approvals, steps, sync, tasks
from crossward_site.access import make_token
from crossward_site.coordinator import Coordinator
from crossward_target import app as target
from crossward_target.settings import TargetSettings


def alone(study, id: str = "sugar"):
    return study(id, method="direct", epsilon=1.0, targets=("main",))


@pytest.fixture
def operator(federation):
    """The coordinator's database, as a fault or an operator's hand changes it."""
    engine = connect(f"sqlite:///{federation.folder}/coordinator/coordinator.sqlite3")

    def change(**values) -> None:
        with write(engine) as connection:
            connection.execute(update(parties).values(**values))

    yield change
    engine.dispose()


@pytest.mark.parametrize("state", ["before", "stored"])
def test_a_stop_at_the_coordinator_is_reported_and_asked_about_again(federation, study, operator, state) -> None:
    main = federation.hospital("main", "target")
    runner = main.new_runner()
    runner.work()
    federation.start(alone(study))
    if state == "stored":
        main.drive_until("stored")
    operator(state="stopped", cause="for a test", agreed=1.0)
    for call in (runner.take, runner.work) if state == "stored" else (runner.take,):
        with pytest.raises(NotReady, match="for a test"):
            call()
    assert main.site.stopped == ""
    federation.call("operator", "POST", "/v1/parties/main/reconcile")
    main.settle()
    assert federation.study("sugar")["tasks"][0]["state"] == "done"


@pytest.mark.parametrize("steward_first", [True, False])
def test_each_reconciles_once_in_any_order(federation, study, operator, steward_first: bool) -> None:
    main = federation.hospital("main", "target")
    runner = main.new_runner()
    runner.work()
    federation.start(alone(study))
    main.site.stop("the ledgers differ, for a test.")
    operator(state="stopped", cause="for a test", agreed=None if steward_first else 1.0)
    if steward_first:
        sync.reconcile(main.site, runner.coordinator())
        with pytest.raises(NotReady):
            runner.take()  # the operator has not yet: no new stop here
    federation.call("operator", "POST", "/v1/parties/main/reconcile")
    if not steward_first:
        with pytest.raises(NotReady):
            runner.take()
        sync.reconcile(main.site, runner.coordinator())
    main.settle()
    assert federation.study("sugar")["tasks"][0]["state"] == "done"


def test_a_failed_send_changes_no_public_word(federation, study, monkeypatch) -> None:
    main = federation.hospital("main", "target", decide="ask")
    federation.start(alone(study))
    main.drive()
    [asked] = approvals.waiting(main.site)
    approvals.answer(main.site, asked["task"], False, words="Not this year.")
    send = Coordinator.decline

    def lost(self, message) -> None:
        raise Unreachable("No way to /data/patients.csv.")

    monkeypatch.setattr(Coordinator, "decline", lost)
    with pytest.raises(Unreachable):
        main.runners[-1].work()
    monkeypatch.setattr(Coordinator, "decline", send)
    [task] = main.tasks()
    assert (task.cause, task.trouble) == ("Not this year.", "No way to /data/patients.csv.")
    main.settle()
    assert federation.study("sugar")["tasks"][0]["cause"] == "steward: Not this year."


def test_a_step_that_breaks_on_one_study_lets_the_next_be_published(federation, study, monkeypatch) -> None:
    main = federation.hospital("main", "target")
    federation.start(alone(study, "bad"))
    federation.start(alone(study, "good"))
    train = steps.train

    def broken(announcement, rows):
        if announcement.task.study_id == "bad":
            raise RuntimeError("a bug")
        return train(announcement, rows)

    monkeypatch.setattr(steps, "train", broken)
    main.drive()
    assert federation.study("good")["tasks"][0]["state"] == "done"
    for _ in range(400):
        main.drive()
        states = {task.study_id: task.state for task in main.tasks()}
        if states["bad"] == "held":
            break
        with write(main.site.engine) as connection:
            connection.execute(update(tasks.tasks).values(busy_until=None))
    assert states == {"bad": "held", "good": "settled"}
    [bad] = [task for task in main.tasks() if task.study_id == "bad"]
    main.runners[-1].beat(bad)
    assert federation.study("bad")["tasks"][0]["note"] == "waiting at the site"
    monkeypatch.setattr(steps, "train", train)
    approvals.answer(main.site, bad.id, True)
    main.settle()
    assert federation.study("bad")["tasks"][0]["state"] == "done"
    assert len(main.lines("reserve")) == 2


@pytest.mark.parametrize("path", ["tasks/next", "heartbeat", "lines"])
def test_a_malformed_answer_does_not_end_the_loops(federation, study, monkeypatch, path) -> None:
    main = federation.hospital("main", "target", decide="ask" if path == "heartbeat" else "approve")
    runner = main.new_runner()
    request = HttpClient.request
    spoiled = []

    def strange(self, method, where, **more):
        if where.endswith(path) and len(spoiled) < 2:
            spoiled.append(where)
            return Answer(200, {}, b"[" * 100_000)
        return request(self, method, where, **more)

    monkeypatch.setattr(HttpClient, "request", strange)
    federation.start(alone(study))
    runner.start()
    end = time.monotonic() + 300
    while time.monotonic() < end:
        if len(spoiled) == 2 and federation.study("sugar")["tasks"][0]["state"] == "done":
            break
        assert all(thread.is_alive() for thread in runner._threads)
        time.sleep(0.05)
        if len(spoiled) == 2:  # the task waits until its heart has been answered strangely twice
            for asked in approvals.waiting(main.site):
                approvals.answer(main.site, asked["task"], True)
    assert len(spoiled) == 2
    assert main.site.stopped == ""
    assert federation.study("sugar")["tasks"][0]["state"] == "done"


def test_a_line_that_is_closed_as_a_request_begins_keeps_no_connection(federation) -> None:
    """As a worker is stopped: one of its threads is about to ask, another closes the line."""
    client = HttpClient(federation.url, retry=NEVER)
    transport, made = client._http._transport, []
    send = transport.handle_request

    def closed_before(request):
        client.close()
        response = send(request)
        made.append(response.extensions["network_stream"].get_extra_info("socket"))
        return response

    transport.handle_request = closed_before
    assert client.get("/v1/coordinator").status == 200
    assert [socket.fileno() for socket in made] == [-1]


def test_a_worker_that_has_stopped_makes_no_new_line(federation) -> None:
    runner = federation.hospital("main", "target", data=False).new_runner()
    runner.stop()
    with pytest.raises(NotReady, match="stopping"):
        runner.coordinator()


def test_odd_names_in_a_path_are_refused_as_such(sites, serving) -> None:
    main = sites.hospital("main", "target", rows=100)
    given = {"data_dir": main.home, "database_url": main.url, "port": 0, "work": False}
    settings = TargetSettings(**given)
    bearer = {"Authorization": f"Bearer {make_token(main.site, 'steward', 'test')}"}
    with (
        serving(target.create_app(settings), settings) as url,
        httpx.Client(base_url=f"{url}/v1", headers=bearer, trust_env=False, timeout=60) as client,
    ):
        for odd in ("%00", "a%00b", "%0A", "x" * 500):
            answers = [
                client.post(f"/datasets/{odd}/versions", json={}),
                client.get(f"/datasets/{odd}/report"),
                client.get(f"/datasets/patients/report?study={odd}"),
                client.post(f"/approvals/{odd}", json={"approve": True}),
                client.get(f"/studies/{odd}/model"),
                client.get(f"/studies/{odd}/evaluation"),
                client.post(f"/studies/{odd}/auc", json={"epsilon": 1.0}),
            ]
            assert {answer.status_code for answer in answers} == {422}
        refused = client.post("/approvals/t1", json={"approve": False, "words": "no\0"})
        assert refused.status_code == 422
        assert client.get("/studies/unknown/model").status_code == 404
