"""How soon something starts: fresh processes, each beside a peer of the same run."""

from __future__ import annotations

import json
from subprocess import CalledProcessError

import pytest
from typer.testing import CliRunner

from crossward_cli.main import commands
from crossward_lab.bench import startup
from crossward_lab.bench.startup import STARTS, Start


def test_everyone_is_compared_with_a_peer_of_the_same_run() -> None:
    names = [start.name for start in STARTS]
    assert len(set(names)) == len(names)
    for at, start in enumerate(STARTS):
        assert not start.peer or start.peer in names[:at]
        assert bool(start.peer) == ("crossward" in start.name)


def test_times_are_given_beside_those_of_the_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = Start("quick", ("-c", "pass")), Start("slow", ("-c", "pass"), "quick")
    times = iter([9.0, 9.0, 0.1, 0.4, 0.2, 0.6, 0.3, 1.5])  # the first round is not counted
    monkeypatch.setattr(startup, "STARTS", starts)
    monkeypatch.setattr(startup, "_seconds", lambda start: next(times))
    quick, slow = json.loads(_printed("--json", "--repeats", "3"))["rows"]
    assert quick == {"name": "quick", "seconds": 0.2, "fastest": 0.1, "slowest": 0.3, "peer": "", "times_peer": None}
    assert (slow["seconds"], slow["fastest"], slow["slowest"], slow["peer"]) == (0.6, 0.4, 1.5, "quick")
    assert slow["times_peer"] == pytest.approx(4.0)


def test_processes_are_really_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "STARTS", (Start("bare", ("-c", "pass")),))
    assert "bare" in _printed("--repeats", "1")
    monkeypatch.setattr(startup, "STARTS", (Start("broken", ("-c", "raise SystemExit(1)")),))
    with pytest.raises(CalledProcessError):
        startup.startup(1)


def _printed(*options: str) -> str:
    return CliRunner().invoke(commands, ["bench", "startup", *options]).stdout
