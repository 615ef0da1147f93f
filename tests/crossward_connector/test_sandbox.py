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
import ctypes, fcntl, json, os, platform, resource, socket, struct, sys, tempfile, time
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

pipe, line = os.pipe()[0], socket.socket()
QUEUE = {"x86_64": 71, "aarch64": 187}[platform.machine()]

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
    "signal by a pipe": lambda: fcntl.fcntl(pipe, fcntl.F_SETOWN, other),
    "any signal by a pipe": lambda: fcntl.fcntl(pipe, fcntl.F_SETSIG, 9),
    "signal by a pipe's leader": lambda: fcntl.fcntl(pipe, 15, struct.pack("ii", 1, other)),
    "signal by a socket": lambda: fcntl.ioctl(line, 0x8901, struct.pack("i", other)),
    "another's queue": lambda: call(QUEUE, 0, 0, None),
    "own pipe": lambda: fcntl.fcntl(pipe, fcntl.F_GETFL),
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
    assert can == ["own pipe", "own limits"]


CONNECTING = """
import json, os, socket, sys
sys.path[:0] = json.loads(sys.argv[1])
from crossward_connector.sandbox import Sandbox

box = Sandbox()
box.enter(os.getppid(), 1 << 30, 60, ())
box.only_read(["/etc/hosts"], True)
attempts = {
    "program": lambda: os.execv(sys.executable, [sys.executable, "-c", ""]),
    "process": lambda: os.fork() or os._exit(0),
    "signal": lambda: os.kill(os.getppid(), 0),
    "names": lambda: os.rename("/nowhere", "/nobody"),
    "socket": lambda: socket.socket().close(),
    "file": lambda: open("/etc/hosts").close(),
}
can = []
for name, attempt in attempts.items():
    try:
        attempt()
        can.append(name)
    except PermissionError:
        pass
os.write(1, json.dumps([box._alone, can]).encode())
"""


@pytest.mark.skipif(platform.machine() not in sandbox._MACHINES, reason="no filter for this machine")
def test_while_it_connects_only_files_and_connections_are_open() -> None:
    folders = json.dumps([str(Path(sandbox.__file__).parents[1])])
    script = [sys.executable, "-I", "-B", "-c", CONNECTING, folders]
    done = subprocess.run(script, capture_output=True, check=False, timeout=60)
    alone, can = json.loads(done.stdout)
    assert alone
    assert can == ["socket", "file"]
