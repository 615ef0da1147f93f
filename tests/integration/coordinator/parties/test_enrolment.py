"""A party is invited, enrols with a key of its own, once, and rotates it."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from crossward.client.http import NEVER, HttpClient
from crossward.client.remote import remote
from crossward.errors import (
    Conflict,
    InvalidMessage,
    KeyRevoked,
    RemoteProblem,
    WrongCode,
)
from crossward.protocol import keys


def enrol(world, code, key):
    with HttpClient(world.url, timeout=120, retry=NEVER) as client:
        return client.post("/v1/parties", {"code": code, "public_key": keys.public_text(key), "protocol": 1}).json()


def test_a_party_joins_with_a_key_of_its_own(world):
    key, code = keys.generate(), world.invite()["code"]
    first = enrol(world, code, key)
    assert (first["party"], first["role"], first["key_id"]) == ("main", "source", keys.key_id(key))
    assert first["coordinator"]["public_key"] == world.initialised.public_key
    again = enrol(world, code, key)  # the first answer may have been lost
    assert again["key_id"] == first["key_id"]
    shown = world.party("main")
    assert (shown["state"], shown["last_seen"], len(shown["keys"])) == ("active", None, 1)


def test_a_code_works_once(world):
    code = world.invite()["code"]
    together = threading.Barrier(4)

    def join(_):
        together.wait()
        try:
            return enrol(world, code, keys.generate())["party"]
        except WrongCode:
            return None

    with ThreadPoolExecutor(4) as pool:
        assert sorted(map(str, pool.map(join, range(4)))) == ["None", "None", "None", "main"]


def test_codes_that_do_not_count(world_of, sqlite_url):
    world = world_of(sqlite_url, invite_seconds=1e-6)
    with pytest.raises(WrongCode, match="Nobody"):
        enrol(world, "guess", keys.generate())
    with pytest.raises(WrongCode, match="expired"):
        enrol(world, world.invite()["code"], keys.generate())
    older, _ = world.invite(), world.invite()
    with pytest.raises(WrongCode, match="Nobody"):
        enrol(world, older["code"], keys.generate())


def test_a_name_is_given_once(small):
    small.site("main", "source")
    with pytest.raises(Conflict, match="enrolled already"):
        small.invite()
    with pytest.raises(Conflict, match="coordinator itself"):
        small.invite("coordinator")
    code = small.invite("other")["code"]
    with pytest.raises(Conflict, match="key was enrolled before"):
        enrol(small, code, small.sites["main"].key)


def test_keys_rotate(world):
    site, fresh = world.site("main", "source"), keys.generate()
    old = site.key
    body = {"public_key": keys.public_text(fresh)}
    site.call("POST", "/v1/parties/main/keys", body=body)
    with pytest.raises(KeyRevoked):
        site.next()
    site.key = fresh
    assert site.next() is None
    assert site.call("POST", "/v1/parties/main/keys", body=body).json()["key_id"] == keys.key_id(fresh)
    states = {key["key_id"]: key["state"] for key in world.party("main")["keys"]}
    assert states == {keys.key_id(fresh): "active", keys.key_id(old): "rotated"}


def test_a_release_signed_before_a_rotation_still_counts(small):
    small.begin()
    site = small.sites["main"]
    result = site.result(site.next())
    fresh = keys.generate()
    site.call("POST", "/v1/parties/main/keys", body={"public_key": keys.public_text(fresh)})
    site.key = fresh
    site.publish(result)
    small.sites["branch-1"].work()


def test_lists_come_in_pages(small):
    for name in ("a", "b", "c"):
        small.site(name, "source")
    first = small.ask("lead", "GET", "/parties", params={"limit": 2}).json()
    assert [item["party"] for item in first["items"]] == ["a", "b"]
    second = small.ask("lead", "GET", "/parties", params={"limit": 2, "after": first["next"]}).json()
    assert [item["party"] for item in second["items"]] == ["c"]
    assert second["next"] is None
    with pytest.raises(RemoteProblem) as caught:
        small.ask("lead", "GET", "/parties", params={"limit": 10_000})
    assert remote(caught.value).status == 422


def test_a_key_of_a_form_given_twice_is_refused_by_name(world):
    code, public = world.invite()["code"], keys.public_text(keys.generate())
    body = f'{{"code":"{code}","protocol":9,"protocol":1,"public_key":"{public}"}}'.encode()
    with HttpClient(world.url, timeout=120, retry=NEVER) as client, pytest.raises(InvalidMessage, match="'protocol'"):
        client.post("/v1/parties", body)
