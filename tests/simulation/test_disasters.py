"""A hundred histories of the whole federation; and the faults that thousands of them must find."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

import forked
from crossward_lab.disasters.campaign import find, tell
from crossward_lab.disasters.history import run
from crossward_lab.disasters.planted import FAULTS

BATCH = 20

FOUND = {
    "refund": 16,
    "unflushed": 6,
    "second-draw": 32,
    "wall-clock": 68,
    "given-up": 389,
    "overdraft": 2,
    "telling": 20,
    "second-seat": 4,
    "forgotten-seats": 31,
    "erased-returns": 12,
    "twice": 507,
    "moved": 4,
    "two-tags": 42,
    "seated-behind": 602,
    "freed-seats": 4,
    "unlifted": 29,
    "unasked": 510,
    "late-age": 699,
}
"""The first history that found each fault, when all were last looked for: where that one still does, it need not be
looked for again among all before it."""


@pytest.mark.parametrize("first", range(1, 101, BATCH))
def test_histories_pass(first):
    outcomes = [tell(seed) for seed in range(first, first + BATCH)]
    failed = {outcome.seed: outcome.violations for outcome in outcomes if not outcome.passed}
    assert failed == {}, "replay one: crossward simulate disasters --replay --seed SEED"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_and_its_seed_replays_to_the_same_line(fault):
    found = find(fault, 1, workers=1, first=FOUND.get(fault, 1)) or find(fault, 1000, workers=1)
    assert found is not None, f"1,000 histories did not find {fault}"
    again = _elsewhere(found.seed, fault)
    assert again["violations"] == list(found.violations)
    assert again["story"] == list(found.story)


def test_a_history_is_its_seed_whoever_tells_it():
    here = run(3)
    there = _elsewhere(3)
    assert there["trace"] == here.trace
    assert run(3).trace == here.trace
    assert run(4).trace != here.trace


_ENDLESS = """
import multiprocessing, time
from concurrent.futures import ProcessPoolExecutor
from crossward_lab.disasters.campaign import begin
ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), begin).submit(time.sleep, 1e6).result()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_worker_ends_with_its_parent():
    with subprocess.Popen([sys.executable, "-c", _ENDLESS]) as campaign:
        while not (workers := _workers(campaign.pid)):
            assert campaign.poll() is None
            time.sleep(0.05)
        campaign.kill()
    while any(_runs(worker) for worker in workers):
        time.sleep(0.05)


def _workers(parent):
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [child for child in children if b"spawn_main" in _command(child)]


def _command(process):
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def _runs(process):
    """Whether it has a command line still: who is gone has none, nor one whose end nobody has asked for."""
    return _command(process) != b""


def _elsewhere(seed, fault=None):
    """The same history in a process of its own, where every hash and address is another."""
    command = [sys.executable, "-m", "crossward_cli", "simulate", "disasters"]
    command += ["--json", "--replay", "--seed", str(seed)]
    command += ["--planted", fault] if fault else []
    ended = forked.run(command)
    assert ended.returncode == (1 if fault else 0), ended.stderr
    return json.loads(ended.stdout)
