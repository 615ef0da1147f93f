"""The coordinator's answers: whatever comes is an answer or a named error, and ends."""

from __future__ import annotations

import contextlib
import json
from types import SimpleNamespace

import pytest

from crossward.client.http import Answer
from crossward.errors import CrosswardError, RemoteProblem, UnknownVersion
from crossward.protocol.ledger.lines import Line, OpenBody
from crossward_service.db.engine import write
from crossward_site.coordinator import Coordinator


class Scripted(Coordinator):
    """A coordinator that answers what a test says."""

    def __init__(self, answer) -> None:
        self.identity = SimpleNamespace(party="here")
        self.calls: list = []
        self._version = None

        def request(method, path, **more):
            self.calls.append((path, more))
            return Answer(200, {}, json.dumps(answer(path, more)).encode())

        def get(path, *, params=None):
            return request("GET", path, params=params)

        self._http = SimpleNamespace(request=request, get=get)


@pytest.mark.parametrize("answer", [None, 7, "x", [], {}, {"items": 3}, {"items": [{}]}, {"items": [], "next": ""}])
def test_a_malformed_answer_is_a_named_error(answer) -> None:
    scripted = Scripted(lambda path, more: answer)
    for call in (lambda: scripted.mirror(0), lambda: scripted.next_task(0.0), lambda: scripted.keys_of("other")):
        with contextlib.suppress(CrosswardError):
            assert call() == []
    assert len(scripted.calls) == 3


def chain(site, count: int) -> list[Line]:
    with write(site.engine) as connection:
        for k in range(count):
            site.append(connection, OpenBody(k + 1, 20, "basic", 10**9))
        return list(site.ledger.lines(connection))


def test_the_mirror_is_read_no_further_than_its_head(site) -> None:
    lines = [line.text for line in chain(site, 5)]

    def endless(path, more):
        after = more["params"]["after"]
        return {"lines": lines[after : after + 2] or lines[:2], "head": {"sequence": 5 + after, "hash": "0" * 64}}

    scripted = Scripted(endless)
    assert [line.text for line in scripted.mirror(0)] == lines
    assert len(scripted.calls) == 3
    stuck = Scripted(lambda path, more: {"lines": lines[:2], "head": {"sequence": 5, "hash": "0" * 64}})
    with pytest.raises(RemoteProblem, match="not those that follow"):
        stuck.mirror(0)
    assert len(stuck.calls) == 2


def test_the_version_to_speak_is_asked_for_once_and_bridges_one(site) -> None:
    scripted = Scripted(lambda path, more: {"protocol": 2})
    assert (scripted.version, scripted.version) == (1, 1)
    assert [path for path, _ in scripted.calls] == ["/v1/coordinator"]
    with pytest.raises(UnknownVersion, match=r"The coordinator speaks version 3 .* Upgrade this site\."):
        _ = Scripted(lambda path, more: {"protocol": 3}).version
    for answer in (None, {}, {"protocol": "x"}, {"protocol": None}, []):
        with pytest.raises(CrosswardError):
            _ = Scripted(lambda path, more, answer=answer: answer).version
