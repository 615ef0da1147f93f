"""A fault test names the point at which a service dies, or halts; without the variable nothing happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from crossward_service.ops.crash import SIGNAL, VARIABLE, crash_point

PROGRAM = "from crossward_service.ops.crash import crash_point; crash_point('here'); print('lived')"

IN_A_THREAD = """
import os, threading
from crossward_service.ops.crash import crash_point

def work():
    crash_point("here")
    os.write(1, b"lived")

threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def run(**variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | variables
    return subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("name", "number"), [("", signal.SIGKILL), ("SIGTERM", signal.SIGTERM)])
def test_it_dies_at_the_point_that_is_named(name, number):
    done = run(**{VARIABLE: "here"} | ({SIGNAL: name} if name else {}))
    assert (done.returncode, done.stdout) == (-number, "")


def test_a_thread_that_comes_to_the_point_halts_there_and_all_others_with_it():
    """A fault test cuts the wires of a service that has halted: nothing may leave it in between."""
    environment = os.environ | {VARIABLE: "here", SIGNAL: "SIGSTOP"}
    for _ in range(5):
        with subprocess.Popen([sys.executable, "-c", IN_A_THREAD], env=environment, stdout=subprocess.PIPE) as halted:
            stopped = os.WIFSTOPPED(os.waitpid(halted.pid, os.WUNTRACED)[1])
            halted.kill()
            assert (stopped, halted.communicate()[0]) == (True, b"")


@pytest.mark.parametrize("point", ["", "elsewhere"])
def test_it_lives_at_every_other(point):
    assert run(**{VARIABLE: point}).stdout == "lived\n"


def test_without_the_variable_nothing_happens(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    crash_point("here")
