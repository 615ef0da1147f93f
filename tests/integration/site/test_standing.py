"""What a site says of itself is so now: trouble that is over is gone, and an old backup is known before it charges."""

from __future__ import annotations

import time
from contextlib import contextmanager

import httpx
import pytest

from crossward.errors import NotReady
from crossward.protocol.constants import Role
from crossward_site.desk import service as desk
from crossward_site.identity import tokens
from crossward_site.identity.service import join
from crossward_site.site import Site
from crossward_site.tasks.runner import Pace, Runner
from crossward_target import app as target
from crossward_target.settings import TargetSettings


def invited(federation) -> dict[str, str]:
    code = federation.call("operator", "POST", "/v1/parties/invites", {"party": "new", "role": "target"})["code"]
    return {"coordinator": federation.url, "code": code}


def until(found, seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def working(serving):
    """A target's service with its worker, at the pace it has in a hospital; gives a client of its API."""

    @contextmanager
    def serve(home):
        settings = TargetSettings(data_dir=home, database_url=f"sqlite:///{home}/site.sqlite3", port=0)
        app = target.create_app(settings)
        bearer = {"Authorization": f"Bearer {tokens.issue(app.state.site, 'steward', 'test')}"}
        with serving(app, settings) as url, httpx.Client(base_url=url, headers=bearer, trust_env=False) as http:
            yield http

    return serve


def said(http: httpx.Client) -> tuple[str, str]:
    answer = http.get("/v1/status").json()
    return answer["health"], answer["trouble"]


def test_a_site_that_has_joined_is_well_at_once(federation, working, tmp_path) -> None:
    with working(tmp_path / "new") as http:
        until(lambda: "joined no coordinator" in said(http)[1])
        assert http.post("/v1/join", json=invited(federation)).status_code == 201
        assert said(http) == ("well", "")


def test_a_site_that_was_reconciled_is_well_at_once(federation, working) -> None:
    main = federation.hospital("main", "target", data=False)
    main.site.stop("for a test")
    with working(main.home) as http:
        until(lambda: "for a test" in said(http)[1])
        assert http.post("/v1/reconcile").status_code == 200
        assert said(http) == ("well", "")


def test_a_site_joined_by_another_process_is_well_before_its_first_task(federation, tmp_path) -> None:
    site = Site.open(f"sqlite:///{tmp_path}/new/site.sqlite3", tmp_path / "new")
    runner = Runner(site, pace=Pace(poll=300.0, retry=0.1))
    runner.start()
    try:
        until(lambda: "joined no coordinator" in runner.trouble)
        join(site, federation.url, invited(federation)["code"], (Role.TARGET,))
        until(lambda: not runner.trouble, seconds=240.0)  # while it waits for its first task
    finally:
        runner.stop()
        site.close()


def test_an_old_backup_is_known_when_the_site_starts(federation, study) -> None:
    main = federation.hospital("main", "target", rows=100)
    main.new_runner().work()
    copy = main.backup()
    federation.start(study(method="direct", epsilon=1.0, targets=("main",)))
    main.settle()
    main.restore(copy)
    with pytest.raises(NotReady, match="old backup"):
        main.new_runner().take()  # there is no task, and nothing to charge
    seen = desk.status(main.site)
    assert seen.health == "stopped"
    assert "restored from an old backup" in seen.stopped
