"""What a process in the sandbox could still do to its own user's other processes and files: nothing."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from crossward_connector import sandbox

ATTEMPTS = """
import ctypes, json, os, resource, sys, tempfile, time
sys.path[:0] = json.loads(sys.argv[1])
from crossward_connector.sandbox import NOBODY, Sandbox

folder, libc = tempfile.mkdtemp(), ctypes.CDLL(None, use_errno=True)
if os.geteuid() == 0:
    os.chown(folder, NOBODY, NOBODY)
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
own = os.path.join(folder, "secret")
open(own, "w").close()
os.chmod(own, 0o600)
ended, ours = os.pipe()
if not (other := os.fork()):
    os.closerange(0, 3)  # nobody waits for it
    os.close(ours)
    os.read(ended, 1)  # until this process has ended
    os._exit(0)

def call(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "")

attempts = {
    "limits of another": lambda: resource.prlimit(other, resource.RLIMIT_NOFILE, (0, 0)),
    "priority of another": lambda: os.setpriority(os.PRIO_PROCESS, other, 19),
    "processors of another": lambda: os.sched_setaffinity(other, {0}),
    "signal": lambda: os.kill(other, 0),
    "rights": lambda: os.chmod(own, 0o777),
    "rights, the newer way": lambda: call(452, -100, own.encode(), 0o777, 0),
    "times": lambda: os.utime(own),
    "own limits": lambda: resource.getrlimit(resource.RLIMIT_STACK),
}
box = Sandbox()
box.enter(os.getppid(), 1 << 30, 60, ())
box.leave(os.getppid())
can = []
for name, attempt in attempts.items():
    try:
        attempt()
        can.append(name)
    except OSError:
        pass
os.write(1, json.dumps([box.in_force, can, folder]).encode())
"""


@pytest.mark.skipif(platform.machine() not in sandbox._MACHINES, reason="no filter for this machine")
def test_the_same_users_processes_and_files_are_out_of_reach() -> None:
    folders = json.dumps([str(Path(sandbox.__file__).parents[1])])
    script = [sys.executable, "-I", "-B", "-c", ATTEMPTS, folders]
    done = subprocess.run(script, capture_output=True, check=False, timeout=60)
    in_force, can, folder = json.loads(done.stdout)
    shutil.rmtree(folder)
    if not any("seccomp" in step for step in in_force):
        pytest.skip("the kernel has no seccomp")
    assert can == ["own limits"]
