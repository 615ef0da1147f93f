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
from crossward_service.ops.backup import backup, restore
from crossward_site import main
from crossward_site.app import create_app
from crossward_site.backup import kind
from crossward_site.lock import FILE, DirectoryLock, held
from crossward_site.settings import SiteSettings
from crossward_target.settings import TargetSettings
from forked import Forked

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


def test_a_deleted_lock_file_gives_no_second_owner(tmp_path) -> None:
    lock = DirectoryLock.take(tmp_path)
    (tmp_path / FILE).unlink()
    with pytest.raises(Conflict, match="Another process serves"):
        DirectoryLock.take(tmp_path)
    lock.release()
    DirectoryLock.take(tmp_path).release()


@pytest.mark.parametrize("there", [True, False])
def test_a_link_in_the_place_of_the_lock_file_is_not_followed(tmp_path, there) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    home.mkdir()
    if there:
        other.write_text("12345")
    (home / FILE).symlink_to(other)
    lock = DirectoryLock.take(home)
    with pytest.raises(Conflict, match="Another process serves"):  # and not: process 12345
        DirectoryLock.take(home)
    lock.release()
    assert other.exists() is there
    assert not there or other.read_text() == "12345"


def test_a_pipe_in_the_place_of_the_lock_file_keeps_nobody_waiting(tmp_path) -> None:
    os.mkfifo(tmp_path / FILE)
    lock = DirectoryLock.take(tmp_path)
    with pytest.raises(Conflict):
        DirectoryLock.take(tmp_path)
    lock.release()


@pytest.mark.parametrize("beside", [True, False])
def test_two_data_directories_with_one_database_have_one_owner(tmp_path, beside) -> None:
    """A folder that was copied, with settings that still name the old database."""
    folder = tmp_path / ("one" if beside else "databases")
    folder.mkdir()
    first, second = (
        SiteSettings(data_dir=tmp_path / name, database_url=f"sqlite:///{folder}/site.sqlite3")
        for name in ("one", "two")
    )
    with held(first):
        with pytest.raises(Conflict) as refusal:
            create_app(second)
        assert str(folder) in refusal.value.cause
        assert not (folder / "site.sqlite3").exists()
    with held(second), pytest.raises(Conflict):
        create_app(first)
    with held(first):  # what was refused holds nothing
        pass


def test_nothing_is_restored_where_a_site_is_served(tmp_path) -> None:
    settings = TargetSettings(data_dir=tmp_path / "home")
    main.init(settings)
    backup(kind(settings), settings, tmp_path / "backup.tar.gz")
    other = TargetSettings(data_dir=tmp_path / "other")
    with held(other):
        with pytest.raises(Conflict, match="Another process"):
            restore(kind(other), other, tmp_path / "backup.tar.gz")
        assert [path.name for path in other.data_dir.iterdir()] == [FILE]
    restore(kind(other), other, tmp_path / "backup.tar.gz")
    assert sorted(path.name for path in other.data_dir.iterdir()) == ["site.secret", "site.sqlite3"]


@pytest.fixture
def serve(tmp_path) -> Iterator[Callable]:
    """A site as a process of its own, once it is ready; killed at the end."""
    running: list[subprocess.Popen[str]] = []
    home = tmp_path / "home"

    @contextmanager
    def started(role: str = "target") -> Iterator[subprocess.Popen[str]]:
        environment = os.environ | {"CROSSWARD_DATA_DIR": str(home), "CROSSWARD_PORT": "0", "CROSSWARD_WORK": "false"}
        process = Forked(
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
        first.kill()
        first.communicate()
