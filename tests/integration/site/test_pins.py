"""A source whose key has changed: what the steward is told, and how the new key comes to be trusted."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from crossward.client import SiteClient
from crossward.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    WrongRole,
)
from crossward.protocol import keys
from crossward_cli.main import commands
from crossward_service.db.engine import write
from crossward_site.approvals import service as approvals
from crossward_site.identity import pins, tokens
from crossward_site.identity.service import Identity, rotate
from crossward_site.identity.tables import PinOrigin
from crossward_target import app as target
from crossward_target.settings import TargetSettings


@pytest.fixture
def steward(serving):
    """The target's own service, and its steward's and its clinic's tokens."""

    def at(hospital):
        given = {"data_dir": hospital.home, "database_url": str(hospital.site.engine.url), "port": 0, "work": False}
        secrets = {role: tokens.issue(hospital.site, role, role) for role in ("steward", "clinic")}
        settings = TargetSettings(**given)
        return serving(target.create_app(settings), settings), secrets

    return at


def crossward(*arguments: str, token: str, url: str) -> str:
    environment = {"CROSSWARD_SITE_TOKEN": token, "COLUMNS": "200"}  # however wide the terminal of the tests is
    done = CliRunner().invoke(commands, ["site", *arguments, "--site", url], env=environment)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_changed_key_is_held_pinned_and_used(federation, study, steward) -> None:
    main, branch = federation.hospital("main", "source"), federation.hospital("branch", "target")
    federation.start(study("one"))
    main.settle()
    branch.settle()
    before = Identity.load(main.site).key_id
    after = rotate(main.site)
    federation.start(study("two"))
    main.settle()
    branch.drive()
    [held] = approvals.waiting(branch.site)
    assert held.state == "held"
    assert after.key_id in held.cause
    assert "crossward site pin main PUBLIC_KEY" in held.cause
    serving, secrets = steward(branch)
    with serving as url:
        at = {"token": secrets["steward"], "url": url}
        shown = crossward("keys", **at)
        assert re.search(rf"main\s.*{before}", shown)
        assert Identity.load(branch.site).key_id in shown
        assert after.key_id in crossward("pin", "main", keys.public_text(after.key), **at)
        crossward("approve", held.task, **at)
        branch.settle()
        assert federation.study("two")["state"] == "complete"
        assert f"{after.key_id} is left" in crossward("unpin", "main", before, **at)
        assert "believed from the coordinator" in crossward("unpin", "main", after.key_id, **at)


def test_pins_come_and_go_by_the_steward_alone(federation, steward) -> None:
    branch = federation.hospital("branch", "target", data=False)
    own, other = Identity.load(branch.site), keys.generate()
    serving, secrets = steward(branch)
    with serving as url, SiteClient(url, secrets["steward"]) as client, SiteClient(url, secrets["clinic"]) as clinic:
        assert client.keys() == {"own": {"key_id": own.key_id, "public_key": keys.public_text(own.key)}, "keys": []}
        client.pin("main", keys.public_text(other))
        [pin] = client.keys()["keys"]
        assert (pin["party"], pin["key_id"], pin["origin"]) == ("main", keys.key_id(other), "steward")
        with pytest.raises(WrongRole):
            clinic.unpin("main", pin["key_id"])
        with pytest.raises(WrongRole):
            clinic.pin("main", keys.public_text(other))
        with pytest.raises(NotFound, match=r"No key 0{16} of main"):
            client.unpin("main", "0" * 16)
        with pytest.raises(InvalidInput):
            client.pin("main", "not a key")
        assert client.unpin("main", pin["key_id"])["keys"] == []


@pytest.mark.parametrize("origin", list(PinOrigin))
def test_another_key_of_a_pinned_party_waits_for_the_steward(federation, study, origin) -> None:
    main, branch = federation.hospital("main", "source"), federation.hospital("branch", "target")
    with write(branch.site.engine) as connection:
        old = pins.pin(connection, "main", keys.public_text(Identity.load(main.site).key), 1.0, origin)
    new = rotate(main.site)
    federation.start(study())
    main.settle()
    branch.drive()
    [held] = approvals.waiting(branch.site)
    assert held.state == "held"
    assert "that this site trusts" in held.cause
    with write(branch.site.engine) as connection:
        pins.pin(connection, "main", keys.public_text(new.key), 1.0)
        pins.unpin(connection, "main", old)
        assert [pin.key_id for pin in pins.pinned(connection)] == [new.key_id]
    approvals.answer(branch.site, held.task, True)
    branch.settle()
    assert federation.study("sugar")["state"] == "complete"


def test_what_was_held_before_its_charge_ends_with_its_study_and_stays_to_be_seen(federation, study) -> None:
    main, branch = federation.hospital("main", "source"), federation.hospital("branch", "target")
    with write(branch.site.engine) as connection:
        pins.pin(connection, "main", keys.public_text(keys.generate()), 1.0)
    federation.start(study())
    main.settle()
    branch.drive()
    [held] = approvals.waiting(branch.site)
    federation.call("lead", "POST", "/v1/studies/sugar/cancel", {"reason": "enough"})
    branch.runners[-1].beat(branch.tasks()[0])
    [ended] = approvals.waiting(branch.site)
    assert ended.state == "cancelled"
    assert held.cause in ended.cause
    with pytest.raises(Conflict):
        approvals.answer(branch.site, held.task, True)
    approvals.answer(branch.site, held.task, False)
    assert approvals.waiting(branch.site) == []
    assert branch.tasks()[0].state == "cancelled"
    assert branch.lines("reserve") == []
