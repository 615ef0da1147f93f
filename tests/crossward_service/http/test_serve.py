"""Serving as an operator meets it: a process, a ready line, signals, and refusals before anything listens."""

import asyncio.constants
import json
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from crossward.client.http import HttpClient
from crossward.errors import InsecureAddress, InvalidSetting
from crossward_service.http.app import new_app
from crossward_service.http.serve import address, new_server, ready_address, ready_text
from crossward_service.http.settings import ServiceSettings
from crossward_service.http.tls import Authority

PROGRAM = """
import time
from pathlib import Path
from crossward_service.http.app import new_app
from crossward_service.http.serve import run
from crossward_service.http.settings import ServiceSettings

app = new_app("crossward test", "1", local=False)

@app.get("/slow")
def slow() -> str:
    Path("slow").touch()
    app.state.stopping.wait(120)
    time.sleep(0.5)
    return "finished"

@app.get("/poll")
def poll() -> str:
    Path("poll").touch()
    return "stopping" if app.state.stopping.wait(120) else "nothing"

run(app, ServiceSettings.load(port=0))
print("after")
"""


@pytest.fixture
def process(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as started:
        yield started
        started.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_says_where_finishes_its_requests_and_ends_well(process, number, tmp_path):
    line = process.stdout.readline()
    assert line.startswith("crossward test ready on http://127.0.0.1:")
    answers = {}

    def ask(path):
        with HttpClient(line.split()[-1]) as client:
            answers[path] = client.get(path, wait=120).json()

    threads = [threading.Thread(target=ask, args=(path,)) for path in ("/slow", "/poll")]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 120
    while not all((tmp_path / path).exists() for path in ("slow", "poll")):  # both are under way
        assert time.monotonic() < end
        time.sleep(0.02)
    process.send_signal(number)
    for thread in threads:
        thread.join(120)
    rest, log = process.communicate(timeout=120)
    assert answers == {"/slow": "finished", "/poll": "stopping"}
    assert process.returncode == 0
    assert rest == "after\n"  # nothing else was printed
    lines = [json.loads(each) for each in log.splitlines()]
    assert {each.get("route") for each in lines} >= {"/slow", "/poll"}


def test_an_address_is_read_from_a_whole_line_only():
    settings = ServiceSettings(port=0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        line = f"{ready_text('crossward test', listener, settings)}\n"
        assert ready_address(line) == address(listener, settings)
    assert [ready_address(line[:end]) for end in range(len(line))] == [None] * len(line)
    assert ready_address('{"message": "not ready on http://127.0.0.1:1, yet"}\n') is None


NOISE = """
import logging, threading
from crossward_service.http.app import new_app
from crossward_service.http.serve import run
from crossward_service.http.settings import ServiceSettings

def talk():
    while True:
        logging.getLogger().warning("x" * 100)

threading.Thread(target=talk, daemon=True).start()
run(new_app("crossward test", "1", local=False), ServiceSettings.load(port=0))
"""


def test_the_ready_line_is_whole_where_the_log_goes_to_the_same_pipe(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-u", "-c", NOISE], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path
    ) as process:
        line = next(line for line in process.stdout if "ready on" in line)
        process.kill()
        process.communicate()
    assert line.startswith("crossward test ready on http://127.0.0.1:")
    assert ready_address(line)


def test_a_caller_that_keeps_its_connection_keeps_no_server_from_stopping(tmp_path, monkeypatch):
    """In order, TLS ends when the caller has answered; one with a pool of connections does not listen."""
    monkeypatch.setattr(asyncio.constants, "SSL_SHUTDOWN_TIMEOUT", 600.0)  # so long would asyncio wait; else it is 30
    Authority.open(tmp_path).serve(tmp_path, ["127.0.0.1"])
    tls = {"tls_cert": tmp_path / "cert.pem", "tls_key": tmp_path / "key.pem"}
    settings, ready = ServiceSettings(port=0, shutdown_seconds=600, **tls), threading.Event()
    server, listener = new_server(new_app("Test", "1", local=False), settings, lambda line: ready.set())
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    assert ready.wait(120)
    with listener, HttpClient(address(listener, settings), ca=tmp_path / "ca.pem") as client:
        client.get("/healthz")
        server.should_exit = True
        thread.join(120)
        assert not thread.is_alive()


def refused(error, **settings):
    app = new_app("Test", "1", local=False)
    with pytest.raises(error) as raised:
        new_server(app, ServiceSettings(**settings), print)
    return str(raised.value)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "coordinator.example"])
def test_other_machines_are_served_over_tls_only(host):
    assert "tls_cert" in refused(InsecureAddress, host=host)


def test_unless_told_otherwise():
    server, listener = new_server(
        new_app("Test", "1", local=False), ServiceSettings(host="0.0.0.0", port=0, insecure=True), print
    )
    with listener:
        assert not server.started


def test_a_taken_port_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port}" in refused(InvalidSetting, port=port)


def test_a_missing_certificate_is_named(tmp_path):
    assert "cert.pem" in refused(InvalidSetting, tls_cert=tmp_path / "cert.pem", tls_key=tmp_path / "key.pem")


def test_ipv6(serve, http):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    url = serve(new_app("Test", "1", local=False), host="::1")
    assert url.startswith("http://[::1]:")
    assert http.get(url + "/healthz").status_code == 200
