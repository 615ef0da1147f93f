"""One process serves a data directory: a second is refused with cause and fix, and a killed one blocks nobody."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from crossward.errors import Conflict, StorageFailed
from crossward_site import main
from crossward_site.lock import DirectoryLock
from crossward_target.settings import TargetSettings

SERVE = [sys.executable, "-m", "crossward_cli"]


def test_it_is_held_until_it_is_released(tmp_path) -> None:
    first = DirectoryLock.take(tmp_path / "home")
    with pytest.raises(Conflict) as refusal:
        DirectoryLock.take(tmp_path / "home")
    assert str(tmp_path / "home") in refusal.value.cause
    assert str(os.getpid()) in refusal.value.cause
    assert "stop that process first" in refusal.value.fix
    DirectoryLock.take(tmp_path / "other").release()
    first.release()
    first.release()
    DirectoryLock.take(tmp_path / "home").release()


def test_a_directory_that_cannot_be_locked_is_named(tmp_path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(StorageFailed, match="home"):
        DirectoryLock.take(tmp_path / "home")


@pytest.fixture
def serve(tmp_path) -> Iterator[Callable]:
    """A site as a process of its own, once it is ready; killed at the end."""
    running: list[subprocess.Popen[str]] = []
    home = tmp_path / "home"

    @contextmanager
    def started(role: str = "target") -> Iterator[subprocess.Popen[str]]:
        environment = os.environ | {"CROSSWARD_DATA_DIR": str(home), "CROSSWARD_PORT": "0", "CROSSWARD_WORK": "false"}
        process = subprocess.Popen(
            [*SERVE, role, "serve"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        running.append(process)
        with process:
            yield process

    started.home = home
    yield started
    for process in running:
        if process.poll() is None:
            process.kill()
            process.wait()


def address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    found = re.search(r"ready on (\S+)", process.stdout.readline())
    assert found, process.communicate()[1]
    return found.group(1)


def refused(process: subprocess.Popen[str], home: Path) -> None:
    output, errors = process.communicate(timeout=120)
    assert process.returncode not in (0, -signal.SIGKILL), output
    said = " ".join(errors.split())
    assert "Another process" in said
    assert home.name in said
    assert "stop that process first" in said
    assert "Traceback" not in errors


def test_a_second_process_is_refused_and_after_a_kill_the_next_one_starts(serve) -> None:
    settings = TargetSettings(data_dir=serve.home)
    main.init(settings)
    with serve() as first:
        url = address(first)
        with serve() as second:
            refused(second, serve.home)
        assert httpx.get(f"{url}/healthz", trust_env=False, timeout=60).status_code == 200
        # Commands that only look, or make tokens, work beside it.
        assert main.new_token(settings, "clinic", "ward")
        assert [token.name for token in main.held_tokens(settings)] == ["steward", "ward"]
        main.revoke_token(settings, "ward")
        first.kill()
        first.communicate()
    with serve() as next_one:
        assert httpx.get(f"{address(next_one)}/healthz", trust_env=False, timeout=60).status_code == 200
        next_one.terminate()
        next_one.communicate(timeout=120)
        assert next_one.returncode == 0


def test_the_other_role_on_the_same_directory_is_refused_too(serve) -> None:
    with serve("source") as first:
        address(first)
        with serve("target") as second:
            refused(second, serve.home)
        assert not (serve.home / TargetSettings.database_name).exists()  # nothing was made
        first.kill()
        first.communicate()
