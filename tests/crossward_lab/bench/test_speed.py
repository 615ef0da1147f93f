"""The speed benchmark is run for its report, not for its times."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from crossward.errors import InvalidSetting
from crossward_lab.bench import speed as bench
from crossward_lab.bench import speed_worker as worker


def test_a_tiny_run_gives_a_whole_report() -> None:
    lines: list[str] = []
    report = bench.speed([500], features=10, repeats=2, threads=1, peers=False, progress=lines.append)
    assert [row.method for row in report.rows] == ["crossward", "crossward, 5 groups", "lbfgs", "newton-cholesky"]
    assert (report.features, report.repeats, report.threads, report.notes) == (10, 2, 1, ())
    assert lines
    for row in report.rows:
        assert row.n == 500
        assert 0 < row.fastest <= row.seconds <= row.slowest
        assert row.gradient >= 0
        assert row.memory > 0
        assert (row.passes is None) == (row.floor is None) == (not row.private)
    ours = report.rows[0]
    assert ours.times_ours == 1.0
    assert ours.gradient <= 1e-4
    assert json.loads(json.dumps(report.describe()))["rows"][0]["method"] == "crossward"


def test_scikit_learn_is_asked_for_the_same_minimum() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 5)) / 5
    y = np.where(X[:, 0] + 0.1 * rng.logistic(size=400) > 0, 1.0, -1.0)
    found = worker.examine("newton-cholesky", X, y, lam=0.01, epsilon=1.0, groups=1)
    assert found["gradient"] < 0.1


@pytest.mark.parametrize("wrong", [{"sizes": []}, {"sizes": [5]}, {"features": 2}, {"repeats": 0}])
def test_refuses_what_cannot_be_measured(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidSetting):
        bench.speed(**({"sizes": [500], "peers": False} | wrong))  # type: ignore[arg-type]


def test_without_peers_it_says_so_and_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Offline: the environment cannot be made, one line says so, nothing is left behind."""
    (tmp_path / "requirements").mkdir()
    (tmp_path / bench.PEERS_LOCK).write_text("diffprivlib==0.6.6\n")
    monkeypatch.chdir(tmp_path)

    def offline(command: list[str], **options: object) -> None:
        raise subprocess.CalledProcessError(1, command, stderr=b"ERROR: no network\n")

    monkeypatch.setattr(bench.subprocess, "run", offline)
    report = bench.speed([100], features=5, repeats=1, threads=1, peers=True)
    assert report.notes == ("diffprivlib is left out: its environment could not be made (ERROR: no network).",)
    assert len(report.rows) == 4
    assert not (tmp_path / bench.PEERS_HOME).exists()


def test_an_environment_is_made_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "requirements").mkdir()
    (tmp_path / bench.PEERS_LOCK).write_text("diffprivlib==0.6.6\n")
    monkeypatch.chdir(tmp_path)
    made: list[list[str]] = []

    def succeed(command: list[str], **options: object) -> None:
        made.append(command)
        (tmp_path / bench.PEERS_HOME).mkdir(exist_ok=True)

    monkeypatch.setattr(bench.subprocess, "run", succeed)
    first, second = bench.peers_python(str), bench.peers_python(str)  # type: ignore[arg-type]
    assert first == second == tmp_path / bench.PEERS_HOME / "bin" / "python"
    assert sum("--require-hashes" in command for command in made) == 1
