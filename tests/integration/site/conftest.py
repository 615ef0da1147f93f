"""A federation on this machine: the real coordinator over loopback HTTP, real sites on their own databases."""

from __future__ import annotations

import csv
import itertools
import runpy
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psycopg
import pytest
from fastapi import FastAPI
from sqlalchemy import Engine, event, select

from crossward.client.http import NEVER, HttpClient, Token
from crossward.errors import CrosswardError
from crossward.learning.encoding import Category, Flag, Number, Schema
from crossward.privacy.budget import Budget
from crossward.protocol.constants import Role, TaskKind
from crossward.protocol.ledger.lines import Line
from crossward.study import Study, study_for
from crossward.study.wire import task_message
from crossward_coordinator import main as coordinator
from crossward_coordinator.app import create_app
from crossward_coordinator.settings import CoordinatorSettings
from crossward_service.db.engine import read, write
from crossward_service.http.serve import new_server
from crossward_service.http.settings import ServiceSettings
from crossward_site.coordinator import Coordinator
from crossward_site.data.connector import InProcess
from crossward_site.data.mapping import DataMap
from crossward_site.data.places import FilePlace, Sources
from crossward_site.data.service import Vault
from crossward_site.identity import tokens
from crossward_site.identity.service import join
from crossward_site.ledger.service import sync
from crossward_site.policy.service import Policy
from crossward_site.site import Site
from crossward_site.tasks import service as tasks
from crossward_site.tasks.runner import Pace, Runner
from crossward_site.tasks.steps import advance
from crossward_site.tasks.tables import outbox
from crossward_target import app as target
from crossward_target.settings import TargetSettings
from forked import Forked

SCHEMA = Schema(
    (
        Number("glucose", 3.0, 12.0, "mmol/L", 5.5),
        Number("bmi", 15.0, 45.0, "kg/m2", 25.0),
        Flag("family", False),
        Category("smoker", ("never", "former", "current"), "never"),
    )
)
MAPPING = {
    "person": "pid",
    "features": {
        "glucose": {"column": "glu", "unit": "mg/dL", "substance": "glucose"},
        "family": {"column": "fam", "recode": {"Y": True, "N": False}},
        "smoker": {"column": "smoke", "recode": {"N": "never", "F": "former", "C": "current"}},
    },
    "labels": {"diabetes": {"column": "dm", "recode": {"1": True, "0": False}}},
}
TABLE = FilePlace(kind="csv", root="files", path="table.csv")
PACE = Pace(poll=0.0, tick=0.02, pulse=0.05, retry=0.1)
POSTGRES = runpy.run_path(str(Path(__file__).parents[2] / "postgres.py"))
WORKER = Path(__file__).with_name("worker.py")


def write_csv(path: Path, rows: int, seed: int = 0) -> Path:
    """A hospital's own table: other names, other units, other codes."""
    draw = np.random.default_rng(seed)
    glucose, bmi = draw.uniform(3.5, 11.0, rows), draw.uniform(18.0, 40.0, rows)
    family, smoker = draw.random(rows) < 0.3, draw.integers(0, 3, rows)
    ill = draw.random(rows) < 1 / (1 + np.exp(-(1.5 * (glucose - 7) + 0.1 * (bmi - 28) + family)))
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["pid", "glu", "bmi", "fam", "smoke", "dm"])
        for k in range(rows):
            codes = ["NY"[int(family[k])], "NFC"[smoker[k]], int(ill[k])]
            out.writerow([f"p{k}", f"{glucose[k] * 18.016:.3f}", f"{bmi[k]:.2f}", *codes])
    return path


def refuse_nesting(engine: Engine) -> None:
    """Whoever opens a transaction while holding another fails at once: one at a time, and it shows who opens it."""
    held = threading.local()

    def begin(connection: Any) -> None:
        assert not getattr(held, "busy", False), "a transaction inside another"
        held.busy = True

    def end(connection: Any) -> None:
        held.busy = False

    event.listen(engine, "begin", begin)
    event.listen(engine, "commit", end)
    event.listen(engine, "rollback", end)


