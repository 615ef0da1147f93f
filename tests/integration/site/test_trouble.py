"""Sends that fail, steps that break, answers that make no sense: the site goes on."""

from __future__ import annotations

import time

import pytest

from crossward.client.http import NEVER, Answer, HttpClient
from crossward.errors import NotReady, Unreachable
from crossward_site.approvals import service as approvals
from crossward_site.coordinator import Coordinator
from crossward_site.desk import service as desk
from crossward_site.tasks import steps


def test_a_failed_send_changes_no_public_word(federation, monkeypatch, alone) -> None:
    main = federation.hospital("main", "target", decide="ask")
    federation.start(alone())
    main.drive()
    [asked] = approvals.waiting(main.site)
    approvals.answer(main.site, asked.task, False, words="Not this year.")
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


def test_a_step_that_breaks_on_one_study_lets_the_next_be_published(federation, monkeypatch, alone) -> None:
    main = federation.hospital("main", "target")
    federation.start(alone("bad"))
    federation.start(alone("good"))
    train = steps.train

    def broken(announcement, rows, noise):
        if announcement.task.study_id == "bad":
            raise RuntimeError("a bug")
        return train(announcement, rows, noise)

    monkeypatch.setattr(steps, "train", broken)
    main.drive()
    assert federation.study("good")["tasks"][0]["state"] == "done"
    for _ in range(400):
        main.drive()
        states = {task.study_id: task.state for task in main.tasks()}
        if states["bad"] == "held":
            break
        main.runners[-1].renew()  # it waits no longer
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
def test_a_malformed_answer_does_not_end_the_loops(federation, monkeypatch, path, alone) -> None:
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
    federation.start(alone())
    runner.start()
    end = time.monotonic() + 300
    while time.monotonic() < end:
        if len(spoiled) == 2 and federation.study("sugar")["tasks"][0]["state"] == "done":
            break
        assert all(thread.is_alive() for thread in runner._workers)
        time.sleep(0.05)
        if len(spoiled) == 2:  # the task waits until its heart has been answered strangely twice
            for asked in approvals.waiting(main.site):
                approvals.answer(main.site, asked.task, True)
    assert len(spoiled) == 2
    assert desk.status(main.site).stopped == ""
    assert federation.study("sugar")["tasks"][0]["state"] == "done"


def test_a_client_that_is_closed_as_a_request_begins_keeps_no_connection(federation) -> None:
    """As a worker is stopped: one of its threads is about to ask, another closes the client."""
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


def test_a_worker_that_has_stopped_calls_nobody(federation) -> None:
    runner = federation.hospital("main", "target", data=False).new_runner()
    runner.stop()
    with pytest.raises(NotReady, match="stopping"):
        runner.coordinator()
