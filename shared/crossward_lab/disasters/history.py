"""One history: a seed, and all that happens from it."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from traceback import format_exception
from typing import Any

from sqlalchemy import Engine

from crossward.errors import CrosswardError
from crossward.protocol.constants import Role
from crossward.study import Study
from crossward_lab.disasters import disk, federation, people, stewards
from crossward_lab.disasters.accounts import watching
from crossward_lab.disasters.disk import cut_power
from crossward_lab.disasters.events import heal, strike
from crossward_lab.disasters.federation import SOURCES, TARGETS, Hospital, Server, copy_folder
from crossward_lab.disasters.host import Gone, Host, Killed, Process
from crossward_lab.disasters.judge import Judge
from crossward_lab.disasters.lies import Lies
from crossward_lab.disasters.loop import Stuck, VirtualLoop, wait, without_threads
from crossward_lab.disasters.network import Wire
from crossward_lab.disasters.plan import Kind, Plan
from crossward_lab.disasters.records import Tables
from crossward_lab.disasters.rounds import rounds as make_rounds

LONGEST_CALM = 2000.0
"""Seconds of peace after which everything must have come to an end."""

STEP = 15.0
"""Seconds between two looks at whether it has."""


@dataclass(frozen=True, slots=True)
class MessageFate:
    """What becomes of a request and its answer."""

    delay: float = 0.0
    lost: bool = False
    doubled: bool = False
    cut: bool = False
    answer_lost: bool = False
    answer_cut: bool = False
    answer_delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a history ended. `trace` is the same for the same seed, whoever runs it and wherever."""

    seed: int
    violations: tuple[str, ...]
    kinds: tuple[str, ...]
    steps: int
    seconds: float
    studies: dict[str, int]
    releases: int
    story: tuple[str, ...]
    seen: tuple[str, ...]

    @property
    def trace(self) -> str:
        """By this two runs are compared."""
        return hashlib.sha256("\n".join((*self.story, *self.seen)).encode()).hexdigest()

    @property
    def passed(self) -> bool:
        """Whether nothing happened that must never."""
        return not self.violations