@dataclass
class Hospital:
    """A site in this process. Its worker may also run as a process of its own, to be killed."""

    site: Site
    home: Path
    files: Path
    party: str
    url: str
    runners: list[Runner] = field(default_factory=list)

    def new_runner(self) -> Runner:
        self.runners.append(Runner(self.site, pace=PACE))
        return self.runners[-1]

    def drive(self) -> None:
        """Take and do all there is to do."""
        runner = self.runners[-1] if self.runners else self.new_runner()
        while runner.take() or runner.work():
            pass

    def drive_until(self, state: str) -> None:
        """Take one task, and step it until it has come to this state."""
        runner = self.new_runner()
        assert runner.take()
        task = self.tasks()[-1]
        while task.state != state:
            task = advance(self.site, runner.coordinator(), task)

    def offered(self, study: Study, id: str = "t1", **message: Any) -> tasks.Task:
        """A task that the coordinator makes up, after the site's first step."""
        offer = task_message(study, id=id, kind=TaskKind.TRAIN_TARGET, lease_seconds=60, **message)
        with write(self.site.engine) as connection:
            task = tasks.take(self.site, connection, offer)
        return self.stepped(task)

    def stepped(self, task: tasks.Task) -> tasks.Task:
        """A task after its next step."""
        runner = self.runners[-1] if self.runners else self.new_runner()
        return advance(self.site, runner.coordinator(), task)

    def settle(self, seconds: float = 300.0) -> None:
        """Work until nothing is open here; what fails is put off, and tried again."""
        end = time.monotonic() + seconds
        while True:
            with suppress(CrosswardError):
                self.drive()
            if not any(task.state in tasks.OPEN for task in self.tasks()):
                return
            assert time.monotonic() < end, self.tasks()
            time.sleep(0.02)

    def backup(self) -> Path:
        """The database and the vault's files as they are now."""
        copy = self.home / "backup"
        copy.mkdir()
        database = "site.sqlite3"
        with closing(sqlite3.connect(self.home / database)) as one, closing(sqlite3.connect(copy / database)) as other:
            one.backup(other)
        for path in self.home.glob("vault-*"):
            shutil.copy(path, copy)
        return copy

    def restore(self, copy: Path) -> None:
        """Put an old copy in the place of what is there."""
        self.site.engine.dispose()
        for path in [*self.home.glob("site.sqlite3*"), *self.home.glob("vault-*")]:
            path.unlink()
        for path in copy.iterdir():
            path.rename(self.home / path.name)

    def outbox(self) -> str | None:
        with read(self.site.engine) as connection:
            return connection.execute(select(outbox.c.release)).scalar_one_or_none()

    def close(self) -> None:
        for runner in self.runners:
            runner.stop()
        self.site.close()

    def worker(self, *words: str, **environment: str) -> subprocess.Popen[bytes]:
        """A worker of this site in a process of its own."""
        return Forked(
            [sys.executable, WORKER, self.url, self.home, *words],
            env={"PYTHONPATH": ":".join(sys.path), "OMP_NUM_THREADS": "1"} | environment,
            stderr=subprocess.PIPE,
        )

    def killed_at(self, point: str) -> None:
        """A worker of this site that dies at a named point, for real."""
        with self.worker(CROSSWARD_CRASH_AT=point) as process:
            errors = process.communicate(timeout=300)[1]
        assert process.returncode == -9, errors.decode()

    def lines(self, kind: str | None = None) -> list[Line]:
        with read(self.site.engine) as connection:
            return [line for line in self.site.ledger.lines(connection) if kind in (None, line.kind)]

    def tasks(self) -> list[tasks.Task]:
        with read(self.site.engine) as connection:
            return tasks.listed(connection)

    def policy(self, **rules: Any) -> None:
        with write(self.site.engine) as connection:
            Policy(**rules).save(connection)


@dataclass
class Federation:
    """The coordinator's side, as people use it."""

    url: str
    tokens: dict[str, str]
    folder: Path
    hospitals: list[Hospital] = field(default_factory=list)
    new_database: Callable[[], str] | None = None

    def as_role(self, role: str) -> HttpClient:
        return HttpClient(self.url, auth=Token(self.tokens[role]), retry=NEVER)

    def call(self, role: str, method: str, path: str, body: Any = None) -> Any:
        with self.as_role(role) as http:
            return http.request(method, path, body=body).json()

    def hospital(
        self, party: str, role: str, rows: int = 600, epsilon: float = 10.0, decide: str = "approve", data: bool = True
    ) -> Hospital:
        code = self.call("operator", "POST", "/v1/parties/invites", {"party": party, "role": role})["code"]
        home = self.folder / party
        url = self.new_database() if self.new_database else f"sqlite:///{home}/site.sqlite3"
        files = self.folder / "files" / party
        files.mkdir(parents=True)
        site = Site.open(url, home, connectors=InProcess(Sources({"files": files}, closed=(home,))))
        refuse_nesting(site.engine)
        hospital = Hospital(site, home, files, party, url)
        self.hospitals.append(hospital)
        with closing(Coordinator(join(site, self.url, code, (Role(role),)))) as coordinator:
            sync(site, coordinator)
        if data:
            write_csv(files / "table.csv", rows, seed=len(party))
            Vault(site).open("patients", TABLE, DataMap.from_data(MAPPING), Budget.of(epsilon))
        hospital.policy(decide=decide)
        return hospital

    def start(self, study: Study) -> None:
        with self.as_role("lead") as http:
            yaml = {"Content-Type": "application/yaml"}
            http.request("POST", "/v1/studies", body=study.to_yaml().encode(), headers=yaml)
            http.post(f"/v1/studies/{study.id}/start")

    def study(self, id: str) -> Any:
        return self.call("auditor", "GET", f"/v1/studies/{id}")

    def mirror(self, party: str) -> list[Line]:
        answer = self.call("auditor", "GET", f"/v1/ledger/{party}")
        return [Line.from_text(line) for line in answer["lines"]]


