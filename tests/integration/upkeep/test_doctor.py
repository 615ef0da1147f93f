"""The doctor against things that are really wrong. It names each, changes nothing, and never quotes a record."""

from __future__ import annotations

import http.server
import itertools
import json
import socket
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from sqlalchemy import text, update

from crossward.client.http import NEVER, HttpClient, Token
from crossward.errors import InvalidSetting
from crossward.privacy.budget import Budget
from crossward.protocol import keys
from crossward_coordinator import doctor as coordinator_doctor
from crossward_coordinator.app import create_app
from crossward_coordinator.main import init
from crossward_coordinator.settings import CoordinatorSettings
from crossward_lab.demo.records import DATASET, PERSON, write_csv
from crossward_service.db.engine import connect, write
from crossward_service.http.serve import new_server
from crossward_service.ops import examination, peer
from crossward_service.ops.findings import Findings
from crossward_site import doctor, facts
from crossward_site import main as commands
from crossward_site.data.mapping import DataMap
from crossward_site.data.places import FilePlace
from crossward_site.data.service import Vault
from crossward_site.ledger.tables import ledger
from crossward_site.policy.service import Policy
from crossward_target.settings import TargetSettings


@contextmanager
def serving(settings):
    """A coordinator in a thread; gives its port."""
    ready = []
    server, listener = new_server(create_app(settings), settings, ready.append)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        while not ready and thread.is_alive():
            thread.join(0.01)
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@pytest.fixture(scope="module")
def hub(tmp_path_factory, authority):
    """A coordinator behind TLS, for localhost."""
    ca = authority()
    home = tmp_path_factory.mktemp("hub")
    settings = CoordinatorSettings(data_dir=home, port=0, clock_seconds=1, **ca.issue("localhost"))
    tokens = init(settings).tokens
    with serving(settings) as port:
        yield SimpleNamespace(url=f"https://localhost:{port}", ca=ca.file, tokens=tokens, home=home, port=port)


def ask(hub, method, path, body=None):
    with HttpClient(hub.url, auth=Token(hub.tokens["operator"]), ca=hub.ca, retry=NEVER) as http:
        return http.request(method, path, body=body).json()


