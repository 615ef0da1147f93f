"""Real coordinators on loopback, over SQLite and PostgreSQL, and sites that really sign and train."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import select, update

from crossward.client import http as client
from crossward.client.http import NEVER, HttpClient, Token
from crossward.errors import Unreachable
from crossward.protocol.canonical import canonical
from crossward.protocol.states import TaskState
from crossward.study import study_for
from crossward_coordinator.app import create_app
from crossward_coordinator.database import metadata
from crossward_coordinator.main import init
from crossward_coordinator.parties.tables import nonces, parties
from crossward_coordinator.settings import CoordinatorSettings
from crossward_coordinator.studies.tables import studies
from crossward_coordinator.tasks.tables import tasks
from crossward_coordinator.times import ages
from crossward_lab.simulate.hospitals import Federation
from crossward_service.db.engine import connect, read, write
from crossward_service.http.serve import address, new_server
from machines import MovedMachine
from verified import verify_all

HERE = Path(__file__).parent
QUICK = {"poll_seconds": 0.02, "clock_seconds": 0.05, "backoff_seconds": 0.01, "shutdown_seconds": 2}
# However slow a machine is, no lease ends and no poll gives up unless a test says so.
PATIENT = {"lease_seconds": 3600.0, "longest_wait": 120.0}
LOCK_SECONDS = 100.0
TRUST = functools.cache(client._trust)


def _load(name):
    spec = importlib.util.spec_from_file_location(f"coordinator_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


FakeSite = _load("fake_site").FakeSite


@pytest.fixture(autouse=True)
def trust_once(monkeypatch):
    """To read the system's certificates takes longer than a request, and loopback needs none."""
    monkeypatch.setattr(client, "_trust", TRUST)


class PatientMachine(MovedMachine):
    """Writers on a slow disk take their turns, however long: a lock is missed only if nobody gives it back."""

    def database(self, url):
        return connect(url, patience=LOCK_SECONDS)


class World:
    """One database, any number of coordinators over it, and the people and sites that talk to them."""

    def __init__(self, database_url, folder, stack, federation, **settings):
        self.settings = {"data_dir": folder, "database_url": database_url, "port": 0, **QUICK, **PATIENT, **settings}
        self.initialised = init(CoordinatorSettings(**self.settings))
        self._stack, self._federation = stack, federation
        self.machine = PatientMachine()
        self.sites, self._people = {}, {}
        self.tampered = False

    # -- servers --------------------------------------------------------------------------------------------------
    def serve(self, **settings):
        """Start a coordinator; gives its address. The last one started is the one that is talked to."""
        self.url = self._stack.enter_context(running(self.app(**settings)))
        return self.url

    def app(self, machine=None, **settings):
        """A coordinator that nobody serves yet: its clock stands still."""
        return create_app(CoordinatorSettings(**{**self.settings, **settings}), machine or self.machine)

    @contextmanager
    def serving(self, **settings):
        with running(self.app(**settings)) as self.url:
            for site in self.sites.values():
                site.url = self.url
            yield self.url

    def person(self, role):
        """A client with the role's token."""
        if (self.url, role) not in self._people:
            made = HttpClient(self.url, auth=Token(self.initialised.tokens[role]), timeout=120, retry=NEVER)
            self._people[self.url, role] = self._stack.enter_context(made)
        return self._people[self.url, role]

    def ask(self, role, method, path, **options):
        return self.person(role).request(method, f"/v1{path}", **options)

    # -- stories --------------------------------------------------------------------------------------------------
    def invite(self, party="main", role="source"):
        return self.ask("operator", "POST", "/parties/invites", body={"party": party, "role": role}).json()

    def site(self, name, role, budget=100.0):
        """An enrolled site."""
        code = self.invite(name, role)["code"]
        hospitals = [self._federation.main, *self._federation.branches]
        site = FakeSite(self.url, name, hospitals[len(self.sites) % len(hospitals)], budget)
        self._stack.callback(site.close)
        site.join(code)
        self.sites[name] = site
        return site

    def study(self, **changes):
        settings = {"method": "simcomb", "sources": ["main"], "targets": ["branch-1"], "epsilon": 2.0, **changes}
        return study_for(self._federation.schema, **settings)

    def create(self, **changes):
        study = self.study(**changes)
        self.ask("lead", "POST", "/studies", body=study.to_yaml().encode())
        return study

    def start(self, study):
        return self.ask("lead", "POST", f"/studies/{study.id}/start").json()

    def begin(self, **changes):
        """A study under way, with all its sites."""
        study = self.create(**changes)
        for role, names in (("source", study.sources), ("target", study.targets)):
            for name in names:
                if name not in self.sites:
                    self.site(name, role)
        self.start(study)
        return study

    def public_csv(self, study, rows=200):
        """Public records for a study of the feature method."""
        hospital = self._federation.branches[2]
        names = list(hospital.table)
        lines = [",".join([*names, study.label.name])]
        for row in range(rows):
            values = [hospital.table[name][row] for name in names]
            cells = [
                "" if value is None or (isinstance(value, float) and np.isnan(value)) else str(value)
                for value in values
            ]
            lines.append(",".join([*cells, str(bool(hospital.labels[row]))]))
        return "\n".join(lines).encode()

    def show(self, study):
        return self.ask("auditor", "GET", f"/studies/{study.id}").json()

    def task(self, study, party):
        return next(task for task in self.show(study)["tasks"] if task["party"] == party)

    def party(self, name):
        items = self.ask("auditor", "GET", "/parties").json()["items"]
        return next(item for item in items if item["party"] == name)

    def verify(self, folder):
        """All that was accepted and signed holds before the verifier, unless a test has damaged it."""
        if not self.tampered:
            engine = connect(self.settings["database_url"], patience=LOCK_SECONDS)
            try:
                with read(engine) as connection:
                    verify_all(connection, self.initialised.public_key, folder)
            finally:
                engine.dispose()

    # -- the database ---------------------------------------------------------------------------------------------
    def stored(self):
        """All that is stored, but for nonces, when a party was last seen, and the coordinator's age."""
        engine = connect(self.settings["database_url"])
        with read(engine) as connection:
            found = {
                table.name: sorted(
                    connection.execute(select(*[c for c in table.c if c is not parties.c.seen])).all(), key=repr
                )
                for table in metadata.sorted_tables
                if table not in (nonces, ages)
            }
        engine.dispose()
        return found

    def refuses(self, site, task, error, message, match=None):
        """A result is refused with this error and nothing changes."""
        before = self.stored()
        body = message if isinstance(message, bytes) else canonical(message)
        with pytest.raises(error, match=match):
            site.call("POST", f"/v1/tasks/{task}/result", body=body)
        assert self.stored() == before

    def change(self, statement):
        """Write to the database behind the coordinator's back: tests make time pass, they do not wait for it."""
        engine = connect(self.settings["database_url"], patience=LOCK_SECONDS)
        with write(engine) as connection:
            connection.execute(statement)
        engine.dispose()

    def pass_deadline(self, study):
        self.change(update(studies).where(studies.c.id == study.id).values(due=0.0))

    def expire_leases(self):
        self.change(update(tasks).where(tasks.c.state == TaskState.LEASED).values(lease_until=0.0))

    def until(self, study, *states, seconds=180.0):
        """Wait until a study is in one of the states."""
        end = time.monotonic() + seconds
        while (shown := self.show(study))["state"] not in states:
            assert time.monotonic() < end, shown
            time.sleep(0.02)
        return shown