def make_study(id: str = "sugar", **sections: Any) -> Study:
    given = {"method": "pst-h", "epsilon": 2.0, "sources": ("main",), "targets": ("branch",), "groups": 2} | sections
    return study_for(SCHEMA, id=id, label={"name": "diabetes", "positive": True}, **given)


@pytest.fixture
def study() -> Callable[..., Study]:
    return make_study


@pytest.fixture
def alone() -> Callable[..., Study]:
    """A study of one hospital: whatever goes wrong is its own."""
    return lambda id="sugar": make_study(id, method="direct", epsilon=1.0, targets=("main",))


@contextmanager
def serving(app: FastAPI, settings: ServiceSettings) -> Iterator[str]:
    """An application on a port of its own; gives its address."""
    ready: list[str] = []
    server, listener = new_server(app, settings, ready.append)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        while not ready and thread.is_alive():
            thread.join(0.01)
        yield ready[0].rpartition(" ")[2]
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@pytest.fixture(name="serving", scope="session")
def serving_fixture() -> Callable[..., Any]:
    return serving


@pytest.fixture
def api() -> Callable[..., Any]:
    """A target's own API, over HTTP, as a person of a role."""
    numbers = itertools.count()

    @contextmanager
    def answering(hospital: Hospital, role: str = "steward", **more: Any) -> Iterator[httpx.Client]:
        given = {"data_dir": hospital.home, "database_url": hospital.url, "port": 0, "work": False}
        given |= {"data_roots": {"files": hospital.files}}
        settings = TargetSettings(**given | more)
        bearer = {"Authorization": f"Bearer {tokens.issue(hospital.site, role, f'{role} {next(numbers)}')}"}
        with (
            serving(target.create_app(settings), settings) as url,
            httpx.Client(base_url=url, headers=bearer, trust_env=False, timeout=60) as client,
        ):
            yield client

    return answering


@pytest.fixture
def ended() -> Callable[..., Any]:
    """A job that was asked for over HTTP, once it has ended."""

    def follow(client: httpx.Client, answer: httpx.Response, seconds: float = 300.0) -> Any:
        assert answer.status_code == 202, answer.text
        end = time.monotonic() + seconds
        while (job := client.get(f"/v1/jobs/{answer.json()['number']}").json())["state"] in ("waiting", "running"):
            assert time.monotonic() < end, job
            time.sleep(0.02)
        return job

    return follow


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Federation]:
    folder = tmp_path / "coordinator"
    settings = CoordinatorSettings(
        data_dir=folder, port=0, lease_seconds=60, clock_seconds=0.1, poll_seconds=0.02, longest_wait=300
    )
    tokens = dict(coordinator.init(settings).tokens)
    with serving(create_app(settings), settings) as url:
        made = Federation(url, tokens, tmp_path)
        try:
            yield made
        finally:
            for hospital in made.hospitals:
                hospital.close()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Callable[[], str]]:
    """Makes new databases on a server of its own."""
    bindir = POSTGRES["programs"]()
    if bindir is None:
        pytest.skip(POSTGRES["NOT_FOUND"])
    numbers = itertools.count()
    with POSTGRES["cluster"](bindir) as url:

        def new() -> str:
            name = f"site{next(numbers)}"
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name}")
            return url.replace("/postgres?", f"/{name}?")

        yield new


@pytest.fixture(params=["sqlite", "postgresql"])
def sites(request: pytest.FixtureRequest, federation: Federation) -> Federation:
    """A federation whose sites keep their databases in SQLite, then in PostgreSQL."""
    if request.param == "postgresql":
        federation.new_database = request.getfixturevalue("postgresql")
    return federation
