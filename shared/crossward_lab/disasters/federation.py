"""The coordinator and the sites of a history: how they are started, and the folder that all histories begin from."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fastapi import FastAPI

from crossward.learning.encoding import Flag, Number, Schema
from crossward.privacy.budget import Budget
from crossward.protocol.constants import Role
from crossward_coordinator.app import check_database, create_app, furnish
from crossward_coordinator.main import init as init_coordinator
from crossward_coordinator.settings import CoordinatorSettings
from crossward_lab.disasters.host import Host, Process
from crossward_lab.disasters.loop import blocking
from crossward_lab.disasters.network import Call, serve
from crossward_lab.disasters.records import DATASET, Shelf, place_of
from crossward_service.db.engine import write
from crossward_site.coordinator import Coordinator
from crossward_site.data import seating
from crossward_site.data.connector import InProcess
from crossward_site.data.jobs import JobRunner
from crossward_site.data.mapping import DataMap
from crossward_site.data.requests import works
from crossward_site.data.service import Vault, tidy_at_start
from crossward_site.identity.service import Link, join
from crossward_site.ledger.service import sync
from crossward_site.lock import DirectoryLock
from crossward_site.policy.service import Decision, Policy
from crossward_site.site import Site
from crossward_site.tasks.runner import Pace, Runner

if TYPE_CHECKING:
    from crossward_lab.disasters.history import World

T = TypeVar("T")

URL = "http://127.0.0.1:8400"
BUDGET = 1.0
SOURCES = ("source-1", "source-2", "source-3")
TARGETS = ("target-1", "target-2")
SCHEMA = Schema((Number("glucose", 3.0, 12.0, "mmol/L", 5.5), Flag("family", default=False)))
PACE = Pace(poll=90.0, tick=90.0, pulse=180.0, retry=30.0, compare=400.0)
LEASE = 60.0
IDLE = 100.0
"""Seconds between two looks for a job that nobody has said is there."""


@dataclass
class Server:
    """A process of the coordinator that answers."""

    process: Process
    app: FastAPI


@dataclass
class RunningSite:
    """A process that serves a site's folder."""

    process: Process
    site: Site
    runner: Runner
    jobs: JobRunner


@dataclass
class Hospital:
    """A party, and the folders of it that there are: one, or two after somebody has cloned it."""

    party: str
    role: Role
    host: Host
    process: Process | None = None  # the last that was started
    running: RunningSite | None = None
    gone: bool = False
    lost: bool = False  # its folder is, and it has not joined anew yet
    losses: int = 0
    restored: bool = False  # an old backup of it was put back
    outdated: bool = False  # and its steward has yet to bring the data of today
    revoked: bool = False
    generation: int = 0
    backups: list[Path] = field(default_factory=list)

    @property
    def database(self) -> Path:
        """Its database."""
        return self.host.folder / "site.sqlite3"

    def stop(self) -> None:
        """End its process, wherever that is."""
        if self.process is not None:
            self.process.kill()


@lru_cache(maxsize=4)
def coordinator_settings(folder: Path, tick: float) -> CoordinatorSettings:
    """A coordinator with the pace of a simulation: what nobody waits for may take long."""
    return CoordinatorSettings(
        data_dir=folder, lease_seconds=LEASE, clock_seconds=tick, poll_seconds=30.0, longest_wait=90.0, attempts=1000
    )


async def start_coordinator(world: World, name: str) -> Server:
    """Start a process of the coordinator."""
    process = Process(world, world.coordinator, name)
    app = await _started(process, _new_app)
    app.state.clock.start()
    return Server(process, app)


async def _started(process: Process, start: Callable[[Process], T]) -> T:
    """A service that was started in a process; what cannot start ends its process."""
    try:
        return await process.do(blocking(start, process))
    except Exception:
        process.kill()
        raise


_SPARE: list[FastAPI] = []
"""Applications that no process has now: to make their routes takes longer than most histories."""


