"""One service as several processes: one line, one set of counts, replaced when killed, ended together."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from crossward.client.http import NEVER, HttpClient
from endings import alive, wait_for_end

ASKED = 'crossward_requests_total{method="GET",route="/pid",status="200"}'
PROGRAM = """
from crossward_service.http.worker import begin
if __name__ == "__main__":
    order = begin()
import os, sys, time
from contextlib import asynccontextmanager
from pathlib import Path
from crossward_service.http import serve
from crossward_service.http.app import new_app
from crossward_service.http.settings import ServiceSettings

def reach(point):
    if "IN_WORKER" in os.environ and Path(point).exists():
        Path(f"{point}.{os.getpid()}").touch()
        time.sleep(3600)

reach("importing")

def create(settings):
    reach("creating")
    if settings.log_level == "ERROR":
        raise RuntimeError("this worker cannot start")

    @asynccontextmanager
    async def lifespan(app):
        reach("starting")
        yield
        reach("stopping")

    app = new_app("crossward test", "1", local=False, lifespan=lifespan)
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
        Path(f"polling.{os.getpid()}").touch()
        return "stopping" if app.state.stopping.wait(3600) else "nothing"

    @app.get("/slow")
    def slow() -> None:
        reach("asked")

    return app

def main():
    os.environ["IN_WORKER"] = "yes"
    serve.STOP_SECONDS = 1.0
    serve.run_workers(sys.modules[__name__], ServiceSettings.load(port=0), 2)
    print("after")

if __name__ == "__main__":
    serve.work(create, ServiceSettings.from_json(order.settings), order)
"""


@contextmanager
def serving(folder, **environment):
    (folder / "program.py").write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, "-c", "from program import main; main()"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])} | environment,
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


# -- a parent that is killed ----------------------------------------------------------------------------------------
def reached(folder, point, count):
    """Wait until as many workers are at a point of their lives."""
    end = time.monotonic() + 120
    while len(there := [int(path.suffix[1:]) for path in folder.glob(f"{point}.*")]) < count:
        assert time.monotonic() < end
        time.sleep(0.02)
    return there


def end_with_parent(service, workers):
    """Kill the parent; the workers end by themselves."""
    assert all(map(alive, workers))
    service.kill()
    service.wait(120)
    wait_for_end(workers)


@contextmanager
def asking(service, path):
    """While a request is under way that nobody answers."""
    with socket.create_connection(("127.0.0.1", int(service.url.rpartition(":")[2]))) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        yield


@pytest.mark.parametrize("point", ["importing", "creating", "starting"])
def test_workers_end_with_their_parent_before_they_are_ready(tmp_path, point):
    (tmp_path / point).touch()
    with serving(tmp_path, CROSSWARD_SHUTDOWN_SECONDS="1") as started:
        end_with_parent(started, reached(tmp_path, point, 2))


def test_idle_workers_end_with_their_parent(service):
    end_with_parent(service, pids(service))


def test_a_workers_long_poll_ends_with_its_parent(service, tmp_path):
    workers = pids(service)
    with asking(service, "/poll"):
        reached(tmp_path, "polling", 1)
        end_with_parent(service, workers)


@pytest.mark.parametrize("point", ["asked", "stopping"])
def test_a_worker_that_cannot_stop_ends_with_its_parent(tmp_path, point):
    (tmp_path / point).touch()
    with serving(tmp_path, CROSSWARD_SHUTDOWN_SECONDS="1") as started:
        started.url = started.stdout.readline().split()[-1]
        workers = pids(started)
        with asking(started, "/slow"):
            if point == "asked":
                reached(tmp_path, point, 1)
            end_with_parent(started, workers)


def test_a_worker_that_replaces_another_ends_with_its_parent(service, tmp_path):
    survivor, victim = pids(service)
    (tmp_path / "creating").touch()
    os.kill(victim, signal.SIGKILL)
    end_with_parent(service, [survivor, *reached(tmp_path, "creating", 1)])


def test_a_service_whose_workers_cannot_start_says_so_and_ends(tmp_path):
    with serving(tmp_path, CROSSWARD_LOG_LEVEL="ERROR") as started:
        out, log = started.communicate(timeout=120)
    assert started.returncode != 0
    assert out == ""
    assert "this worker cannot start" in log
    assert "NotReady" in log
