"""What a service is given by the machine it runs on: time, randomness, threads, the network, the disk.

A service asks for these through its machine and in no other way. So a simulation can be the whole machine, and one seed
decides what happens on it (`crossward_lab.disasters`); and whoever reads a service sees what it depends on.
"""

from __future__ import annotations

import base64
import os
import random
import threading
import time
from collections.abc import Callable
from typing import Protocol

import httpx
from sqlalchemy import Engine

from crossward.privacy.noise import SYSTEM, Randomness
from crossward_service.db.engine import connect
from crossward_service.ops.crash import crash_point


class Flag(Protocol):
    """What threads wait for: `threading.Event` is one."""

    def is_set(self) -> bool:
        """Whether somebody has set it."""
        ...

    def set(self) -> None:
        """Let all go on that wait for it."""
        ...

    def clear(self) -> None:
        """From now on it must be set again."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, or for so many seconds; whether it is."""
        ...


class Worker(Protocol):
    """Work that goes on beside everything else: `threading.Thread` is one."""

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended, or for so many seconds."""
        ...


class Machine:
    """The machine that this process runs on."""

    # -- time ---------------------------------------------------------------------------------------------------------
    def now(self) -> float:
        """Seconds since 1970, for people and signatures. It may be wrong by days, and jump: it decides no duration."""
        return time.time()

    def elapsed(self) -> float:
        """Seconds since some moment, which never jump: by these all durations are measured."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    # -- randomness ---------------------------------------------------------------------------------------------------
    @property
    def noise(self) -> Randomness:
        """What noise is drawn from: the operating system's randomness. No setting changes it."""
        return SYSTEM

    def secret(self, count: int) -> bytes:
        """So many bytes that nobody can guess."""
        return os.urandom(count)

    def word(self, count: int) -> str:
        """So many secret bytes as text."""
        return base64.urlsafe_b64encode(self.secret(count)).decode().rstrip("=")

    def uniform(self, low: float, high: float) -> float:
        """A number between two, to spread what would happen at once; it is no secret."""
        return random.uniform(low, high)

    # -- work ---------------------------------------------------------------------------------------------------------
    def flag(self) -> Flag:
        """Something to wait for."""
        return threading.Event()

    def start(self, work: Callable[[], None], name: str) -> Worker:
        """Do this beside everything else; it ends with the process."""
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        return thread

    def reach(self, point: str) -> None:
        """The process has come to a named point: here a fault test may kill it."""
        crash_point(point)

    # -- disk and network ---------------------------------------------------------------------------------------------
    def database(self, url: str) -> Engine:
        """An engine for a database: what it commits is on disk."""
        return connect(url)

    @property
    def transport(self) -> httpx.BaseTransport | None:
        """How requests leave; None: by the network."""
        return None


HERE = Machine()
"""This one."""
