"""The databases of every earlier version, opened by this one: nothing is lost, and the next study runs."""

from __future__ import annotations

import gzip
import json
import runpy
import sqlite3
import tarfile
import time
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from crossward.client import Client, SiteClient
from crossward.errors import NotReady
from crossward.protocol.ledger.chain import first_difference, verify
from crossward_coordinator import main as coordinator
from crossward_coordinator.backup import kind as coordinator_kind
from crossward_coordinator.settings import CoordinatorSettings
from crossward_lab.demo.processes import Service
from crossward_lab.demo.records import PLACE, settings_with_root
from crossward_service.ops.backup import restore
from crossward_site import main as source
from crossward_site import main as target
from crossward_site.backup import kind as site_kind
from crossward_source.settings import SourceSettings
from crossward_target.settings import TargetSettings
from forked import fork_services

HERE = Path(__file__).parent
VERSIONS = sorted(path for path in HERE.iterdir() if (path / "facts.json").is_file())
SMALL = runpy.run_path(str(HERE / "small.py"))
POSTGRES = runpy.run_path(str(HERE.parent / "postgres.py"))
PROGRAMS = POSTGRES["programs"]()
SITES = {"main": "source", "branch-1": "target"}
# A study that was under way has days left, as it had when it was frozen: however long ago that was.
LATER = "UPDATE {} SET deadline = {} WHERE deadline IS NOT NULL"


def settings_of(role, home, **given):
    kind = {"coordinator": CoordinatorSettings, "source": SourceSettings, "target": TargetSettings}[role]
    return kind(data_dir=home, port=0, **given)


def database_of(role, home):
    return home / settings_of(role, home).database_name


def in_place(frozen, role, home):
    """The files as that version left them, to be brought up by this one when it starts."""
    home.mkdir(mode=0o700)
    with tarfile.open(frozen / f"{role}.tar.gz") as tar:
        tar.extractall(home, filter="data")
    (home / "manifest.json").unlink()
    (home / "database.sqlite3").rename(database_of(role, home))


def restored(frozen, role, home):
    settings = settings_of(role, home)
    kind = coordinator_kind(settings) if role == "coordinator" else site_kind(settings)
    assert restore(kind, settings, frozen / f"{role}.tar.gz").version == frozen.name


def point_at(home, role, url):
    """The coordinator has another port now; nothing else about a site changes."""
    with closing(sqlite3.connect(database_of(role, home))) as database, database:
        [known] = database.execute("SELECT value FROM facts WHERE name = 'identity'").fetchone()
        moved = json.dumps(json.loads(known) | {"coordinator_url": url})
        database.execute("UPDATE facts SET value = ? WHERE name = 'identity'", (moved,))


@pytest.fixture
def start(monkeypatch):
    """Starts services, all of which end with the test."""
    started = []
    fork_services(monkeypatch)

    def begin(role, home, **environment):
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            started.append(Service(role, home))
        return started[-1]

    yield begin
    for service in started:
        service.ask_to_stop()
    for service in started:
        service.stop()


@pytest.fixture(scope="module")
def postgresql():
    with POSTGRES["cluster"](PROGRAMS) as url:
        yield url


@pytest.fixture(params=["sqlite, in place", "postgresql, sites restored"] if PROGRAMS else ["sqlite, in place"])
def way(request):
    """How the coordinator's database lies, and how the sites' files get where they are."""
    kind = request.param.partition(",")[0]
    return kind, in_place if kind == "sqlite" else restored, request