class World:
    """All there is in a history, and whatever decides what happens next."""

    def __init__(
        self, seed: int, folder: Path, plan: Plan | None = None, variant: int = 0, *, accounts_only: bool = False
    ) -> None:
        self.accounts_only = accounts_only  # whether the judge looks at nothing but what persons have lost
        self.draw = random.Random(seed)
        self.values = random.Random(f"records {variant} of {seed}")  # what records say: it decides nothing else
        self.plan = plan or Plan.draw(self.draw)
        self.folder = folder
        self.loop = VirtualLoop()
        self.calm = False
        self.story: list[str] = []
        self.steps = 0
        self.tokens: dict[str, str] = {}
        self.coordinator = Host("coordinator", folder / "coordinator")
        self.servers: list[Server] = []
        self.hospitals: dict[str, Hospital] = {}
        self.clones: list[Hospital] = []
        self.backups: list[Path] = []
        self.tables = {party: Tables(self, party) for party in (*SOURCES, *TARGETS)}
        self._leads: dict[str, asyncio.Task[None]] = {}  # one for each study
        self.network = Process(self, Host("network", folder), "network")
        self.lies = Lies(self)
        self.judge = Judge(self)

    # -- looking ------------------------------------------------------------------------------------------------------
    @property
    def time(self) -> float:
        """Seconds since the history began."""
        return self.loop.time()

    @property
    def coordinator_database(self) -> Path:
        """The coordinator's database."""
        return self.coordinator.folder / "coordinator.sqlite3"

    def names(self, role: str) -> list[str]:
        """The parties of a role."""
        return list(SOURCES if role == Role.SOURCE else TARGETS)

    def honest(self) -> list[Hospital]:
        """The hospitals that do not lie."""
        return [hospital for hospital in self.hospitals.values() if hospital.party not in self.lies.liars]

    def tell(self, text: str) -> None:
        """Add a line to the story."""
        self.story.append(f"{self.time:10.3f}  {text.replace(str(self.folder), '')}")

    def listening(self) -> Server | None:
        """A process of the coordinator that answers, whichever the request comes to."""
        alive = [server for server in self.servers if server.process.alive]
        return self.draw.choice(alive) if alive else None

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    def database(self, process: Process, url: str) -> Engine:
        """A database on the disk of a process's host."""
        return disk.database(process, url)

    def transport(self, process: Process) -> Wire:
        """The network, as a process reaches it."""
        return Wire(process)

    # -- fate ---------------------------------------------------------------------------------------------------------
    def between_steps(self, process: Process, what: str) -> None:
        """Between two steps of a process: it may die or hang, and others may have their turn."""
        if process is self.network:
            return
        if not self.calm:
            if self.draw.random() < self.plan.crash:
                self.die(process, f"as it {what}")
            if Kind.HANG in self.plan.kinds and self.draw.random() < self.plan.crash / 2 + 0.001:
                lasts = self.draw.choice((10.0, 100.0, 400.0))
                self.tell(f"{process.name}: hangs for {lasts:.0f} s")
                process.hangs_until = self.time + lasts
        while (until := max(process.hangs_until, process.host.hangs_until)) > self.time:
            wait(asyncio.sleep(min(until - self.time, STEP)))  # peace ends it, for all of the process
        if self.draw.random() < self.plan.switch:
            wait(asyncio.sleep(self.draw.expovariate(100.0)))

    def die(self, process: Process, where: str) -> None:
        """End a process here and now, and start it again later."""
        self.tell(f"{process.name}: dies {where}")
        process.kill()
        raise Killed(process.name)

    def fate_of_commit(self, process: Process) -> str:
        """Whether a commit happens, and whether anybody hears of it."""
        if self.calm or process is self.network:
            return ""
        drawn = self.draw.random()
        for name, rate in (("dies before", self.plan.crash), ("dies after", self.plan.crash)):
            if drawn < rate:
                return name
            drawn -= rate
        if drawn < self.plan.disk:
            fate = self.draw.choice(("fails", "fails after"))
            self.tell(f"{process.name}: a commit {fate}{' it happened' if fate == 'fails after' else ''}")
            return fate
        return ""

    def fate_of_message(self, process: Process) -> MessageFate:
        """What becomes of a request."""
        delay, back = self.draw.expovariate(100.0), self.draw.expovariate(100.0)
        if self.time < process.host.cut_off_until and not self.calm:
            return MessageFate(lost=True)
        if self.calm or self.draw.random() >= self.plan.loss:
            return MessageFate(delay, answer_delay=back)
        slow = MessageFate(self.draw.choice((5.0, 50.0, 200.0)), answer_delay=back)
        fates = (
            MessageFate(lost=True),
            MessageFate(delay, doubled=True, answer_delay=back),
            MessageFate(delay, cut=True),
            MessageFate(delay, answer_lost=True),
            MessageFate(delay, answer_cut=True),
            slow,
        )
        return self.draw.choice(fates)

    def failed(self, process: Process, error: BaseException) -> None:
        """Work of a process ended with an error that nobody caught: of the network, the simulation is at fault."""
        if process is self.network:
            self.judge.object(f"the simulation failed: {''.join(format_exception(error))}")

    # -- processes ----------------------------------------------------------------------------------------------------
    async def keep_running(self, start: Callable[[], Coroutine[Any, Any, Process]], host: Host) -> None:
        """Start a service, and again whenever it ends, as a supervisor does."""
        while True:
            try:
                process = await start()
            except Gone:
                process = None
            except CrosswardError as error:
                self.tell(f"{host.name}: does not start: {type(error).__name__}: {error.cause}")
                process = None
            if process is not None:
                await process.ended.wait()
            host.hangs_until = 0.0
            if Kind.POWER in self.plan.kinds and self.draw.random() < 0.5:
                cut_power(host)
            await asyncio.sleep(1.0 if self.calm else self.draw.choice((1.0, 10.0, 100.0)))

    async def start_server(self, name: str) -> Process:
        """Start a process of the coordinator."""
        server = await federation.start_coordinator(self, name)
        self.servers.append(server)
        server.process.at_end(lambda: self.servers.remove(server))
        self.tell(f"{name}: runs")
        return server.process

    async def start_hospital(self, hospital: Hospital) -> Process:
        """Start a hospital's site."""
        while hospital.gone:
            await asyncio.sleep(10.0)
        hospital.running = await federation.start_site(self, hospital, hospital.host)
        self.tell(f"{hospital.host.name}: runs")
        if hospital.outdated and not self.calm:  # the first thing that somebody does who has put an old backup back
            hospital.outdated = False
            self.network.run(stewards.tend(self, hospital, "refresh"))
        return hospital.running.process

    def supervise(self, hospital: Hospital) -> asyncio.Task[Any]:
        """Keep a hospital's site running."""
        return self.network.run(self.keep_running(lambda: self.start_hospital(hospital), hospital.host))

    # -- studies ------------------------------------------------------------------------------------------------------
    def lead(self, study: Study) -> None:
        """Let a study's lead hand it in and start it, from the beginning if that was under way."""
        if (before := self._leads.get(study.id)) is not None:
            before.cancel()
        self._leads[study.id] = self.network.run(people.lead_study(self, study))

    def is_over(self) -> bool:
        """Whether all that people have begun has come to an end."""
        return all(lead.done() for lead in self._leads.values()) and self.judge.is_over()


