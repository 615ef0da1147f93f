"""Backups on real processes: an old one spends nothing, a current one publishes the same bytes."""

from __future__ import annotations

import json
import shutil
import sqlite3
import stat
from contextlib import closing

import pytest

from crossward.client import Client, SiteClient
from crossward.errors import NotReady
from crossward_coordinator.backup import kind as coordinator_kind
from crossward_coordinator.settings import CoordinatorSettings
from crossward_lab.demo.records import DATASET, FILE
from crossward_service.ops.backup import backup, restore
from crossward_site.backup import kind as site_kind
from crossward_target.settings import TargetSettings
from envelopes import digest_of

BRANCH = "branch-1"


def test_an_old_backup_of_a_site_spends_nothing_until_it_has_caught_up(
    federation, tmp_path, small, crossward, findings
):
    old, again, service = tmp_path / "old.tar.gz", tmp_path / "again", federation.start("target", federation.home)
    with Client(federation.coordinator.url, federation.tokens["lead"]) as lead:
        with SiteClient(service.url, federation.token) as site:
            said = crossward("target", "backup", old, "--data-dir", federation.home)
            assert f"{BRANCH}, ledger at line 2" in said
            assert stat.S_IMODE(old.stat().st_mode) == 0o600
            with (federation.files / FILE).open("a") as table:
                table.write("newcomer,5.5,25.0,False,never,False\n")
            assert site.refresh_dataset(DATASET)["new"] == 1
            small.begin(lead, small.study("one", "direct"))
            assert small.ended(lead, "one") == "complete"
            small.wait_for(lambda: not site.status()["outbox"])
            spent = site.ledger()
            assert len(spent) == 5
        well = findings("target", "--data-dir", federation.home, CROSSWARD_PORT=service.url.rpartition(":")[2])
        checks = "data directory", "migrations", "site secret", "ledger", "key", "address", "TLS", "clock", "versions"
        for check in (*checks, "service", "coordinator", "enrolment", "mirror", "seats", "data patients", "policy"):
            assert well[check]["verdict"] == "ok", well[check]
        assert "5 lines on both sides" in well["mirror"]["observation"]
        assert "is ready" in well["service"]["observation"]
        service.stop()

        assert BRANCH in crossward("target", "restore", old, "--data-dir", again)
        assert {stat.S_IMODE(path.stat().st_mode) for path in again.iterdir()} == {0o600}
        stale = findings("--data-dir", again, CROSSWARD_PORT="1", code=1)  # which service it is, it sees
        assert [check for check, item in stale.items() if item["verdict"] == "fault"] == ["mirror"]
        mirror = stale["mirror"]["observation"]
        assert "The mirror has 5 lines and this ledger 2: this database is an old backup." in mirror
        assert "not running" in stale["service"]["observation"]

        small.begin(lead, small.study("two", "direct"))
        with SiteClient(federation.start("target", again).url, federation.token) as site:
            small.wait_for(lambda: site.status()["health"] == "stopped")
            assert "restored from an old backup" in site.status()["stopped"]
            assert [line.kind for line in site.ledger()] == ["open", "seats"]
            assert lead.ledger(BRANCH) == spent
            assert lead.study("two")["tasks"][0]["release"] is None

            site.reconcile()
            assert small.ended(lead, "two") == "complete"
            small.wait_for(lambda: site.ledger() == lead.ledger(BRANCH))
            assert site.ledger()[: len(spent)] == spent
            assert site.budget()["epsilon_spent"] == 1.0
            with pytest.raises(NotReady, match="does not know who came"):
                site.refresh_dataset(DATASET)


def outbox(home):
    """The signed releases that a target has stored."""
    with closing(sqlite3.connect(home / "site.sqlite3")) as database:
        return [json.loads(release) for [release] in database.execute("SELECT release FROM outbox")]


def point_at(home, url):
    """A restored coordinator has another port here; elsewhere its name would lead to it."""
    with closing(sqlite3.connect(home / "site.sqlite3")) as database, database:
        [known] = database.execute("SELECT value FROM facts WHERE name = 'identity'").fetchone()
        moved = json.dumps(json.loads(known) | {"coordinator_url": url})
        database.execute("UPDATE facts SET value = ? WHERE name = 'identity'", (moved,))


def test_what_was_stored_before_a_disaster_is_published_after_it(federation, tmp_path, small, monkeypatch):
    hub, now, again = tmp_path / "hub.tar.gz", tmp_path / "now.tar.gz", TargetSettings(data_dir=tmp_path / "again")
    lost, found = CoordinatorSettings(data_dir=federation.hub), CoordinatorSettings(data_dir=tmp_path / "found")
    with Client(federation.coordinator.url, federation.tokens["lead"]) as lead:
        small.begin(lead, small.study("one", "direct"))
        backup(coordinator_kind(lost), lost, hub)  # while it runs

        # The site dies with a release in its outbox that nobody has heard of.
        monkeypatch.setenv("CROSSWARD_CRASH_AT", "after-store")
        dying = federation.start("target", federation.home)
        [stored] = small.wait_for(lambda: outbox(federation.home))
        dying.stop()
        monkeypatch.delenv("CROSSWARD_CRASH_AT")
        assert [line.kind for line in lead.ledger(BRANCH)] == ["open", "seats", "reserve"]

        # A current backup, of a site that does not run; its folder is gone.
        backup(site_kind(federation.settings), federation.settings, now)
        shutil.rmtree(federation.home)
        restore(site_kind(again), again, now)
        service = federation.start("target", again.data_dir)
        with SiteClient(service.url, federation.token) as site:
            assert small.ended(lead, "one") == "complete"
            assert lead.study("one")["tasks"][0]["release"] == digest_of(stored)
            small.wait_for(lambda: not site.status()["outbox"])
            assert site.model("one")["signed_release"] == stored
            spent = site.ledger()
        service.stop()

    # The coordinator is lost too, and its backup is older than the release: it asks again, and hears the same.
    restore(coordinator_kind(found), found, hub)
    coordinator = federation.start("coordinator", found.data_dir)
    point_at(again.data_dir, coordinator.url)
    service = federation.start("target", again.data_dir)
    with (
        Client(coordinator.url, federation.tokens["operator"]) as operator,
        SiteClient(service.url, federation.token) as site,
    ):
        small.wait_for(lambda: site.status()["health"] == "stopped")  # the mirror has forgotten lines
        assert operator.parties()[0]["state"] == "stopped"
        site.reconcile()
        operator.reconcile(BRANCH)
        assert small.ended(operator, "one") == "complete"
        assert operator.study("one")["tasks"][0]["release"] == digest_of(stored)
        assert site.ledger() == operator.ledger(BRANCH) == spent