def coordinator_of(frozen, way, tmp_path, start):
    kind, bring, request = way
    home, given = tmp_path / "coordinator", {}
    bring(frozen, "coordinator", home)
    end = time.time() + 7 * 86_400
    if kind == "postgresql":
        url = request.getfixturevalue("postgresql")
        name = f"upgraded_{frozen.name.replace('.', '_')}"
        with psycopg.connect(url, autocommit=True) as server:
            server.execute(f"CREATE DATABASE {name}")
        given["database_url"] = url.replace("/postgres?", f"/{name}?")
        with psycopg.connect(given["database_url"], autocommit=True) as database:
            database.execute(gzip.decompress((frozen / "coordinator.sql.gz").read_bytes()))
            database.execute(LATER.format("public.studies", end))  # the dump has emptied the search path
    else:
        with closing(sqlite3.connect(home / "coordinator.sqlite3")) as database, database:
            database.execute(LATER.format("studies", end))
    assert coordinator.init(settings_of("coordinator", home, **given)).tokens == {}  # it was there already
    return start("coordinator", home, **{f"CROSSWARD_{name.upper()}": value for name, value in given.items()})


@pytest.mark.parametrize("frozen", VERSIONS, ids=lambda path: path.name)
def test_an_earlier_version_goes_on(frozen, way, tmp_path, start):
    facts = json.loads((frozen / "facts.json").read_text())
    hub = coordinator_of(frozen, way, tmp_path, start)
    homes = {name: tmp_path / name for name in SITES}
    for name, role in SITES.items():
        way[1](frozen, role, homes[name])
        point_at(homes[name], role, hub.url)
        (homes[name] / "settings.toml").write_text(settings_with_root(frozen))
    services = {name: start(role, homes[name]) for name, role in SITES.items()}
    lead = Client(hub.url, facts["tokens"]["lead"])
    sites = {name: SiteClient(service.url, facts["tokens"][name]) for name, service in services.items()}

    with lead, sites["main"], sites["branch-1"]:
        for name, site in sites.items():
            own = site.ledger()
            assert verify(own).head.hash == own[-1].hash
            assert {"sequence": own[-1].sequence, "hash": own[-1].hash} == facts["heads"][name]
            assert first_difference(own, lead.ledger(name)) is None
            assert site.verify()["sound"]
            assert lead.verify(name)["holds"]
            [data] = site.datasets()
            assert site.budget()["epsilon_spent"] == facts["spent"][name]
            report = site.refresh_dataset(data["name"], PLACE | {"path": f"{name}.csv"})
            assert (report["new"], report["stayed"], report["changed"]) == (0, 300, 0)
        assert lead.certificate("grouped") == facts["certificate"]
        for study, probability in facts["predictions"].items():
            [one] = sites["branch-1"].predict(study, [facts["record"]])["predictions"]
            assert one["probability"] == pytest.approx(probability, rel=1e-9)

        # The study that was waiting for a steward when the version changed, then one that is new.
        [asked] = sites["main"].approvals()
        sites["main"].decide(asked["task"], True)
        assert SMALL["ended"](lead, "waiting") == "complete"
        sites["main"].set_policy({"decide": "approve"})
        SMALL["begin"](lead, SMALL["study"]("next", "pst-h"))
        assert SMALL["ended"](lead, "next") == "complete"
        assert 0 < sites["branch-1"].predict("next", [facts["record"]])["predictions"][0]["probability"] < 1
        for name, site in sites.items():
            assert first_difference(site.ledger(), lead.ledger(name)) is None
            assert site.budget()["epsilon_spent"] > facts["spent"][name]


@pytest.mark.parametrize(("role", "service"), [("coordinator", coordinator), ("source", source), ("target", target)])
def test_a_database_of_a_later_version_is_refused_and_left_alone(role, service, tmp_path):
    home = tmp_path / role
    in_place(VERSIONS[-1], role, home)
    with closing(sqlite3.connect(database_of(role, home))) as database, database:
        database.execute("UPDATE alembic_version SET version_num = 'later0099'")
    before = database_of(role, home).read_bytes()
    settings = settings_of(role, home)
    for start in (service.init, service.serve):
        with pytest.raises(NotReady, match=r"later0099.* a later version made it"):
            start(settings)
    assert database_of(role, home).read_bytes() == before
