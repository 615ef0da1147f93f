"""A machine with a clock and a disk, and the processes on it, each of which may end at any step."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import httpx
import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine

from crossward.privacy.noise import Randomness
from crossward_lab.disasters.loop import VirtualFlag, blocking, wait
from crossward_service.ops.machine import Flag, Machine, Worker

if TYPE_CHECKING:
    from crossward_lab.disasters.history import World

T = TypeVar("T")

BEGAN = 1_800_000_000.0
"""What the clocks show when a history begins."""


class Killed(asyncio.CancelledError):
    """The process has ended here: no line of it runs any more."""


class Gone(Exception):
    """Whoever was to do something has ended."""


class Disk(StrEnum):
    """What a disk does with a write."""

    WELL = "well"
    FULL = "full"
    READ_ONLY = "read-only"


@dataclass
class Host:
    """A machine: its folder survives the processes on it."""

    name: str
    folder: Path
    skew: float = 0.0
    disk: Disk = Disk.WELL
    hangs_until: float = 0.0
    cut_off_until: float = 0.0  # what it sends until then is lost
    under_way: int = 0  # requests that it has sent and that have not arrived, or not been answered
    unflushed: dict[Path, dict[str, bytes]] = field(default_factory=dict)
    """Of each database that was not flushed at a commit: its files as the disk last had them for sure."""

    @property
    def party(self) -> str:
        """Whose it is: a clone's is that of the first."""
        return self.name.partition("'")[0]


class Noise(Randomness):
    """A machine's randomness, drawn from the history's seed. The services believe it is the operating system's."""

    seeded = False

    def __init__(self, party: str, draw: random.Random) -> None:
        self.party, self._draw = party, draw

    def words(self, count: int) -> NDArray[np.uint64]:
        """So many words."""
        return np.frombuffer(self._draw.randbytes(8 * count), dtype=np.uint64)


class Process(Machine):
    """One process on a host, which is also the machine that its service asks for everything.

    Between any two steps it may be killed, hang, or others may have their turn: the world decides (`World.step`).
    """

    def __init__(self, world: World, host: Host, name: str) -> None:
        self.world, self.host, self.name = world, host, name
        self.alive = True
        self.ended = asyncio.Event()
        self.hangs_until = 0.0  # it alone; `Host.hangs_until` is for all processes of the machine
        self._tasks: dict[asyncio.Task[Any], None] = {}  # in order: a set's order hangs on addresses
        self._ends: list[Callable[[], None]] = []
        self._noise = Noise(host.party, random.Random(world.draw.getrandbits(64)))

    # -- life ---------------------------------------------------------------------------------------------------------
    def run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Do something in this process; it ends with it."""
        task = self.world.loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    async def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something in this process and wait for it; `Gone` if the process ends meanwhile."""
        task = self.run(work)
        await asyncio.wait([task])
        if task.cancelled() or isinstance(task.exception(), Killed) or not self.alive:
            raise Gone(self.name)
        result: T = task.result()
        return result

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and self.alive and (error := task.exception()) is not None:
            self.world.failed(self, error)

    def at_end(self, act: Callable[[], None]) -> None:
        """What the operating system does when the process ends, however it ends."""
        self._ends.append(act)

    def kill(self) -> None:
        """End it, as if by the power: nothing of it runs any more."""
        if not self.alive:
            return
        self.alive = False
        for task in list(self._tasks):
            task.cancel()
        for act in reversed(self._ends):
            act()
        self.ended.set()

    def step(self, what: str) -> None:
        """A step ends here: what may happen between two steps happens now."""
        self.check_alive()
        self.world.between_steps(self, what)
        self.check_alive()

    def check_alive(self) -> None:
        """Go no further if the process has ended."""
        if not self.alive:
            raise Killed(self.name)

    # -- what a service asks its machine for --------------------------------------------------------------------------
    def now(self) -> float:
        """The host's clock, right or wrong."""
        return BEGAN + self.world.time + self.host.skew

    def elapsed(self) -> float:
        """Virtual time."""
        return self.world.time

    def sleep(self, seconds: float) -> None:
        """Wait in virtual time."""
        wait(asyncio.sleep(seconds))
        self.step("slept")

    @property
    def noise(self) -> Randomness:
        """What noise is drawn from."""
        return self._noise

    def secret(self, count: int) -> bytes:
        """So many bytes of the seed's."""
        return self.world.draw.randbytes(count)

    def uniform(self, low: float, high: float) -> float:
        """A number of the seed's."""
        return self.world.draw.uniform(low, high)

    def flag(self) -> Flag:
        """Something to wait for."""
        return VirtualFlag()

    def start(self, work: Callable[[], None], name: str) -> Worker:
        """Do this beside everything else."""
        return _Joined(self.run(blocking(work)))

    def reach(self, point: str) -> None:
        """A named point is a step like others."""
        self.step(point)

    def database(self, url: str) -> Engine:
        """A database on the host's disk."""
        return self.world.database(self, url)

    @property
    def transport(self) -> httpx.BaseTransport:
        """The simulated network."""
        return self.world.transport(self)


class _Joined:
    """A task as something to join."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended."""
        if not self._task.done():
            wait(asyncio.wait([self._task], timeout=timeout))
