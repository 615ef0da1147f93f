"""Small federations of real processes, the command line beside them, and certificates of all kinds."""

from __future__ import annotations

import json
import os
import runpy
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from crossward.client import Client
from crossward.privacy.budget import Budget
from crossward_coordinator import main as coordinator
from crossward_coordinator.settings import CoordinatorSettings
from crossward_lab.demo.processes import Service
from crossward_lab.demo.records import DATASET, FILE, PERSON, settings_with_root, write_csv
from crossward_service.db.engine import write
from crossward_site import main as commands
from crossward_site.data.mapping import DataMap
from crossward_site.data.places import FilePlace
from crossward_site.data.service import Vault
from crossward_site.policy.service import Policy
from crossward_target.settings import TargetSettings
from forked import fork_services, run

SMALL = runpy.run_path(str(Path(__file__).parents[2] / "upgrade" / "small.py"))


@pytest.fixture(autouse=True)
def no_proxy_here(monkeypatch):
    """Nothing here leaves this machine, however it reaches the world; a test that is about a proxy names its own."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def forked_services(monkeypatch):
    """Services here are real processes; how one is started from nothing is not what these tests are about."""
    fork_services(monkeypatch)


@pytest.fixture(scope="session")
def small():
    """Two invented hospitals and studies of them."""
    return SimpleNamespace(**SMALL)


def _crossward(*words, code=0, **environment):
    command = [sys.executable, "-m", "crossward_cli", *map(str, words)]
    given = os.environ | {"COLUMNS": "200"} | environment
    done = run(command, env=given)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + ("" if "--json" in words else done.stderr)


@pytest.fixture(scope="session")
def crossward():
    """The command line."""
    return _crossward


@pytest.fixture(scope="session")
def findings():
    """What `crossward doctor --json` found: verdicts by check."""

    def examined(*words, code=0, **environment):
        said = json.loads(_crossward("doctor", *words, "--json", code=code, **environment))
        assert all(set(item) == {"check", "verdict", "observation", "fix"} for item in said)
        assert all(item["fix"] for item in said if item["verdict"] != "ok")
        return {item["check"]: item for item in said}

    return examined


QUICK = {"POLL_SECONDS": "0.2", "TICK_SECONDS": "0.1", "PULSE_SECONDS": "0.2", "RETRY_SECONDS": "0.1"}
BRANCH = "branch-1"


class Federation:
    """A coordinator that runs, and a branch hospital that has joined it and waits to be started."""

    def __init__(self, folder):
        self._running, self.hub, self.home = [], folder / "coordinator", folder / BRANCH
        self.tokens = dict(coordinator.init(CoordinatorSettings(data_dir=self.hub)).tokens)
        self.coordinator = self.start("coordinator", self.hub)
        self.files = folder / "files"
        self.files.mkdir()
        self.home.mkdir(mode=0o700)
        (self.home / "settings.toml").write_text(settings_with_root(self.files))
        self.settings = TargetSettings.load(data_dir=self.home)
        self.token = commands.init(self.settings)
        self._connect()
        with Client(self.coordinator.url, self.tokens["operator"]) as operator:
            code = operator.invite(BRANCH, "target")["code"]
        commands.join_coordinator(self.settings, self.coordinator.url, code)

    def _connect(self):
        write_csv(SMALL["hospitals"]().branches[0], self.files / FILE)
        site = self.settings.open_site()
        Vault(site).open(DATASET, FilePlace(kind="csv", path=FILE), DataMap(person=PERSON), Budget.of(5.0))
        with write(site.engine) as connection:
            Policy(decide="approve", epsilon_per_study=2.0, epsilon_lifetime=5.0).save(connection)
        site.close()

    def start(self, role, home):
        """A service as a process."""
        self._running.append(Service(role, home))
        return self._running[-1]

    def stop(self):
        for service in self._running:
            service.ask_to_stop()
        for service in self._running:
            service.stop()


@pytest.fixture
def federation(tmp_path, monkeypatch):
    """Nobody waits long for anybody here."""
    for name, value in (QUICK | {"LEASE_SECONDS": "5", "CLOCK_SECONDS": "0.2"}).items():
        monkeypatch.setenv(f"CROSSWARD_{name}", value)
    made = Federation(tmp_path)
    yield made
    made.stop()


class Authority:
    """A CA, and certificates by it."""

    def __init__(self, folder):
        self._folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"CA {folder.name}")])
        made = self._builder(self._name, self._key.public_key(), 3650)
        made = made.add_extension(x509.BasicConstraints(True, None), True).sign(self._key, hashes.SHA256())
        self.file = folder / "ca.pem"
        self.file.write_bytes(made.public_bytes(Encoding.PEM))

    def _builder(self, subject, public, days):
        start = datetime.now(UTC) - timedelta(days=30)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(public)
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(start)
        return builder.not_valid_after(datetime.now(UTC) + timedelta(days=days, minutes=1))

    def issue(self, name, days=365):
        """A certificate for localhost or another name: its two files."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        made = self._builder(subject, key.public_key(), days)
        made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), False)
        cert, file = self._folder / f"{name}-{days}.pem", self._folder / f"{name}-{days}.key"
        cert.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))
        file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        file.chmod(0o600)
        return {"tls_cert": cert, "tls_key": file}


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    """Makes CAs."""
    return lambda: Authority(tmp_path_factory.mktemp("ca"))
