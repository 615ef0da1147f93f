"""A second coordinator that takes the first one's place in a hospital's network."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path

import engine
from federation import EPSILON

from crossward.client import Client
from crossward.protocol import versions
from crossward.protocol.constants import Role
from crossward.study import Study, study_for
from crossward_coordinator.ledger.service import mirror
from crossward_coordinator.main import init
from crossward_coordinator.parties import service as parties
from crossward_coordinator.settings import CoordinatorSettings
from crossward_lab.demo.records import OUTCOME
from crossward_lab.simulate.hospitals import SCHEMA
from crossward_service.db.engine import connect, write


class Impostor:
    """The same program, the same name, the first one's own certificate, a copy of the mirror; only the key is new."""

    def __init__(self, federation, party: str, folder: Path) -> None:
        self._federation, self._party, self._folder = federation, party, folder / "impostor"
        self._name = f"{federation.project}-impostor"
        self._stack = ExitStack()

    def __enter__(self):
        with self._stack:
            token = self._prepare()
            self._run()
            self.lead = self._stack.enter_context(Client(self._address(), token, ca=self._federation.ca))
            self._take_place()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *trouble):
        self._stack.close()

    def _prepare(self):
        """Its database: the hospital enrolled with its real public key, and the mirror as anybody may read it."""
        settings = CoordinatorSettings(data_dir=self._folder)
        tokens = init(settings).tokens
        key = self._federation.sites[self._party].status()["identity"]["public_key"]
        database = connect(settings.database_url)
        with write(database) as connection:
            code = parties.invite(connection, self._party, Role.TARGET, "come-in", now=time.time(), lasts=3600).code
            parties.enrol(connection, code, key, versions.newest(), now=time.time())
            mirror(self._party).extend(connection, self._federation.auditor.ledger(self._party))
        database.dispose()
        return tokens["lead"]

    def _run(self):
        first = engine.inspect(self._federation.container("coordinator"))
        project, tls = self._federation.project, {"CERT": "cert", "KEY": "key", "CA": "ca"}
        options = [f"--env=CROSSWARD_TLS_{name}=/certificates/{file}.pem" for name, file in tls.items()]
        options += [f"--volume={project}_coordinator-tls:/certificates:ro", f"--volume={self._folder}:/data"]
        options += [f"--user={os.getuid()}:10001", f"--label=com.docker.compose.project={project}"]
        options += [f"--network={project}_front", "--publish=127.0.0.1::8400", f"--name={self._name}"]
        self._stack.callback(engine.run, "rm", "--force", "--volumes", self._name)
        engine.run("run", "--detach", *options, first["Image"], "coordinator", "serve")

    def _address(self):
        return f"https://{engine.run('port', self._name, '8400/tcp').stdout.split()[0]}"

    def _take_place(self):
        """Wait until it serves; then the name leads to it, and the first coordinator is cut off.

        The hospital is down meanwhile: it would wait half a minute for answers on lines that are cut.
        """
        network, first = f"{self._federation.project}_{self._party}", self._federation.container("coordinator")
        self._federation.until("the impostor answers", self.lead.about)
        self._federation.kill(self._party)
        self._stack.callback(self._federation.start, self._party)
        engine.run("network", "disconnect", network, first)
        self._stack.callback(engine.run, "network", "connect", "--alias=coordinator", network, first)
        engine.run("network", "connect", "--alias=coordinator", network, self._name)
        self._stack.callback(engine.run, "network", "disconnect", network, self._name)
        self._federation.start(self._party)
        self._stack.callback(self._federation.kill, self._party)

    def begin(self) -> Study:
        """A study that the first coordinator knows nothing of."""
        label = {"name": OUTCOME, "positive": True}
        study = study_for(SCHEMA, id="false", method="direct", epsilon=EPSILON, label=label, targets=[self._party])
        self.lead.create(study.to_yaml())
        self.lead.start(study.id)
        return study
