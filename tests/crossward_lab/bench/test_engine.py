"""Ctrl-C ends a benchmark at once and keeps what is finished; damaged data is refused before any work."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from crossward.errors import InvalidData
from crossward_lab.bench.datasets.files import FILES
from crossward_lab.bench.engine import benchmark
from crossward_lab.bench.settings import Choice
from crossward_lab.bench.store import FILE_CONTENTS, Store, require_intact

SLOW = """
import sys, time
from crossward_lab.bench import engine

def measure(batch):
    if batch[0].repeat or batch[0].epsilon != 0.125:
        time.sleep(3600)
    return [(run, {"A": {"auc": 0.75, "error": 0.2}}) for run in batch]

if __name__ == "__main__":
    from crossward_cli.main import app

    engine.measure_batch = measure
    sys.argv = ["crossward", "bench", *sys.argv[1:]]
    app()
"""


@pytest.mark.parametrize("command", [("ruijin",), ("report", "docs", "--dataset", "ruijin", "--dataset", "ruijin")])
def test_an_interrupt_ends_all_at_once_and_keeps_what_is_finished(
    tmp_path: Path, heard: Callable[..., list[str]], command: tuple[str, ...]
) -> None:
    if command[0] == "report":
        pytest.importorskip("matplotlib")
    (tmp_path / "slow.py").write_text(SLOW)
    running = subprocess.Popen(
        heard(sys.executable, "slow.py", *command, "--workers", "2"),
        cwd=tmp_path,
        env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    store = tmp_path / "crossward" / "bench" / "ruijin.jsonl"
    try:
        for _ in range(3000):
            if store.is_file() and store.read_text().count("\n") >= 32:  # all but those that sleep
                break
            time.sleep(0.1)
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does it: to the workers too
        _, said = running.communicate(timeout=300)  # and not the hour that a batch takes
    except BaseException:
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
        raise
    assert running.returncode == 130, said
    assert "Interrupted" in said
    assert "Traceback" not in said
    assert len(Store("ruijin", store.parent)._lines()) >= 32
    assert _all_end(running.pid), "no worker outlives it"


def _all_end(group: int) -> bool:
    """Some see that the others have ended, and end then."""
    for _ in range(1200):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files that can be read, and hold next to nothing."""
    monkeypatch.setenv("CROSSWARD_DATA", str(tmp_path))
    for name, held in FILE_CONTENTS.items():
        if name.endswith(".npz"):
            np.savez_compressed(tmp_path / name, **{array: np.random.default_rng(0).random(1000) for array in held})
    (tmp_path / "brfss2022_codebook.json").write_text('{"State": [], "HadDiabetes": []}')
    (tmp_path / "brfss2022_state.csv.gz").write_bytes(gzip.compress(b"State,HadDiabetes\n" + os.urandom(1000)))
    return tmp_path


@pytest.mark.parametrize("dataset", ["mnist", "news20", "covertype", "brfss"])
def test_a_damaged_file_is_named(data: Path, dataset: str) -> None:
    require_intact(dataset)
    for name in FILES[dataset]:
        whole = (data / name).read_bytes()
        middle = len(whole) // 2
        for damaged in (b"", b"garbage", os.urandom(1000), whole[:middle], whole[:60] + bytes(40) + whole[100:]):
            if name.endswith(".json") and len(damaged) > middle:
                continue
            (data / name).write_bytes(damaged)
            with pytest.raises(InvalidData, match=name):
                require_intact(dataset)
        (data / name).write_bytes(whole)


def test_another_file_under_the_same_name_is_not_the_data(data: Path) -> None:
    np.savez(data / "mnist_03789.npz", other=np.arange(3))
    with pytest.raises(InvalidData, match="mnist_03789"):
        require_intact("mnist")
    with (data / "mnist_03789.npz").open("wb") as file:
        np.save(file, np.arange(3))
    with pytest.raises(InvalidData, match="mnist_03789"):
        require_intact("mnist")


def test_a_benchmark_looks_at_its_data_before_it_measures(data: Path, tmp_path: Path) -> None:
    (data / "covertype_12.npz").write_bytes(b"garbage")
    with pytest.raises(InvalidData, match="covertype_12"):
        benchmark("covertype", Choice(repeats=1), Store("covertype", tmp_path / "store"), workers=1)