def _new_app(process: Process) -> FastAPI:
    settings = coordinator_settings(process.host.folder, process.world.plan.tick)
    if _SPARE:
        app = _SPARE.pop()
        furnish(app, settings, process)
    else:
        app = create_app(settings, process)
    check_database(app.state.engine, app.state.identity)
    process.at_end(lambda: _SPARE.append(app))
    return app


async def start_site(world: World, hospital: Hospital, host: Host) -> RunningSite:
    """Start a process that serves a folder of a site: it locks it, opens it, and begins to work."""
    hospital.process = process = Process(world, host, host.name)
    return await _started(process, _open)


def _open(process: Process) -> RunningSite:
    folder, database = process.host.folder, process.host.folder / "site.sqlite3"
    lock = DirectoryLock.take(folder, database)
    process.at_end(lock.release)
    site = _site(process)
    seating.settle(site)
    tidy_at_start(site)
    runner = Runner(site, Link(), PACE)
    jobs = JobRunner(site, works(runner.coordinator), pause=IDLE)
    jobs.start()
    runner.start()
    return RunningSite(process, site, runner, jobs)


def _site(process: Process) -> Site:
    """The site in a process's folder; the hospital's tables lie beside it, and are the party's, whoever serves it."""
    folder = process.host.folder
    shelf = Shelf({"files": shelf_of(process.world.folder, process.host.party)})
    return Site.open(f"sqlite:///{folder}/site.sqlite3", folder, process, InProcess(shelf))


def shelf_of(folder: Path, party: str) -> Path:
    """Where a hospital keeps its tables."""
    return folder / "records" / party


async def ask(app: FastAPI, token: str, method: str, path: str, body: Any = None, kind: str = "json") -> Any:
    """A person's request, with a token; the answer, or None if it is a refusal."""
    content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = (("authorization", f"Bearer {token}"), ("content-type", f"application/{kind}"))
    reply = await serve(app, Call(method, path, "", headers, content))
    if reply is None or not 200 <= reply.status < 300:
        return None
    return json.loads(reply.body) if reply.body else {}


# -- the beginning of all histories -----------------------------------------------------------------------------------
MAPPING = {
    "person": "pid",
    "features": {"family": {"column": "family", "recode": {"yes": True, "no": False}}},
    "labels": {"ill": {"column": "ill", "recode": {"1": True, "0": False}}},
}


async def found(world: World) -> dict[str, str]:
    """Make a coordinator and all hospitals, enrolled and with data; gives the tokens of the coordinator's people."""
    settings = coordinator_settings(world.coordinator.folder, world.plan.tick)
    network = world.network
    tokens = await network.do(blocking(init_coordinator, settings, network))
    named = {str(role): token for role, token in tokens.tokens.items()}
    server = await start_coordinator(world, "coordinator")
    world.servers.append(server)
    for party in (*SOURCES, *TARGETS):
        role = Role.SOURCE if party in SOURCES else Role.TARGET
        invited = await ask(
            server.app, named["operator"], "POST", "/v1/parties/invites", {"party": party, "role": role}
        )
        host = Host(party, world.folder / party)
        process = Process(world, host, party)
        await process.do(blocking(_found_site, process, invited["code"], role))
        process.kill()
    server.process.kill()
    return named


def _found_site(process: Process, code: str, role: Role) -> None:
    site = _site(process)
    coordinator = Coordinator(join(site, URL, code, (role,)), process)
    sync(site, coordinator)
    Vault(site).open(DATASET, place_of(DATASET), DataMap.from_data(MAPPING), Budget.of(BUDGET))
    with write(site.engine) as connection:
        Policy(decide=Decision.APPROVE).save(connection)
    sync(site, coordinator)


def copy_folder(source: Path, to: Path) -> None:
    """A copy of a folder as it is now; no transaction is under way."""
    shutil.copytree(source, to, ignore=shutil.ignore_patterns("*-shm", "site.lock"))
