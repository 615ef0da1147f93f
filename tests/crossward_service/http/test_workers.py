"""One service as several processes: one line, one set of counts, replaced when killed, ended together."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from crossward.client.http import NEVER, HttpClient

ASKED = 'crossward_requests_total{method="GET",route="/pid",status="200"}'
PROGRAM = """
import os, sys, time
from crossward_service.http.serve import run_workers
from crossward_service.http.app import new_app
from crossward_service.http.settings import ServiceSettings

def create(settings):
    if settings.log_level == "ERROR":
        raise RuntimeError("this worker cannot start")
    app = new_app("crossward test", "1", local=False)
    gauge = app.state.metrics.gauge("crossward_level", "A number", ("of",))

    @app.get("/pid")
    def pid() -> int:
        return os.getpid()

    @app.get("/set")
    def put(level: float) -> int:
        gauge.labels("it").set(level)
        return os.getpid()

    @app.get("/poll")
    def poll() -> str:
        return "stopping" if app.state.stopping.wait(120) else "nothing"

    return app

if __name__ == "__main__":
    run_workers(create, ServiceSettings.load(port=0), 2)
    print("after")
"""


@contextmanager
def serving(folder, **environment):
    program = folder / "program.py"
    program.write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, str(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=os.environ | environment,
    ) as started:
        try:
            yield started
        finally:
            started.kill()


@pytest.fixture
def service(tmp_path):
    with serving(tmp_path) as started:
        line = started.stdout.readline()
        assert line.startswith("crossward test ready on http://127.0.0.1:")
        started.url = line.split()[-1]
        yield started


def get(service, path):
    """Ask on a connection of its own: which worker answers is the kernel's choice."""
    with HttpClient(
        service.url, timeout=120
    ) as client:  # asked twice it would count twice: a new worker takes its time
        return client.get(path)


@contextmanager
def stopped(pid):
    """While one worker is stopped, the other answers."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def pids(service):
    """The two workers; it takes two questions."""
    first = get(service, "/pid").json()
    with stopped(first):
        return first, get(service, "/pid").json()


def count(service, name):
    text = get(service, "/metrics").body.decode()
    (number,) = re.findall(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return float(number)


def settle(service, name, number):
    """Wait for a count."""
    end = time.monotonic() + 120
    while count(service, name) < number and time.monotonic() < end:
        time.sleep(0.05)


def test_two_processes_answer_and_their_counts_add_up(service):
    first, second = pids(service)
    assert len({first, second, service.pid}) == 3
    settle(service, ASKED, 2)
    for worker in (first, second):
        with stopped(worker):  # whichever is asked
            assert count(service, ASKED) == 2
            assert count(service, 'crossward_request_seconds_count{method="GET",route="/pid"}') == 2


def test_a_gauge_says_what_was_set_last_by_whichever_process(service):
    for level, other in enumerate((*pids(service), *pids(service)), 1):
        with stopped(other):
            assert get(service, f"/set?level={level}").json() != other
        for asked in pids(service):
            with stopped(asked):
                assert count(service, 'crossward_level{of="it"}') == level


def test_a_worker_that_is_killed_is_replaced_and_its_counts_stay(service):
    survivor, victim = pids(service)
    settle(service, ASKED, 2)
    os.kill(victim, signal.SIGKILL)
    with stopped(survivor):
        assert get(service, "/pid").json() not in (survivor, victim)
    settle(service, ASKED, 3)
    assert count(service, ASKED) == 3


def test_a_stop_ends_every_worker_well(service):
    with HttpClient(service.url, retry=NEVER) as client:
        client.get("/pid")
        service.send_signal(signal.SIGTERM)
        rest, log = service.communicate(timeout=120)
    assert service.returncode == 0
    assert rest == "after\n"
    stopped = [json.loads(line) for line in log.splitlines() if "Finished server process" in line]
    assert len(stopped) == 2


def test_workers_do_not_outlive_their_parent(service):
    workers = pids(service)
    service.kill()
    service.wait(120)
    end = time.monotonic() + 120
    while any(_alive(pid) for pid in workers) and time.monotonic() < end:
        time.sleep(0.1)
    assert not any(_alive(pid) for pid in workers)


def test_a_service_whose_workers_cannot_start_says_so_and_ends(tmp_path):
    with serving(tmp_path, CROSSWARD_LOG_LEVEL="ERROR") as started:
        out, log = started.communicate(timeout=120)
    assert started.returncode != 0
    assert out == ""
    assert "this worker cannot start" in log
    assert "NotReady" in log


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
