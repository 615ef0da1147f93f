"""Work on several processes ends at once when it is not wanted any more, with every process. Real groups, real signals.

The workers share their parent's output, so what is read of it ends only when the last of them is gone.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from crossward.learning.processes import spread
from crossward.study import example
from crossward_lab.audit.run import CATALOGUE

CROSSWARD = Path(sys.executable).with_name("crossward")
SOON = 120
"""Seconds within which everything has ended: far more than it takes, far less than the work that is left."""

SLEEPERS = """
import os, time
from crossward_lab.audit.run import CATALOGUE
from crossward.learning.processes import spread

def sleep(number):
    os.write(1, b"working\\n")  # at once: two processes write to one pipe, and nothing may come between
    time.sleep(600)

if __name__ == "__main__":
    with spread(sleep, [(number,) for number in range(50)], 2) as found:
        list(found)
"""


def started(*command, **environment):
    return subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def wait_for(words, process):
    seen = b""
    while not re.search(words, seen):
        more = os.read(process.stdout.fileno(), 4096)
        assert more, seen.decode()
        seen += more


def rest(process):
    try:
        return process.communicate(timeout=SOON)[0].decode()
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        pytest.fail("Not all processes have ended.")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_parent(tmp_path, heard, number):
    script = tmp_path / "sleepers.py"
    script.write_text(SLEEPERS)
    process = started(*heard(sys.executable, script))
    wait_for(b"working\nworking\n", process)
    os.kill(process.pid, number)
    rest(process)
    assert process.returncode == -number


@pytest.mark.parametrize(
    ("command", "at_work"),
    [(("plan", "study.yaml", "--repeats", "1000"), rb" [1-9]\d*/1000"), (("audit",), b" 0/%d" % len(CATALOGUE))],
    ids=["plan", "audit"],
)
def test_ctrl_c_ends_a_command_with_130_and_no_traceback(tmp_path, monkeypatch, heard, command, at_work):
    pytest.importorskip("typer", reason="the command line is not installed")
    monkeypatch.chdir(tmp_path)
    Path("study.yaml").write_text(example())
    process = started(*heard(CROSSWARD, *command, "--workers", "2"), FORCE_COLOR="1", NO_COLOR="1", COLUMNS="80")
    wait_for(at_work, process)
    os.killpg(process.pid, signal.SIGINT)
    assert "Traceback" not in rest(process)
    assert process.returncode == 130


def test_who_fails_ends_the_others(tmp_path):
    script = tmp_path / "sleepers.py"
    script.write_text(SLEEPERS.replace("list(found)", "raise SystemExit(3)"))
    process = started(sys.executable, script)
    rest(process)
    assert process.returncode == 3


@pytest.mark.parametrize("workers", [1, 2])
def test_every_task_is_done_once(workers):
    with spread(divmod, [(number, 4) for number in range(10)], workers) as found:
        assert sorted(found) == [divmod(number, 4) for number in range(10)]
