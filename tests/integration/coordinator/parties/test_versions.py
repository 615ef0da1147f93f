"""A site and a coordinator that are too far apart refuse each other, and say who must be upgraded."""

import pytest

from crossward.client.http import NEVER, HttpClient
from crossward.errors import UnknownVersion
from crossward.protocol import keys, versions
from crossward.protocol.tasks import HeartbeatMessage


def join(world, code, protocol):
    body = {"code": code, "public_key": keys.public_text(keys.generate()), "protocol": protocol}
    with HttpClient(world.url, timeout=120, retry=NEVER) as client:
        return client.post("/v1/parties", body).json()


def test_a_site_too_far_ahead_does_not_join_and_its_code_stays_good(world):
    code = world.invite()["code"]
    with pytest.raises(UnknownVersion, match=r"The site speaks version 3 .* Upgrade the coordinator\."):
        join(world, code, versions.newest() + 2)
    assert join(world, code, versions.newest() + 1)["coordinator"]["protocol"] == versions.newest()


def test_a_site_too_far_behind_gets_no_work(small, monkeypatch):
    small.begin()
    site = small.sites["main"]
    monkeypatch.setattr(versions, "NEWEST", 4)
    for old in (1, 2):
        with pytest.raises(UnknownVersion, match=rf"The site speaks version {old} .* Upgrade the site\."):
            site.call("POST", "/v1/tasks/next", params={"protocol": old})


def test_a_message_of_another_version_is_refused_by_name(small):
    small.begin()
    site = small.sites["main"]
    task = site.next()
    for version in (0, 2, 9):
        body = HeartbeatMessage(task=task.id, progress=0.5).model_copy(update={"version": version}).canonical()
        with pytest.raises(UnknownVersion, match="HeartbeatMessage"):
            site.call("POST", f"/v1/tasks/{task.id}/heartbeat", body=body)


def test_the_newest_version_that_all_parties_read(small, monkeypatch):
    monkeypatch.setattr(versions, "NEWEST", 2)
    small.begin()
    main, branch = small.sites["main"], small.sites["branch-1"]

    def asked(site, protocol):
        return site.call("POST", "/v1/tasks/next", params={"protocol": protocol}).body

    assert asked(branch, 2) == b""  # it is no source; but both were enrolled with version 1
    assert asked(main, 2).endswith(b'"version":2}')
    small.begin(id="second")
    asked(branch, 1)
    assert asked(main, 2).endswith(b'"version":1}')  # one of them reads no other
