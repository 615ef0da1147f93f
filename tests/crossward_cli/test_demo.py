"""`crossward demo`: what cannot run does not start, and what is there stays."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from crossward.errors import Conflict, InvalidEpsilon, InvalidSetting, StorageFailed
from endings import wait_for_end


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        (("--epsilon", "0"), InvalidEpsilon, "above 0"),
        (("--epsilon", "nan"), InvalidEpsilon, "finite"),
        (("--epsilon", "3"), InvalidEpsilon, "Use 2 at most"),
        (("--method", "banana"), InvalidSetting, "'banana'.*simcomb"),
        (("--method", "direct"), InvalidSetting, "'direct'.*simcomb"),
    ],
)
def test_a_demonstration_that_cannot_run_does_not_start(crossward, tmp_path, options, kind, words):
    with pytest.raises(kind, match=words):
        crossward("demo", "--dir", tmp_path / "demo", *options)
    assert not (tmp_path / "demo").exists()
    there = ("--tokens", tmp_path, "--records", "patients.csv")
    with pytest.raises(kind, match=words):
        crossward("demo", "study", "main=http://127.0.0.1:1", *there, *options)


def test_a_folder_holds_one_demonstration(crossward, tmp_path):
    (tmp_path / "coordinator").mkdir()
    with pytest.raises(Conflict, match=r"already.*another folder, or remove"):
        crossward("demo", "--dir", tmp_path)


@pytest.mark.parametrize(
    "arguments", [("demo", "--dir"), ("study", "example", "--data"), ("demo", "records", "main"), ("secret",)]
)
def test_a_path_that_cannot_be_written_is_said(crossward, tmp_path, arguments):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageFailed, match=r"cannot be written|is not there"):
        crossward(*arguments, tmp_path / "file" / "x")


def test_a_simulated_hospitals_records_are_written_once(crossward, tmp_path):
    file = tmp_path / "patients.csv"
    assert "2,316" in crossward("demo", "records", "branch-12", file)
    lines = file.read_text().splitlines()
    assert len(lines) == 2317
    assert lines[0].startswith("patient,")
    assert lines[0].endswith(",diabetes")
    file.write_text("kept")
    assert "stays" in crossward("demo", "records", "branch-12", file)
    assert file.read_text() == "kept"
    with pytest.raises(InvalidSetting, match="1 to 16"):
        crossward("demo", "records", "branch-17", tmp_path / "other.csv")
    with pytest.raises(InvalidSetting, match="elsewhere"):
        crossward("demo", "records", "elsewhere", tmp_path / "other.csv")


# -- the end of a demonstration -------------------------------------------------------------------------------------
@contextmanager
def playing(folder):
    """A demonstration that is left running; its services are its only children."""
    command = [sys.executable, "-m", "crossward_cli", "demo", "--keep", "--branches", "1", "--dir", folder / "demo"]
    ours = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs the tests may ignore it, as nohup does
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    finally:
        signal.signal(signal.SIGHUP, ours)
    with process:
        try:
            yield process
        finally:
            process.kill()


def services(process):
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


@pytest.mark.slow
def test_a_demonstration_left_running_says_all_at_once_and_ends_its_services(tmp_path):
    with playing(tmp_path) as process:
        while b"Left running" not in (part := os.read(process.stdout.fileno(), 1 << 16)):
            assert part
        said = part.decode().partition("Left running")[2].splitlines()
        assert [line.split()[0] for line in said[1:]] == [
            "coordinator",
            "operator",
            "lead",
            "auditor",
            "main",
            "branch-1",
        ]
        assert part.endswith(b"\n")
        running = services(process)
        assert len(running) == 3
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
        wait_for_end(running)


def test_a_demonstration_ended_while_it_starts_ends_its_services(tmp_path):
    with playing(tmp_path) as process:
        end = time.monotonic() + 120
        while len(services(process)) < 3:
            assert time.monotonic() < end
            time.sleep(0.02)
        running = services(process)
        process.send_signal(signal.SIGHUP)
        assert process.wait(120) > 0
        wait_for_end(running)