@pytest.fixture
def quiet():
    """A port at which nobody answers, and nobody will: it is bound and not listened on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


NUMBERS = itertools.count(1)


@pytest.fixture
def site(hub, small, tmp_path, quiet):
    """A target that has joined and is well. Each test has its own party."""
    party = f"party-{next(NUMBERS)}"
    settings = TargetSettings(data_dir=tmp_path / "site", tls_ca=hub.ca, port=quiet)
    commands.init(settings)
    code = ask(hub, "POST", "/v1/parties/invites", {"party": party, "role": "target"})["code"]
    commands.join_coordinator(settings, hub.url, code)
    records = tmp_path / "files" / "records.csv"
    records.parent.mkdir()
    write_csv(small.hospitals().branches[0], records)
    opened = changed(settings, data_roots={"files": records.parent}).open_site()
    opened.in_step.set()  # neither side has a line yet
    mapping = DataMap.from_data({"person": PERSON, "features": {"bmi": "bmi"}})
    Vault(opened).open(DATASET, FilePlace(kind="csv", path="records.csv"), mapping, Budget.of(5.0))
    Vault(opened).report(DATASET)  # SQLite notes in its -shm file how far a reader has come; one has been there already
    yield SimpleNamespace(settings=settings, opened=opened, records=records, party=party)
    opened.close()


def found(settings, coordinator=None):
    items = doctor.examine(settings, coordinator).items
    assert all(item.fix for item in items if item.verdict != "ok")
    return {item.check: item for item in items}


def faults(items):
    return sorted(check for check, item in items.items() if item.verdict == "fault")


def changed(settings, **given):
    return TargetSettings(**({name: getattr(settings, name) for name in ("data_dir", "tls_ca", "port")} | given))


def test_a_site_that_is_well(site):
    before = {path.name: path.read_bytes() for path in site.settings.data_dir.iterdir()}
    items = found(site.settings)
    assert faults(items) == []
    assert "good until" in items["TLS"].observation
    assert "not running" in items["service"].observation
    assert items["service"].verdict == "warning"
    assert "will hear the last 2 lines" in items["mirror"].observation
    assert {path.name: path.read_bytes() for path in site.settings.data_dir.iterdir()} == before


def test_before_it_has_joined_it_looks_where_it_is_told(hub, tmp_path, quiet):
    settings = TargetSettings(data_dir=tmp_path / "new", tls_ca=hub.ca, port=quiet)
    assert faults(found(settings)) == ["data directory", "database"]
    assert not settings.data_dir.exists()
    commands.init(settings)
    items = found(settings, hub.url)
    assert (items["TLS"].verdict, items["clock"].verdict, items["key"].verdict) == ("ok", "ok", "warning")
    assert "Not checked" in found(settings)["address"].observation


@pytest.mark.parametrize("side", [-1, 1])
def test_clocks(site, monkeypatch, side):
    for seconds, verdict in ((20, "ok"), (100, "warning"), (400, "fault")):
        skewed = SimpleNamespace(time=lambda by=seconds: time.time() + side * by)
        monkeypatch.setattr(peer, "time", skewed)
        clock = found(site.settings)["clock"]
        assert clock.verdict == verdict
        assert ("ahead of" if side > 0 else "behind") in clock.observation


def test_tls_that_is_not_trusted_or_not_for_this_host(site, hub, authority):
    items = found(changed(site.settings, tls_ca=authority().file))
    assert "not trusted" in items["TLS"].observation
    assert "CROSSWARD_TLS_CA" in items["TLS"].fix
    assert "Not checked" in items["clock"].observation
    assert "Not checked" in items["mirror"].observation
    point_at(site, f"https://127.0.0.1:{hub.port}")
    assert "not for 127.0.0.1" in found(site.settings)["TLS"].observation
    point_at(site, "https://localhost:1")
    assert "does not answer" in found(site.settings)["address"].observation
    point_at(site, "https://no-such-host.invalid")
    assert "has no address" in found(site.settings)["address"].observation


def point_at(site, url):
    with write(site.opened.engine) as connection:
        facts.IDENTITY.put(connection, facts.IDENTITY.get(connection).model_copy(update={"coordinator_url": url}))


def test_a_proxy_is_dialled_and_named_without_its_password(site, quiet, monkeypatch):
    monkeypatch.setenv("https_proxy", f"http://user:hunter22@127.0.0.1:{quiet}")
    point_at(site, "https://coordinator.example")
    items = found(site.settings)
    assert f"127.0.0.1:{quiet} (the proxy to coordinator.example) does not answer" in items["address"].observation
    assert "hunter22" not in str(items)


def test_certificates_that_end(hub, tmp_path, authority):
    ca = authority()
    for days, verdict in ((-1, "fault"), (5, "warning"), (365, "ok")):
        settings = TargetSettings(data_dir=tmp_path, **ca.issue("site.example", days))
        assert found(settings)["own certificate"].verdict == verdict
    one, other = ca.issue("one.example"), ca.issue("other.example")
    mixed = TargetSettings(data_dir=tmp_path, tls_cert=one["tls_cert"], tls_key=other["tls_key"])
    assert "is not the key of" in found(mixed)["own certificate"].observation
    named = TargetSettings(data_dir=tmp_path, public_url="https://else.example", **one)
    assert "is not for else.example" in found(named)["own certificate"].observation
    nothing = TargetSettings(data_dir=tmp_path, tls_ca=tmp_path / "none.pem")
    assert found(nothing)["CA bundle"].verdict == "fault"


def test_a_coordinator_whose_certificate_has_ended(hub, site, tmp_path, authority):
    ca = authority()
    settings = CoordinatorSettings(data_dir=tmp_path / "late", port=0, **ca.issue("localhost", -1))
    init(settings)
    with serving(settings) as port:
        point_at(site, f"https://localhost:{port}")
        assert "has ended" in found(changed(site.settings, tls_ca=ca.file))["TLS"].observation


def test_another_coordinator_answers(site, tmp_path, authority):
    ca = authority()
    settings = CoordinatorSettings(data_dir=tmp_path / "false", port=0, **ca.issue("localhost"))
    init(settings)
    with serving(settings) as port:
        point_at(site, f"https://localhost:{port}")
        items = found(changed(site.settings, tls_ca=ca.file))
    assert faults(items) == ["coordinator"]
    assert "Another coordinator" in items["coordinator"].observation
    assert "Not checked" in items["enrolment"].observation


def test_keys(site, hub):
    key = site.settings.data_dir / "party.key"
    key.chmod(0o644)
    assert "0644" in found(site.settings)["key"].observation
    key.unlink()
    keys.save(keys.generate(), key)
    assert "enrolment" in faults(found(site.settings))
    key.unlink()
    assert "cannot be read" in found(site.settings)["key"].observation


def test_a_revoked_party_and_a_stopped_one(site, hub):
    ask(hub, "DELETE", f"/v1/parties/{site.party}")
    assert "revoked" in found(site.settings)["enrolment"].observation
    code = ask(hub, "POST", "/v1/parties/invites", {"party": site.party, "role": "target"})["code"]
    wrong = ask(hub, "POST", "/v1/parties/invites", {"party": f"{site.party}-b", "role": "target"})["code"]
    with pytest.raises(InvalidSetting, match="keeps its name"):
        commands.join_coordinator(site.settings, hub.url, wrong)
    commands.join_coordinator(site.settings, hub.url, code)  # invited again, it comes with a fresh key
    assert faults(found(site.settings)) == []
    site.opened.stop("the ledgers differ.")
    assert "the ledgers differ." in found(site.settings)["ledger"].observation


def test_a_ledger_that_was_touched(site):
    with write(site.opened.engine) as connection:
        connection.execute(update(ledger.lines).values(time=1))
    items = found(site.settings)
    assert "Line 1" in items["ledger"].observation
    assert items["ledger"].verdict == "fault"


def test_a_file_that_is_gone_is_nobodys_concern_once_its_copy_is_sealed(site):
    site.records.write_text("SECRETNAME,no table at all")
    assert found(site.settings)["data patients"].verdict == "ok"
    site.records.unlink()
    said = found(site.settings)["data patients"]
    assert (said.verdict, said.observation) == ("ok", "Version 1: all 300 rows of the sealed copy can be read.")


@pytest.mark.parametrize("kind", ["records", "cells"])
@pytest.mark.parametrize("damage", ["a flipped bit", "cut off", "gone"])
def test_a_sealed_copy_that_is_damaged_is_named_and_never_quoted(site, kind, damage):
    [copy] = site.settings.data_dir.glob(f"vault-*.{kind}")
    whole = copy.read_bytes()
    if damage == "gone":
        copy.unlink()
    elif damage == "cut off":
        copy.write_bytes(whole[: len(whole) // 2])
    else:
        copy.write_bytes(whole[:-20] + bytes([whole[-20] ^ 1]) + whole[-19:])
    items = found(site.settings)
    assert faults(items) == ["data patients"]
    assert "backup" in items["data patients"].fix
    assert repr(whole[-20:])[2:-1] not in str(items)


def test_the_copy_of_an_earlier_version_is_looked_at_while_it_is_needed(site):
    [first] = site.settings.data_dir.glob("vault-*.records")
    Vault(site.opened).refresh("patients")
    assert found(site.settings)["data patients"].verdict == "ok"
    first.unlink()  # it may be owed a release, or be what an undo goes back to
    assert faults(found(site.settings)) == ["data patients"]


@pytest.mark.parametrize("damage", ["a flipped bit", "gone"])
def test_a_table_of_seats_that_is_lost_is_a_fault(site, damage):
    [seats] = site.settings.data_dir.glob("vault-*.seats")
    whole = seats.read_bytes()
    if damage == "gone":
        seats.unlink()
    else:
        seats.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    items = found(site.settings)
    assert faults(items) == ["seats"]
    assert "table of seats is lost" in items["seats"].observation
    assert "crossward site recover" in items["seats"].fix


def test_what_keeps_a_connector_in_is_told(site):
    said = found(site.settings)["connectors"]
    assert said.verdict in ("ok", "warning")
    assert "no new privileges" in said.observation or "privileges" in said.observation


@pytest.mark.parametrize(
    ("rules", "word"),
    [
        ({"decide": "approve"}, "may take all"),
        ({"epsilon_per_study": 3.0, "epsilon_lifetime": 2.0}, "more than all"),
        ({"epsilon_lifetime": 50.0}, "limits nothing"),
        ({"minimum_rows": 10**6}, "refused"),
        ({"methods": ()}, "methods is empty"),
        ({"methods": ("direct", "pst-x")}, "no method 'pst-x'"),
    ],
)
def test_policies_worth_a_word(rules, word):
    [doubt] = doctor._doubts(Policy(**rules), [300], [Budget.of(5.0)])
    assert word in doubt


def test_disk_folder_and_secret(site, monkeypatch):
    monkeypatch.setattr(examination.shutil, "disk_usage", lambda _: SimpleNamespace(free=10 << 20))
    assert found(site.settings)["disk"].verdict == "fault"
    monkeypatch.setattr(examination.shutil, "disk_usage", lambda _: SimpleNamespace(free=500 << 20))
    assert found(site.settings)["disk"].verdict == "warning"
    site.settings.data_dir.chmod(0o755)
    assert found(site.settings)["data directory"].verdict == "warning"
    (site.settings.data_dir / "site.secret").write_text("0" * 64)
    items = found(site.settings)
    assert "not the secret" in items["site secret"].observation
    assert "Not checked" in items["key"].observation


def test_a_read_only_database(site):
    findings, file = Findings(), site.settings.data_dir / "site.sqlite3"
    engine = connect(f"sqlite:///file:{file}?mode=ro&uri=true")
    examination._examine_writing(findings, engine)
    engine.dispose()
    assert findings.faulty


def test_a_database_of_another_version_is_examined_no_further(site):
    with write(site.opened.engine) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'later0099'"))
    items = found(site.settings)
    assert "a later version made it" in items["migrations"].observation
    assert "ledger" not in items
    assert "Not checked" in items["key"].observation


def test_another_program_has_the_port(site):
    handler = type("Other", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as other:
        thread = threading.Thread(target=other.serve_forever, args=(0.01,))
        thread.start()
        items = found(changed(site.settings, port=other.server_port))
        other.shutdown()
        thread.join()
    assert "Another program" in items["service"].observation


def test_the_coordinator_and_itself_from_outside(hub, monkeypatch):
    given = {"data_dir": hub.home, "tls_ca": hub.ca, "tls_cert": None, "port": hub.port}
    certs = next(hub.ca.parent.glob("localhost-365.pem"))
    given |= {"tls_cert": certs, "tls_key": certs.with_suffix(".key"), "public_url": hub.url}
    items = {item.check: item for item in coordinator_doctor.examine(CoordinatorSettings(**given)).items}
    assert faults(items) == []
    for check in ("service", "own certificate", "key", "ledgers", "TLS", "clock", "public address", "migrations"):
        assert items[check].verdict == "ok", items[check]
    renewed = CoordinatorSettings(**given | {"tls_cert": hub.ca, "tls_key": certs.with_suffix(".key")})
    items = {item.check: item for item in coordinator_doctor.examine(renewed).items}
    assert "own certificate" in faults(items)


def test_a_coordinator_with_another_key(tmp_path, quiet):
    settings = CoordinatorSettings(data_dir=tmp_path / "hub", port=quiet)
    init(settings)
    settings.key_path.unlink()
    keys.save(keys.generate(), settings.key_path)
    findings = coordinator_doctor.examine(settings)
    assert findings.faulty
    assert "not the key of this database" in json.dumps([item.to_dict() for item in findings.items])


def test_what_nobody_foresaw_is_a_fault_and_keeps_its_words():
    findings = Findings()
    with findings.looking_at("something"):
        raise ValueError("a record: SECRETNAME")
    with findings.looking_at("nothing"):
        pass
    assert [item.verdict for item in findings.items] == ["fault", "warning"]
    assert "SECRETNAME" not in str(findings)