@contextmanager
def unexpected(world: World) -> Iterator[None]:
    """What a service did not expect and wrote to its log is a fault of it."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    root.handlers[:] = [_Unexpected(world)]
    root.setLevel(logging.WARNING)
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers


class _Unexpected(logging.Handler):
    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if record.name == "asyncio":
            return
        if error is not None and not isinstance(error, (CrosswardError, Killed)):
            self._world.judge.object(f"{record.getMessage()}: {type(error).__name__}: {error}")


# -- the run ----------------------------------------------------------------------------------------------------------
@cache
def template(variant: int) -> tuple[Path, dict[str, str]]:
    """The folder that histories begin from, and the tokens of its people. `variant` chooses the records."""
    folder = Path(tempfile.mkdtemp(prefix="crossward-disasters-", dir=_memory()))
    home = folder / "home"
    home.mkdir()
    world = World(0, home, Plan.draw(random.Random(0)), variant)
    world.calm = True
    for tables in world.tables.values():
        tables.begin()
    with without_threads():
        tokens = world.loop.run_until_complete(federation.found(world))
    world.loop.close()
    return home, tokens


def _memory() -> str | None:
    """A file system in memory, if there is one: the disk is simulated, and the real one need not work."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def run(seed: int, *, variant: int = 0, plan: Plan | None = None, accounts_only: bool = False) -> Outcome:
    """Let a history happen."""
    home, tokens = template(variant)
    folder = Path(tempfile.mkdtemp(prefix="crossward-history-", dir=_memory()))
    try:
        shutil.rmtree(folder)
        copy_folder(home, folder)
        world = World(seed, folder, plan, variant, accounts_only=accounts_only)
        world.tokens = dict(tokens)
        for tables in world.tables.values():
            tables.load()
        with without_threads(), unexpected(world), watching(world.judge.accounts):
            try:
                world.loop.run_until_complete(_happen(world))
            except Stuck as stuck:
                world.judge.object(str(stuck))
            finally:
                _end(world)
        return _outcome(seed, world)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _outcome(seed: int, world: World) -> Outcome:
    return Outcome(
        seed=seed,
        violations=tuple(world.judge.verdicts),
        kinds=tuple(sorted(kind.name.lower() for kind in world.plan.kinds)),
        steps=world.steps,
        seconds=world.time,
        studies=world.judge.states(),
        releases=world.judge.releases,
        story=tuple(world.story),
        seen=tuple(world.judge.seen),
    )


def _end(world: World) -> None:
    for hospital in (*world.hospitals.values(), *world.clones):
        hospital.stop()
    for server in list(world.servers):
        server.process.kill()
    world.network.kill()
    world.judge.close()
    pending = asyncio.all_tasks(world.loop)
    for task in pending:
        task.cancel()
    world.loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
    world.loop.close()


async def _happen(world: World) -> None:
    world.tell(f"disasters: {'; '.join(sorted(world.plan.kinds)) or 'none'}")
    workers = 2 if Kind.WORKERS in world.plan.kinds else 1
    for number in range(1, workers + 1):
        name = f"coordinator-{number}"
        world.network.run(world.keep_running(partial(world.start_server, name), world.coordinator))
    studies = [people.draw_study(world, number) for number in range(1, world.plan.studies + 1)]
    for party in sorted({party for study in studies for party in (*study.sources, *study.targets)}):
        role = Role.SOURCE if party in SOURCES else Role.TARGET
        hospital = Hospital(party, role, Host(party, world.folder / party))
        world.hospitals[party] = hospital
        world.supervise(hospital)
    for study in studies:
        world.lead(study)
    rounds = world.network.run(make_rounds(world))
    striking = [world.network.run(strike(world))]
    if Kind.DATA in world.plan.kinds:
        striking.append(world.network.run(stewards.care(world)))
    if world.plan.appraised:
        striking.append(world.network.run(stewards.appraise(world)))
    trouble = world.draw.choice((100.0, 300.0, 800.0))
    while world.time < trouble and not world.judge.verdicts:
        await asyncio.sleep(STEP)
        if world.is_over():
            break
    for task in striking:
        task.cancel()
    await heal(world)
    await _end_in_peace(world)
    rounds.cancel()
    if not world.judge.verdicts:
        world.judge.last_word()


async def _end_in_peace(world: World) -> None:
    """Wait until all has come to an end."""
    end = world.time + LONGEST_CALM
    while world.time < end and not world.judge.verdicts:
        await asyncio.sleep(STEP)
        if world.is_over():
            break
    if world.plan.appraised and not world.judge.verdicts:
        await stewards.appraise_all(world)
    while world.time < end and not world.judge.verdicts and not world.judge.is_quiet():
        await asyncio.sleep(STEP)
