"""Data by HTTP, with real connector processes: jobs from check to erase, through kills and lost tables of seats."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from crossward.client.site import SiteClient
from crossward.errors import Conflict, CrosswardError, InvalidData, NotFound, NotReady
from crossward.protocol.constants import Role
from crossward_lab.demo.processes import Service
from crossward_lab.demo.records import settings_with_root
from crossward_service.ops.backup import backup
from crossward_site import doctor
from crossward_site import main as commands
from crossward_site.backup import kind as site_kind
from crossward_site.data import seating
from crossward_site.data.service import Vault
from crossward_site.desk import service as desk
from crossward_site.identity.service import join
from crossward_site.ledger import service as ledger
from crossward_site.site import Site
from crossward_target.settings import TargetSettings
from forked import fork_services

HEAD = "pid,glu,bmi,fam,smoke,dm\n"
MAPPING = {"person": "pid"}
PLACE = {"kind": "csv", "root": "records", "path": "table.csv"}


def rows(start: int, stop: int) -> str:
    return "".join(
        f"p{k},{90 + k % 60},{20 + k % 15},{'NY'[k % 2]},{'NFC'[k % 3]},{k % 2}\n" for k in range(start, stop)
    )


class Station:
    """A site as a process of its own, with one root. It may be killed, and started again."""

    def __init__(self, folder: Path) -> None:
        self.home, self.files = folder / "site", folder / "files"
        self.home.mkdir(mode=0o700)
        self.files.mkdir()
        (self.home / "settings.toml").write_text(settings_with_root(self.files))
        self.token = commands.init(TargetSettings.load(data_dir=self.home)) or ""
        self.start()

    def start(self) -> None:
        self.service = Service("target", self.home)
        self.client = SiteClient(self.service.url, self.token)
        self.http = httpx.Client(
            base_url=self.service.url,
            headers={"Authorization": f"Bearer {self.token}"},
            trust_env=False,
            timeout=60,
        )

    def stop(self) -> None:
        self.client.close()
        self.http.close()
        self.service.stop()

    def kill(self) -> None:
        """As when the power goes."""
        self.service._process.send_signal(signal.SIGKILL)
        self.service._process.wait()
        self.stop()

    def big(self) -> None:
        """A file that takes a while, whatever the machine."""
        block = rows(0, 10_000)
        with (self.files / "table.csv").open("w") as file:
            file.write(HEAD)
            for _ in range(200):
                file.write(block)

    def ask(self, path: str = "/v1/datasets", **asked: Any) -> Any:
        answer = self.http.post(path, json=asked)
        assert answer.status_code == 202, answer.text
        return answer.json()

    def ask_to_open(self, name: str = "patients") -> Any:
        return self.ask(name=name, place=PLACE, mapping=MAPPING, epsilon=1.0)

    def under_way(self, number: int) -> Any:
        """A job, once it is in the middle of its work."""
        end = time.monotonic() + 300
        while not 0 < (job := self.client.job(number))["progress"] < 1:
            assert job["state"] in ("waiting", "running"), job
            assert time.monotonic() < end, job
            time.sleep(0.01)
        return job

    def vault_files(self) -> list[str]:
        return sorted(path.suffix for path in self.home.glob("vault-*"))


@pytest.fixture
def station(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Station]:
    fork_services(monkeypatch)
    made = Station(tmp_path)
    yield made
    made.stop()


# -- from check to erase ----------------------------------------------------------------------------------------------
def test_check_open_refresh_undo_erase(station) -> None:
    client, table = station.client, station.files / "table.csv"
    table.write_text(HEAD + rows(0, 400))
    checked = client.check_data(PLACE, MAPPING)
    assert (checked["ready"], checked["rows"], checked["persons"]) == (True, 400, 400)
    assert station.vault_files() == []
    assert client.ledger() == []

    opened = client.open_dataset("patients", PLACE, MAPPING, epsilon=2.0)
    assert (opened["version"], opened["rows"], opened["persons"], opened["new"]) == (1, 400, 400, 400)
    assert [line.kind for line in client.ledger()] == ["open", "seats"]
    assert station.vault_files() == [".cells", ".records", ".seats"]

    table.write_text(HEAD + rows(100, 500))
    fresh = client.refresh_dataset("patients")
    assert (fresh["version"], fresh["came"], fresh["left"], fresh["stayed"]) == (2, 100, 100, 300)
    assert client.undo_dataset("patients") == {"version": 1}
    assert client.datasets()[0]["version"] == 1
    assert client.report("patients")["persons"] == 400
    assert client.refresh_dataset("patients")["version"] == 2

    gone = client.erase(["p100", "p101", "nobody"])
    assert gone == {"rows": 4, "strangers": 1}  # two persons, in the version that counts and in the one before it
    again = client.refresh_dataset("patients")
    assert (again["opted_out"], again["persons"]) == (2, 398)
    assert client.budget()["epsilon_left"] == 2.0
    assert not client.budget()["final"]
    kinds = [job["kind"] for job in client.jobs()]
    assert kinds == ["refresh", "erase", "refresh", "undo", "refresh", "open", "check"]
    assert {job["state"] for job in client.jobs()} == {"done"}
    assert "p100" not in json.dumps(client.jobs())
    assert client.verify()["sound"]
    assert client.undo_dataset("patients") == {"version": 2}
    with pytest.raises(Conflict, match="are not here any more"):  # one version back, not two
        client.undo_dataset("patients")
    assert client.open_dataset("again", PLACE, MAPPING)["known"] == 398  # who has a seat keeps it
    assert client.undo_dataset("again") == {"version": None}
    assert [data["name"] for data in client.datasets()] == ["patients"]


def test_what_is_wrong_is_said_and_nothing_is_opened(station) -> None:
    table = station.files / "table.csv"
    refused = []
    for text, place, kind in (
        ("", PLACE, InvalidData),
        (HEAD, PLACE, InvalidData),
        (HEAD + rows(0, 20), PLACE | {"path": "other.csv"}, InvalidData),
        (HEAD + rows(0, 20), PLACE | {"root": "elsewhere"}, NotFound),
        (HEAD + rows(0, 20), {"kind": "sql", "connection": "clinic", "query": "SELECT 1"}, NotFound),
        (HEAD + rows(0, 20) + "p77,1\n", PLACE, InvalidData),
    ):
        table.write_text(text)
        with pytest.raises(kind) as refusal:
            station.client.open_dataset("patients", place, MAPPING, epsilon=1.0)
        refused.append(str(refusal.value))
        assert refusal.value.fix
    assert "line 22" in refused[-1]
    for place in (PLACE | {"path": "../site/site.secret"}, PLACE | {"path": "/etc/passwd"}, PLACE | {"url": "s3://x"}):
        assert (
            station.http.post("/v1/datasets", json={"name": "a", "place": place, "mapping": MAPPING}).status_code == 422
        )
    assert station.client.ledger() == []
    assert station.client.datasets() == []
    assert station.vault_files() == []
    table.write_text(HEAD + rows(0, 20))
    assert station.client.open_dataset("patients", PLACE, MAPPING, epsilon=1.0)["rows"] == 20


# -- while a job runs -------------------------------------------------------------------------------------------------
def test_others_are_answered_equal_requests_are_one_job_and_a_job_is_cancelled(station) -> None:
    station.big()
    first = station.ask_to_open()
    station.under_way(first["number"])
    assert station.ask_to_open()["number"] == first["number"]
    other = station.ask_to_open("others")
    assert (other["number"], other["state"]) == (first["number"] + 1, "waiting")
    [running, waiting] = station.client.status()["jobs"]
    assert (running["state"], waiting["state"]) == ("running", "waiting")
    assert running["step"]
    answered = 0
    while station.client.job(first["number"])["state"] == "running" and answered < 5:
        for path in ("/v1/status", "/v1/datasets", "/v1/ledger", "/readyz"):
            assert station.http.get(path).status_code == 200
        answered += 1
    assert answered == 5  # and the job is not done yet
    assert station.client.cancel_job(other["number"])["state"] == "cancelled"
    station.client.cancel_job(first["number"])
    with pytest.raises(Conflict, match="was cancelled"):
        station.client.follow(first["number"])
    assert station.client.datasets() == []
    assert station.client.ledger() == []
    assert station.vault_files() == []
    (station.files / "table.csv").write_text(HEAD + rows(0, 50))
    again = station.ask_to_open()
    assert again["number"] == other["number"] + 1
    assert station.client.follow(again["number"])["rows"] == 50
    assert station.client.cancel_job(again["number"])["state"] == "done"  # it stays as it ended


def test_a_job_survives_the_death_of_its_process(station) -> None:
    station.big()
    (station.files / "small.csv").write_text(HEAD + rows(0, 100))
    number = station.ask_to_open()["number"]
    station.under_way(number)
    after = station.ask(name="small", place=PLACE | {"path": "small.csv"}, mapping=MAPPING, epsilon=1.0)["number"]
    station.kill()
    left = station.vault_files()
    station.start()
    assert station.client.job(number)["state"] in ("waiting", "running", "done")
    report = station.client.follow(number)
    assert (report["rows"], report["persons"], report["version"]) == (2_000_000, 10_000, 1)
    assert station.client.follow(after)["rows"] == 100
    assert [line.kind for line in station.client.ledger()] == ["open", "seats", "seats"]
    assert station.client.verify()["sound"]
    assert set(left) <= {".part"}  # what was begun had no name yet
    kept = station.vault_files()
    assert kept == [".cells", ".cells", ".records", ".records", ".seats"]
    station.stop()
    station.start()  # in order, and nothing is to be done again
    assert [data["version"] for data in station.client.datasets()] == [1, 1]
    assert station.vault_files() == kept


def test_a_job_that_is_stopped_in_order_is_done_after_the_next_start(station) -> None:
    station.big()
    number = station.ask_to_open()["number"]
    station.under_way(number)
    station.stop()
    assert station.vault_files() == []
    station.start()
    assert station.client.follow(number)["persons"] == 10_000


# -- no word of a cell ------------------------------------------------------------------------------------------------
SECRETS = ("Zacharias77", "41.9377", "QUARTZ", "31415926", "ÄÖÜgeheim", "Wolfenstein")
BAD = {
    "a number that is none": HEAD + rows(0, 20) + "Zacharias77,QUARTZ,41.9377,Y,N,1\n",
    "too many cells": HEAD + rows(0, 20) + "Zacharias77,41.9377,22,Y,N,1,QUARTZ,31415926\n",
    "a quote that does not end": HEAD + rows(0, 20) + '"Zacharias77,41.9377,22,Y,N,1\nQUARTZ,31415926,22,Y,N,1\n',
    "the same twice": HEAD + rows(0, 20) + "Zacharias77,41.9377,22,Y,N,1\n" * 2,
    "no names": "Zacharias77,41.9377,31415926,QUARTZ,Wolfenstein,1\n" + rows(0, 20),
    "another encoding": HEAD + rows(0, 20) + "ÄÖÜgeheim,41.9377,22,Y,QUARTZ,1\n",
    "no person": HEAD + rows(0, 20) + ",41.9377,31415926,Y,QUARTZ,1\n",
    "a NUL byte": HEAD + rows(0, 20) + "Zacharias77,41.9377\0,22,Y,QUARTZ,1\n",
    "a spreadsheet": "PK\x03\x04 Zacharias77 QUARTZ 31415926",
}


def test_no_answer_and_no_log_quotes_a_cell(station, study) -> None:
    table, told = station.files / "table.csv", []
    mapping = {"person": "pid", "features": {"glucose": "glu", "family": "fam", "smoker": "smoke"}} | {
        "labels": {"diabetes": {"column": "dm", "recode": {"1": True, "0": False}}}
    }
    for name, text in BAD.items():
        table.write_bytes(text.encode("latin-1" if name == "another encoding" else "utf-8"))
        for more in ({}, {"study": study().to_yaml()}):
            for columns in (mapping, mapping | {"record": "pid"}):
                asked = {"place": PLACE, "mapping": columns} | more
                for path, given in (
                    ("/v1/datasets/check", asked),
                    ("/v1/datasets", asked | {"name": "a", "epsilon": 1}),
                ):
                    number = station.ask(path, **given)["number"]
                    while (job := station.client.job(number))["state"] in ("waiting", "running"):
                        time.sleep(0.01)
                    told.append(json.dumps(job, ensure_ascii=False))
                    if path == "/v1/datasets" and job["state"] == "done":
                        told.append(json.dumps(station.client.report("a"), ensure_ascii=False))
                        station.client.undo_dataset("a")
    told += [json.dumps(station.client.jobs(), ensure_ascii=False), station.http.get("/v1/status").text]
    told += [station.http.get("/metrics").text]
    states = {json.loads(one)["state"] for one in told if one.startswith('{"number"')}
    assert states == {"done", "failed"}
    station.stop()
    told.append((station.home / "service.log").read_text(encoding="utf-8", errors="replace"))
    station.start()
    with closing(sqlite3.connect(station.home / "site.sqlite3")) as database:
        told.append("\n".join(database.iterdump()))
    for secret in SECRETS:
        assert not [one[:300] for one in told if secret in one], secret


def test_a_clinics_token_opens_no_data(federation, api) -> None:
    branch = federation.hospital("branch", "target", rows=100)
    asked = {"place": PLACE, "mapping": MAPPING}
    with api(branch, "clinic") as client:
        answers = [
            client.get("/v1/datasets"),
            client.get("/v1/datasets/patients/report"),
            client.get("/v1/jobs"),
            client.get("/v1/jobs/1"),
            client.delete("/v1/jobs/1"),
            client.post("/v1/datasets/check", json=asked),
            client.post("/v1/datasets", json=asked | {"name": "a", "epsilon": 1.0}),
            client.post("/v1/datasets/patients/versions", json={}),
            client.post("/v1/datasets/patients/fit", json={"study": "sugar"}),
            client.post("/v1/datasets/patients/undo"),
            client.post("/v1/erasures", json={"persons": ["p1"]}),
            client.post("/v1/recovery"),
        ]
        assert {answer.status_code for answer in answers} == {403}
        client.headers["Authorization"] = "Bearer wrong"
        assert client.post("/v1/recovery").status_code == 401
    assert [line.kind for line in branch.lines()] == ["open", "seats"]


# -- the table of seats is lost ---------------------------------------------------------------------------------------
@contextmanager
def damaged(file: Path, how: str) -> Iterator[None]:
    whole = file.read_bytes()
    if how == "gone":
        file.unlink()
    else:
        file.write_bytes(whole[:60] + bytes([whole[60] ^ 1]) + whole[61:])
    yield
    file.write_bytes(whole)


@pytest.mark.parametrize("how", ["gone", "a flipped bit"])
def test_a_lost_table_of_seats_is_said_everywhere_and_nothing_is_charged(federation, study, api, ended, how) -> None:
    branch = federation.hospital("branch", "target", epsilon=5.0)
    federation.start(study("one", method="direct"))
    branch.settle()
    [seats] = branch.home.glob("vault-*.seats")
    settings = TargetSettings(data_dir=branch.home, database_url=branch.url, port=1)
    with damaged(seats, how):
        with api(branch) as client:
            status = client.get("/v1/status").json()
            assert status["health"] == "stopped"
            assert "table of seats is lost" in status["stopped"]
            assert "crossward site recover" in status["stopped"]
            ready = client.get("/readyz")
            assert (ready.status_code, "the table of seats" in ready.json()["detail"]) == (503, True)
            sound = client.get("/v1/ledger/verify").json()
            assert (sound["sound"], sound["line"]) == (False, 2)
            assert "table of seats" in sound["cause"]
            job = ended(client, client.post("/v1/datasets/patients/versions", json={}))
            assert job["state"] == "failed"
            assert "table of seats is lost" in job["cause"]
            federation.start(study("two", method="direct"))
            with suppress(CrosswardError):
                branch.drive()
            [task] = [task for task in branch.tasks() if task.study_id == "two"]
            assert (task.state, "Nothing is charged until then" in task.trouble) == ("approved", True)
            record = {"glu": 160.0, "bmi": 33.0, "fam": "Y", "smoke": "C"}
            asked = {"study": "one", "record": record}  # the model that was paid for serves on
            assert client.post("/v1/predict", json=asked).status_code == 200
        assert len(branch.lines("reserve")) == 1
        items = {item.check: item for item in doctor.examine(settings).items}
        assert items["seats"].verdict == "fault"
        assert "crossward site recover" in items["seats"].fix
        with pytest.raises(InvalidData, match="table of seats is lost"):
            backup(site_kind(settings), settings, federation.folder / "backup.tar.gz")
        assert not (federation.folder / "backup.tar.gz").exists()
    with api(branch) as client:  # it is there again, as after a backup was restored
        assert client.get("/v1/status").json()["health"] == "well"
        assert client.get("/readyz").status_code == 200
        refused = ended(client, client.post("/v1/recovery"))
        assert (refused["state"], "nothing to recover" in refused["fix"]) == ("failed", True)
    branch.settle()
    assert len(branch.lines("reserve")) == 2


def test_recover_brings_a_site_back_with_every_cell_at_the_largest_spend(federation, study, api, ended) -> None:
    branch = federation.hospital("branch", "target", epsilon=5.0)
    federation.start(study("one", method="direct"))
    branch.settle()
    before = Vault(branch.site).dataset("patients")
    for path in branch.home.glob("vault-*.seats"):
        path.unlink()
    with api(branch) as client:
        spent = [cell["epsilon_spent"] for cell in client.get("/v1/datasets").json()["budget"]["cells"]]
        assert set(spent) == {0.0, 2.0}
        done = ended(client, client.post("/v1/recovery"))
        assert (done["state"], done["result"]) == ("done", {"line": len(branch.lines())})
        view = client.get("/v1/datasets").json()
        assert view["datasets"] == []
        assert {cell["epsilon_spent"] for cell in view["budget"]["cells"]} == {2.0}
        assert view["budget"]["final"]
        assert client.get("/v1/status").json()["health"] == "well"
        assert client.get("/readyz").status_code == 200
        assert client.get("/v1/ledger/verify").json()["sound"]
        assert list(branch.home.glob("vault-*")) == []
        asked = {"name": "patients", "place": before.place.model_dump(), "mapping": before.mapping.model_dump()}
        dearer = ended(client, client.post("/v1/datasets", json=asked | {"epsilon": 50.0}))
        assert (dearer["state"], "for life" in dearer["cause"]) == ("failed", True)
        report = ended(client, client.post("/v1/datasets", json=asked))["result"]
        assert (report["new"], report["version"] > before.version) == (600, True)
    federation.start(study("two", method="direct"))
    branch.settle()
    assert federation.study("two")["state"] == "complete"
    kinds = ["open", "seats", "reserve", "release", "recover", "seats", "reserve", "release"]
    assert [line.kind for line in branch.lines()] == kinds
    assert federation.mirror("branch") == branch.lines()
    federation.start(study("three", method="direct"))
    branch.settle()
    assert federation.study("three")["tasks"][0]["cause"].startswith("budget")


def test_a_site_that_lost_its_whole_directory_goes_on_by_the_mirror(federation, study) -> None:
    branch = federation.hospital("branch", "target", epsilon=5.0)
    federation.start(study("one", method="direct"))
    branch.settle()
    federation.start(study("two", method="direct"))
    branch.drive_until("reserved")
    ledger.sync(branch.site, branch.runners[-1].coordinator())
    spent, before = branch.lines(), Vault(branch.site).dataset("patients")
    branch.close()
    shutil.rmtree(branch.home)

    branch.site = Site.open(branch.url, branch.home, connectors=branch.site.connectors)
    federation.call("operator", "DELETE", "/v1/parties/branch")
    code = federation.call("operator", "POST", "/v1/parties/invites", {"party": "branch", "role": "target"})["code"]
    join(branch.site, federation.url, code, (Role.TARGET,))
    branch.policy(decide="approve")
    runner = branch.new_runner()
    with pytest.raises(NotReady, match="old backup"):
        ledger.sync(branch.site, runner.coordinator())
    assert branch.lines() == []
    ledger.reconcile(branch.site, runner.coordinator())
    assert branch.lines() == spent
    assert "table of seats is lost" in desk.status(branch.site).stopped
    with pytest.raises(InvalidData, match="table of seats is lost"):
        Vault(branch.site).open("patients", before.place, before.mapping)
    seating.recover(branch.site)
    assert Vault(branch.site).open("patients", before.place, before.mapping).report.new == 600
    balance = Vault(branch.site).balance()
    assert {cell.nano_epsilon for cell in balance.spends} == {4 * 10**9}
    assert desk.status(branch.site).stopped == ""
    branch.drive()
    assert branch.tasks() == []  # its old key was revoked, and with it what it had leased
    federation.start(study("dear", method="direct"))
    federation.start(study("last", method="direct", epsilon=1.0))
    branch.drive()
    assert federation.study("dear")["tasks"][0]["cause"].startswith("budget")
    assert federation.study("last")["state"] == "complete"
    assert federation.mirror("branch") == branch.lines()
    assert ledger.verify(branch.site).sound
