"""Whoever sends slowly, or much, keeps nobody else waiting: nothing is held while a body comes in or is read."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from crossward.errors import InvalidMessage
from crossward.protocol import keys
from crossward.protocol.ledger.lines import Line
from crossward.protocol.tasks import HeartbeatMessage, ResultMessage
from crossward.study import Study
from crossward_coordinator.app import VERIFIERS
from crossward_coordinator.studies import public_sets
from crossward_service.http.signing import Signer


class Trickle:
    """A request whose body comes in two parts, the second when it is told to."""

    def __init__(self, url, path, headers, body, method="POST"):
        place = urlsplit(url)
        self._socket = socket.create_connection((place.hostname, place.port), timeout=120)
        head = {"Host": place.netloc, "Content-Length": str(len(body)), "Connection": "close", **headers}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items()), "", ""]
        self._socket.sendall("\r\n".join(lines).encode() + body[: len(body) // 2])
        self._rest = body[len(body) // 2 :]

    def finish(self):
        self._socket.sendall(self._rest)
        return self.status()

    def status(self):
        """The status of the answer, whether or not the body was sent."""
        with self._socket.makefile("rb") as answer:
            return int(answer.readline().split()[1])

    def close(self):
        self._socket.close()


def beat(url, site, task, **changes):
    """A heartbeat that comes in slowly."""
    path, body = f"/v1/tasks/{task.id}/heartbeat", HeartbeatMessage(task=task.id, progress=0.5).canonical()
    headers = Signer(site.name, keys.key_id(site.key), site.key).headers("POST", path, "", body)
    return Trickle(url, path, {**headers, **changes}, body)


def test_slow_senders_keep_nobody_waiting(world):
    world.begin(sources=["main", "west"])
    main, west = world.sites["main"], world.sites["west"]
    task = main.next()
    with ExitStack() as stack:
        slow = [beat(world.url, main, task) for _ in range(VERIFIERS + 2)]
        for request in slow:
            stack.callback(request.close)
        west.work()
        world.ask("operator", "POST", "/parties/invites", body={"party": "east", "role": "source"})
        assert {request.finish() for request in slow} == {200}


def test_a_body_is_not_waited_for_unless_its_head_is_signed(small):
    small.begin()
    site = small.sites["main"]
    task = site.next()
    wrong = {"Content-Digest": f"sha-256=:{'A' * 43}=:"}
    for changes, status in ((wrong, 401), ({"Signature": "none"}, 401), ({"Content-Length": str(1 << 40)}, 413)):
        request = beat(small.url, site, task, **changes)
        assert request.status() == status
        request.close()


class Gate:
    """A function that takes its time."""

    def __init__(self, monkeypatch, owner, name):
        self.entered, self.open = threading.Event(), threading.Event()
        original = getattr(owner, name)

        def slow(*arguments):
            self.entered.set()
            assert self.open.wait(120)
            return original(*arguments)

        monkeypatch.setattr(owner, name, slow if not isinstance(owner, type) else staticmethod(slow))


def send_result(world):
    site = world.sites["main"]
    return site.publish(site.result(site.next()))


def send_lines(world):
    return world.sites["main"].send_lines()


def send_study(world):
    return world.create(id="another")


def send_public_set(world):
    rows = "\n".join(f"{k % 2 == 0}" for k in range(10))
    with pytest.raises(InvalidMessage, match="does not fit"):
        world.ask("lead", "PUT", "/studies/survey/public-set", body=f"nothing\n{rows}".encode())


SLOW = {
    "result": (ResultMessage, "from_json", send_result),
    "lines": (Line, "from_text", send_lines),
    "study": (Study, "from_yaml", send_study),
    "public set": (public_sets, "encode", send_public_set),
}


@pytest.mark.parametrize("what", list(SLOW))
def test_what_takes_long_to_read_keeps_nobody_waiting(what, small, monkeypatch):
    """On SQLite one writer at a time: whoever reads a body while writing would stop everybody."""
    owner, name, send = SLOW[what]
    small.begin()
    small.create(id="survey", method={"name": "feature", "public_set": "survey"})
    west = small.site("west", "source")
    gate = Gate(monkeypatch, owner, name)
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(send, small)
        try:
            assert gate.entered.wait(110)
            assert west.next() is None  # spends a nonce
            small.ask("operator", "POST", "/parties/invites", body={"party": "east", "role": "source"})
        finally:
            gate.open.set()
        sent.result()
