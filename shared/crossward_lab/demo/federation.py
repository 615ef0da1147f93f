"""The coordinator and its hospitals as processes on loopback, brought together, and whoever simulated them."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from crossward.client import Client, SiteClient
from crossward.methods.base import HOLDOUT, LEVEL0
from crossward.protocol.constants import COORDINATOR, Role
from crossward.study import Study
from crossward_coordinator.main import init as init_coordinator
from crossward_coordinator.settings import CoordinatorSettings
from crossward_lab.demo.people import Desk, People, Say
from crossward_lab.demo.processes import Service
from crossward_lab.demo.records import DATASET, FILE, MAIN, PLACE, branch, settings_with_root, write_csv
from crossward_lab.simulate.comparison import transfer_without_noise
from crossward_lab.simulate.hospitals import Federation, Hospital
from crossward_service.http.settings import SETTINGS
from crossward_service.ops.files import write_file
from crossward_site.data.service import Vault
from crossward_site.main import init as init_site
from crossward_site.models.evaluation import auc
from crossward_site.site import Site as SiteFolder
from crossward_source.settings import SourceSettings
from crossward_target.settings import TargetSettings


@dataclass(slots=True)
class RunningSite:
    """A hospital's service and what it takes to talk to it."""

    name: str
    hospital: Hospital
    folder: Path
    records: Path
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
        write_csv(self.hospital, self.records)
        return Desk(self.name, self.client, PLACE)

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
        self.sites: list[RunningSite] = []
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
    def source(self) -> RunningSite:
        """The main hospital."""
        return self.sites[0]

    @property
    def targets(self) -> list[RunningSite]:
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
        tokens = init_coordinator(CoordinatorSettings.load(data_dir=home)).tokens
        self.tokens = {str(role): token for role, token in tokens.items()}
        self.coordinator = Service(COORDINATOR, home)
        self._stack.callback(self.coordinator.stop)
        branches = {branch(number): hospital for number, hospital in enumerate(self.hospitals.branches, 1)}
        for name, hospital in ({MAIN: self.hospitals.main} | branches).items():
            role = Role.SOURCE if name == MAIN else Role.TARGET
            records = self.folder / "records" / name / FILE
            token = _initialise_site(role, self.folder / name, records.parent)
            service = Service(role, self.folder / name)
            site = RunningSite(name, hospital, self.folder / name, records, token, service)
            self.sites.append(site)
            self._stack.callback(site.close)


def _initialise_site(role: Role, home: Path, root: Path) -> str:
    """What `crossward ROLE init` does, with a settings file that opens the folder of the records; gives the token."""
    home.mkdir(mode=0o700, parents=True)
    root.mkdir(mode=0o700, parents=True)
    write_file(home / SETTINGS, settings_with_root(root).encode())
    load = SourceSettings.load if role is Role.SOURCE else TargetSettings.load
    token = init_site(load(data_dir=home))
    assert token is not None, "the folder is new"
    return token


class SimulatedOwner:
    """Whoever simulated the hospitals may do what no hospital may: put all records together, without any noise.

    It sees every hospital's records, and the folders of the services on this machine.
    """

    def __init__(self, federation: LocalFederation) -> None:
        self._schema = federation.hospitals.schema
        self._folders = {site.name: site.folder for site in federation.sites}
        self._main = federation.hospitals.main.encode(self._schema)

    def nonprivate_auc(self, name: str, study: Study) -> float:
        """Transfer without noise, trained and tested on the same records as the target's own models."""
        folder = self._folders[name]
        opened = SiteFolder.open(TargetSettings.load(data_dir=folder).database_url, folder)
        try:
            rows = Vault(opened).rows(study, Role.TARGET, DATASET, [LEVEL0, HOLDOUT])
        finally:
            opened.close()
        own, held, y = rows.spans[LEVEL0], rows.spans[HOLDOUT], rows.y.astype(float)
        learned, unseen = (rows.X.read(span.start, span.stop) for span in (own, held))
        model = transfer_without_noise(self._schema, self._main, (learned, y[own]))
        return auc(model.margins(unseen), y[held]).auc
