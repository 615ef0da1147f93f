"""A fault test names the point at which a service dies, or halts; without the variable nothing happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from crossward_service.ops.crash import SIGNAL, VARIABLE, crash_point

PROGRAM = "from crossward_service.ops.crash import crash_point; crash_point('here'); print('lived')"


def run(**variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | variables
    return subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("name", "number"), [("", signal.SIGKILL), ("SIGTERM", signal.SIGTERM)])
def test_it_dies_at_the_point_that_is_named(name, number):
    done = run(**{VARIABLE: "here"} | ({SIGNAL: name} if name else {}))
    assert (done.returncode, done.stdout) == (-number, "")


@pytest.mark.parametrize("point", ["", "elsewhere"])
def test_it_lives_at_every_other(point):
    assert run(**{VARIABLE: point}).stdout == "lived\n"


def test_without_the_variable_nothing_happens(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    crash_point("here")
