"""A coordinator of two processes on one port: what one of them has seen, the other knows."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import httpx
import pytest

from crossward.errors import InvalidSetting
from crossward.protocol import keys
from crossward_coordinator.main import init
from crossward_coordinator.settings import CoordinatorSettings
from crossward_service.http.signing import Signer
from endings import wait_for_end


@pytest.fixture
def coordinator(postgresql_url, tmp_path):
    settings = {"data_dir": tmp_path / "data", "database_url": postgresql_url, "port": 0, "workers": 2}
    settings |= {"clock_seconds": 5}  # a worker that is stopped must not hold a lock
    tokens = init(CoordinatorSettings(**settings)).tokens
    environment = os.environ | {f"CROSSWARD_{name.upper()}": str(value) for name, value in settings.items()}
    environment |= {"OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", "crossward_cli", "coordinator", "serve"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as started:
        try:
            started.url = started.stdout.readline().split()[-1]
            started.tokens = tokens
            started.workers = _workers(started)
            yield started
            if started.poll() is None:
                started.send_signal(signal.SIGTERM)
                assert started.wait(120) == 0
        finally:
            started.kill()


def _workers(parent):
    """Its two workers: it has no other children."""
    with open(f"/proc/{parent.pid}/task/{parent.pid}/children") as file:
        found = [int(pid) for pid in file.read().split()]
    assert len(found) == 2
    return found


@contextmanager
def only(coordinator, number):
    """While the others are stopped, one worker answers."""
    others = [pid for pid in coordinator.workers if pid != coordinator.workers[number]]
    for pid in others:
        os.kill(pid, signal.SIGSTOP)
    try:
        with httpx.Client(base_url=coordinator.url, trust_env=False, timeout=120) as client:
            yield client
    finally:
        for pid in others:
            os.kill(pid, signal.SIGCONT)


def test_a_nonce_spent_at_one_worker_is_spent_at_the_other(coordinator):
    bearer = {"Authorization": f"Bearer {coordinator.tokens['operator']}"}
    key = keys.generate()
    with only(coordinator, 0) as first:
        code = first.post("/v1/parties/invites", json={"party": "main", "role": "source"}, headers=bearer).json()
    enrolment = {"code": code["code"], "public_key": keys.public_text(key), "protocol": 1}
    with only(coordinator, 1) as second:  # a code of one worker is good at the other, for one key
        assert second.post("/v1/parties", json=enrolment).status_code == 201
        asked = second.build_request("GET", "/v1/ledger/main")
        signed = next(Signer("main", keys.key_id(key), key).sync_auth_flow(asked))
        assert second.send(signed).status_code == 200
    with only(coordinator, 0) as first:
        other = {"code": code["code"], "public_key": keys.public_text(keys.generate()), "protocol": 1}
        assert first.post("/v1/parties", json=other).status_code in (401, 403, 409)
        again = first.send(signed)
    assert again.status_code == 401
    assert "replay" in again.json()["type"]


def test_workers_end_with_their_parent(coordinator):
    coordinator.kill()
    coordinator.wait(120)
    wait_for_end(coordinator.workers)


def test_several_workers_refuse_sqlite():
    with pytest.raises(InvalidSetting, match="PostgreSQL"):
        CoordinatorSettings.load(workers=2)
