"""What the connector's process gives up before it touches data. Each step is the kernel's, and none can be taken back.

Whoever takes over a parser by a file of his own then finds: no file can be opened by name, no program started, no
connection made, nothing written, nobody signalled, little memory; not even another thread of the site's own user. A
step that a kernel does not know is left out, and what is in force is said (`Sandbox.in_force`).

Landlock and seccomp count for the thread that asks for them and for those it starts: all of it is done while there is
one thread.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

NOBODY = 65534
_SLACK = 256 << 20
"""Address space for the stacks and arenas of threads: reserved, hardly used."""

_NICER = 5

_SET_PDEATHSIG, _SET_DUMPABLE, _SET_SECCOMP, _SET_NO_NEW_PRIVS = 1, 4, 22, 38
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ = (1 << 2) | (1 << 3)  # files, folders
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_BIND, _CONNECT = 1, 2

LOOK_UP = (
    *("/etc/hosts", "/etc/host.conf", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/services"),
    *("/etc/passwd", "/etc/localtime", "/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/run/systemd/resolve"),
    *(
        "/usr/lib",
        "/usr/lib64",
        "/usr/local/lib",
        "/usr/share/ca-certificates",
        "/usr/share/zoneinfo",
        "/lib",
        "/lib64",
    ),
    "/dev/urandom",
)
"""What finding a host and checking its certificate reads."""


class Sandbox:
    """The steps, in the order in which they are taken."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._alone = False
        self.in_force: list[str] = []

    def enter(self, parent: int, memory: int, seconds: float, descriptors: Iterable[int]) -> None:
        """Limits, and an end together with the parent; whoever waits for an answer of the site goes first."""
        os.umask(0o077)
        os.nice(_NICER)
        tasks = Path("/proc/self/task")
        self._alone = tasks.exists() and len(list(tasks.iterdir())) == 1
        pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
        space = pages * resource.getpagesize() + memory + _SLACK
        cpus = os.cpu_count() or 1
        limits = {
            resource.RLIMIT_AS: space,
            resource.RLIMIT_CPU: int(seconds) * cpus + 10,
            resource.RLIMIT_FSIZE: 0,
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_NOFILE: max([2, *descriptors]) + 16,
        }
        for kind, limit in limits.items():
            hard = resource.getrlimit(kind)[1]
            least = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.setrlimit(kind, (least, least))
        self.in_force.append("limits of memory and time, no file written")
        if self._prctl(_SET_NO_NEW_PRIVS, 1):
            self.in_force.append("no new privileges")
        self._die_with(parent)

    def only_read(self, paths: Iterable[str], listen_only: bool = False) -> None:
        """Open nothing but these files and folders, for reading; make no TCP connection unless it is needed.

        A database is called before the rest is given up: what neither opens nor connects is out of reach here already.
        """
        self._landlock(paths, connect=not listen_only)
        if self._alone:
            self._seccomp(connecting=True)

    def leave(self, parent: int) -> None:
        """Another user, no files by name, no network, no programs."""
        if os.geteuid() == 0:
            try:
                os.setgroups([])
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
                self.in_force.append(f"another user ({NOBODY})")
            except OSError:
                pass
            self._die_with(parent)  # a new user is a new beginning for the kernel
        self._prctl(_SET_DUMPABLE, 0)
        if not self._alone:
            return
        if version := self._landlock((), connect=True):
            self.in_force.append(f"no file by name (Landlock {version})")
        if self._seccomp():
            self.in_force.append("no file, network, program or signal (seccomp)")

    def _prctl(self, option: int, value: int) -> bool:
        try:
            return bool(self._libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) == 0)
        except AttributeError:
            return False

    def _die_with(self, parent: int) -> None:
        self._prctl(_SET_PDEATHSIG, signal.SIGKILL)
        if parent and os.getppid() != parent:
            os._exit(1)

    def _landlock(self, paths: Iterable[str], connect: bool) -> int:
        """Take away all rights on files but reading these; the version of Landlock, 0 without it."""
        call = self._libc.syscall
        version = int(call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(1)))
        if version < 1:
            return 0
        rights = (1 << _RIGHTS.get(version, 16)) - 1
        attributes = struct.pack("<Q", rights)
        if version >= 4:
            attributes += struct.pack("<Q", _BIND | (_CONNECT if connect else 0))
        if version >= 6:
            attributes += struct.pack("<Q", 0b11)
        rules = int(call(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0)))
        if rules < 0:
            return 0
        try:
            for path in paths:
                self._allow(rules, path)
            return version if call(_RESTRICT_SELF, rules, ctypes.c_uint(0)) == 0 else 0
        finally:
            os.close(rules)

    def _allow(self, rules: int, path: str) -> None:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return
        try:
            rights = _READ if os.path.isdir(path) else 1 << 2
            rule = struct.pack("<Qi", rights, descriptor)
            self._libc.syscall(_ADD_RULE, rules, ctypes.c_int(1), rule, ctypes.c_uint(0))
        finally:
            os.close(descriptor)

    def _seccomp(self, connecting: bool = False) -> bool:
        if (program := _filter(platform.machine(), connecting)) is None:
            return False
        instructions = ctypes.create_string_buffer(program)

        class Program(ctypes.Structure):
            _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

        whole = Program(len(program) // 8, ctypes.addressof(instructions))
        return bool(self._libc.prctl(_SET_SECCOMP, ctypes.c_ulong(2), ctypes.byref(whole), 0, 0) == 0)


# -- system calls that a reader of open files has no use for -----------------------------------------------------------
_X86_64 = (
    *(2, 257, 437, 85, 304, 303),  # open a file, by any means
    *(59, 322, 57, 58, 101, 310, 311, 440),  # programs, processes, other processes' memory
    *(41, 42, 49, 50, 43, 288, 53),  # sockets
    *(62, 200, 234, 129, 297, 424, 434, 438),  # signals, and handles of processes
    *(165, 166, 155, 161, 272, 308, 169, 175, 313, 176, 246, 320),  # the machine
    *(428, 429, 430, 431, 432, 433, 442),  # mounts, the newer way
    *(248, 249, 250, 321, 298, 323, 425, 426, 427, 300, 319),  # keys, BPF, counters, io_uring, memory files
    *(29, 30, 31, 68, 69, 70, 71, 64, 65, 66, 220, 240, 241),  # shared memory, queues
    *(87, 263, 82, 264, 316, 83, 258, 84, 86, 265, 88, 266, 133, 259, 76, 77, 280),  # changes of files
    *(90, 91, 268, 452, 92, 93, 94, 260, 188, 189, 190, 463, 197, 198, 199, 466, 469),  # rights of files
    *(132, 235, 261, 253, 294),  # times of files, watching them
    *(141, 142, 144, 203, 314, 251, 256, 279, 312),  # how other processes run
)
_AARCH64 = (
    *(56, 437, 265, 264),
    *(221, 281, 117, 270, 271, 440),
    *(198, 203, 200, 201, 202, 242, 199),
    *(129, 130, 131, 138, 240, 424, 434, 438),
    *(40, 39, 41, 51, 97, 268, 142, 105, 273, 106, 104, 294),
    *(428, 429, 430, 431, 432, 433, 442),
    *(217, 218, 219, 280, 241, 282, 425, 426, 427, 262, 279),
    *(194, 196, 195, 186, 189, 188, 187, 190, 193, 191, 192, 180, 181),
    *(35, 38, 276, 34, 37, 36, 33, 45, 46, 88),
    *(52, 53, 452, 54, 55, 5, 6, 7, 463, 14, 15, 16, 466, 469),
    26,
    *(140, 118, 119, 122, 274, 30, 238, 239, 272),
)


@dataclass(frozen=True, slots=True)
class _Machine:
    """The numbers of one processor: `connecting` are the denied calls that reaching a database takes."""

    architecture: int
    clone: int
    limits: int
    fcntl: int
    ioctl: int
    denied: tuple[int, ...]
    connecting: frozenset[int]


_MACHINES = {
    "x86_64": _Machine(0xC000003E, 56, 302, 72, 16, _X86_64, frozenset({2, 257, 41, 42, 49})),
    "aarch64": _Machine(0xC00000B7, 220, 261, 25, 29, _AARCH64, frozenset({56, 198, 203, 200})),
}
_OWNERS = (8, 10, 15, 1024, 1026)
"""What fcntl may not: have the kernel send signals to others when a pipe is ready, or when a file changes."""
_SOCKET_OWNERS = (0x8901, 0x8902, 0x5452)
"""The same by ioctl."""

_CLONE3 = 435
_CLONE_THREAD = 0x10000
_LOAD, _EQUAL, _AT_LEAST, _HAS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_KILL, _ALLOW, _NO_PERMISSION, _NO_SUCH_CALL = 0x80000000, 0x7FFF0000, 0x00050001, 0x00050026


def _filter(machine: str, connecting: bool = False) -> bytes | None:
    """The kernel's little program: refuse these calls, starting anything but a thread, and limits of others' own."""
    if machine not in _MACHINES:
        return None
    numbers = _MACHINES[machine]
    denied = [number for number in numbers.denied if not (connecting and number in numbers.connecting)]
    steps: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, numbers.architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
        (_AT_LEAST, 0, 1, 0x40000000),
        (_RETURN, 0, 0, _NO_PERMISSION),
        (_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _NO_SUCH_CALL),  # the C library then takes the older call
        (_EQUAL, 0, 4, numbers.clone),
        (_LOAD, 0, 0, 16),
        (_HAS, 0, 1, _CLONE_THREAD),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _NO_PERMISSION),
        (_EQUAL, 0, 4, numbers.limits),
        (_LOAD, 0, 0, 16),
        (_EQUAL, 0, 1, 0),  # this process: the C library asks for the size of its stack
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _NO_PERMISSION),
        *_without(numbers.fcntl, _OWNERS),
        *_without(numbers.ioctl, _SOCKET_OWNERS),
    ]
    steps += [(_EQUAL, len(denied) - index, 0, number) for index, number in enumerate(denied)]
    steps += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _NO_PERMISSION)]
    return b"".join(struct.pack("<HBBI", *step) for step in steps)


def _without(call: int, commands: tuple[int, ...]) -> list[tuple[int, int, int, int]]:
    """One call, refused where its second argument is one of these."""
    tests = [(_EQUAL, len(commands) - index, 0, command) for index, command in enumerate(commands)]
    ends = [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _NO_PERMISSION)]
    return [(_EQUAL, 0, len(commands) + 3, call), (_LOAD, 0, 0, 24), *tests, *ends]