@contextmanager
def running(app):
    settings, ready = app.state.settings, threading.Event()
    server, listener = new_server(app, settings, lambda line: ready.set())
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        assert ready.wait(120)
        yield address(listener, settings)
    finally:
        server.should_exit = True
        thread.join(120)
        listener.close()
        assert not thread.is_alive()


@pytest.fixture(scope="session")
def federation():
    return Federation.simulate(branches=3, seed=5, scale=0.1)


@pytest.fixture
def world_of(tmp_path, federation):
    """Makes a world over a database."""
    with ExitStack() as stack:

        def make(database_url, *, serve=True, **settings):
            world = World(database_url, tmp_path / "data", stack, federation, **settings)
            if serve:
                world.serve()
            return world

        yield make


@pytest.fixture
def world(world_of, url, tmp_path):
    """A coordinator over each kind of database. What it signed is verified in the end."""
    made = world_of(url)
    yield made
    made.verify(tmp_path / "verified")


@pytest.fixture
def small(world_of, sqlite_url, tmp_path):
    """A coordinator over SQLite, for what does not depend on the database. What it signed is verified in the end."""
    made = world_of(sqlite_url)
    yield made
    made.verify(tmp_path / "verified")


class Zygote:
    """Coordinators as processes of their own, one at a time."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, HERE / "zygote.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._log = []
        self._reader = threading.Thread(target=lambda: self._log.extend(self._process.stderr), daemon=True)
        self._reader.start()
        assert self._line() == "ready to fork"

    def _line(self):
        return self._process.stdout.readline().strip()

    @contextmanager
    def coordinator(self, settings, crash_at=""):
        """A coordinator that kills itself at a point; gives its address. Leaving checks that it was killed."""
        order = {"settings": {**settings, "data_dir": str(settings["data_dir"])}, "environment": {}}
        order["environment"] = {"CROSSWARD_CRASH_AT": crash_at}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        pid = int(self._line().removeprefix("pid "))
        try:
            ready = self._line()
            found = re.search(r"http://\S+", ready)
            assert found, (ready, self._log[-5:])
            yield found[0]
        finally:
            if not crash_at:
                os.kill(pid, signal.SIGKILL)
            ended = self._line()
        assert ended == f"ended {signal.SIGKILL.value}", ended

    def close(self):
        self._process.stdin.close()
        self._process.wait(120)
        self._reader.join(120)
        self._process.stdout.close()
        self._process.stderr.close()


@pytest.fixture(scope="session")
def zygote():
    made = Zygote()
    yield made
    made.close()


@pytest.fixture
def dies():
    """Expect that the coordinator dies instead of answering."""

    @contextmanager
    def expect():
        with pytest.raises(Unreachable):
            yield

    return expect
