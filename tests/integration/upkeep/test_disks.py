"""Services on a disk that cannot be written, from their start or later: they say so, and go on once it can be."""

import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import httpx
import pytest

from crossward_coordinator.main import init as init_coordinator
from crossward_coordinator.settings import CoordinatorSettings
from crossward_site.main import init as init_site
from crossward_target.settings import TargetSettings
from forked import Forked, run
from rights import obey_rights

KINDS = {"coordinator": (CoordinatorSettings, init_coordinator), "target": (TargetSettings, init_site)}
KILLED = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("UPDATE alembic_version SET version_num = version_num")
os._exit(0)
"""


class Disk:
    """A service's data directory, which may be written or not."""

    def __init__(self, service, folder):
        self.service, self.folder = service, folder
        kind, init = KINDS[service]
        settings = kind(data_dir=folder)
        init(settings)
        self.database = settings.sqlite_file

    def leave_a_log(self):
        """What is there after a process that was killed."""
        subprocess.run([sys.executable, "-c", KILLED, self.database], check=True)

    def let_write(self, may):
        for path in self.folder.iterdir():
            if path.is_file():
                path.chmod(0o600 if may else 0o400)
        self.folder.chmod(0o700 if may else 0o500)

    def command(self):
        return {
            "args": [sys.executable, "-m", "crossward_cli", self.service, "serve"],
            "env": os.environ | {"CROSSWARD_DATA_DIR": str(self.folder), "CROSSWARD_PORT": "0"},
            "text": True,
            "preexec_fn": obey_rights,
        }

    @contextmanager
    def serving(self):
        with Forked(**self.command(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            try:
                process.url = process.stdout.readline().split()[-1]
                yield process
                process.send_signal(signal.SIGTERM)
                assert process.wait(120) == 0
            finally:
                process.kill()


@pytest.fixture(params=KINDS)
def disk(request, tmp_path):
    made = Disk(request.param, tmp_path / "data")
    yield made
    made.let_write(True)


def becomes(process, status):
    """Wait until the service says that it is ready, or that its database is not."""
    end = time.monotonic() + 120
    while (answer := httpx.get(f"{process.url}/readyz", trust_env=False, timeout=120)).status_code != status:
        assert time.monotonic() < end, answer.text
        time.sleep(0.1)
    assert status == 200 or "database" in answer.json()["detail"]


def test_a_disk_that_fills_up_is_said_and_so_is_its_end(disk):
    with disk.serving() as process:
        becomes(process, 200)
        before = resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        becomes(process, 503)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, before)
        becomes(process, 200)


def test_a_service_on_a_read_only_disk_begins_its_work_once_it_is_writable(disk):
    disk.leave_a_log()
    disk.let_write(False)
    with disk.serving() as process:
        becomes(process, 503)
        disk.let_write(True)
        becomes(process, 200)


def test_a_service_that_cannot_open_its_database_does_not_start_and_says_why(disk):
    disk.let_write(False)
    command = disk.command()
    done = run(command.pop("args"), **command)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "StorageFailed" in done.stderr
    assert "readonly" in done.stderr
