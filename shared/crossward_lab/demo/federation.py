"""The coordinator and its hospitals as processes on loopback, and the people who bring them together."""

from __future__ import annotations

import importlib
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from crossward.client import Client, SiteClient
from crossward_lab.demo.people import Desk, People, Say
from crossward_lab.demo.processes import Service
from crossward_lab.demo.records import MAIN, branch, write_csv
from crossward_lab.simulate.hospitals import Federation, Hospital


@dataclass(slots=True)
class Site:
    """A hospital's service and what it takes to talk to it."""

    name: str
    hospital: Hospital
    folder: Path
    token: str
    service: Service
    _client: SiteClient | None = field(default=None)

    @property
    def client(self) -> SiteClient:
        """The site, as its steward."""
        if self._client is None:
            self._client = SiteClient(self.service.url, self.token)
        return self._client

    @property
    def desk(self) -> Desk:
        """Its steward's desk, with its records in a CSV of its own."""
        path = self.folder / "records.csv"
        write_csv(self.hospital, path)
        return Desk(self.name, self.client, path)

    def close(self) -> None:
        """End the connection and the service."""
        if self._client is not None:
            self._client.close()
        self.service.stop()


class LocalFederation:
    """A coordinator, the main hospital as source, the branches as targets. Use it as a context manager."""

    def __init__(self, folder: Path, hospitals: Federation, say: Say = lambda text: None) -> None:
        self.folder, self.hospitals, self._say = folder, hospitals, say
        self.tokens: dict[str, str] = {}
        self.sites: list[Site] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack:
            self._start()
            people = {role: self.client(role) for role in ("operator", "lead", "auditor")}
            self.people = People(self.coordinator.url, **people, desks=[site.desk for site in self.sites])
            self.people.gather(self._say)
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for service in [self.coordinator, *(site.service for site in self.sites)]:
            service.ask_to_stop()
        self._stack.close()

    @property
    def source(self) -> Site:
        """The main hospital."""
        return self.sites[0]

    @property
    def targets(self) -> list[Site]:
        """The branches."""
        return self.sites[1:]

    def client(self, role: str) -> Client:
        """The coordinator, as a person with this role."""
        client = Client(self.coordinator.url, self.tokens[role])
        self._stack.callback(client.close)
        return client

    def _start(self) -> None:
        self._say("starting the coordinator and the hospitals")
        home = self.folder / "coordinator"
        self.tokens = dict(_initialise("coordinator", home).tokens)
        self.coordinator = Service("coordinator", home)
        self._stack.callback(self.coordinator.stop)
        branches = {branch(number): hospital for number, hospital in enumerate(self.hospitals.branches, 1)}
        for name, hospital in ({MAIN: self.hospitals.main} | branches).items():
            role: Literal["source", "target"] = "source" if name == MAIN else "target"
            token = _initialise(role, self.folder / name)
            service = Service(role, self.folder / name)
            site = Site(name, hospital, self.folder / name, token, service)
            self.sites.append(site)
            self._stack.callback(site.close)


def _initialise(role: str, home: Path) -> Any:
    """What `crossward ROLE init` does: the coordinator's first tokens, or a site's."""
    main = importlib.import_module("crossward_coordinator.main" if role == "coordinator" else "crossward_site.main")
    settings = importlib.import_module(f"crossward_{role}.settings")
    kind = {"coordinator": "CoordinatorSettings", "source": "SourceSettings", "target": "TargetSettings"}[role]
    return main.init(getattr(settings, kind).load(data_dir=home))
