"""Parties: invited, enrolled, rotated, revoked; and everyone who is not who they must be."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import httpx
import pytest
from sqlalchemy import select

from crossward.client.http import NEVER, HttpClient
from crossward.client.remote import remote
from crossward.errors import (
    AccessRefused,
    Conflict,
    KeyRevoked,
    MissingToken,
    NotFound,
    RemoteProblem,
    Unsigned,
    WrongCode,
    WrongRole,
)
from crossward.protocol import keys
from crossward.protocol.messages import HeartbeatMessage, SignedReceipt
from crossward_coordinator.tables import keys as keys_table
from crossward_coordinator.tables import results
from crossward_coordinator.workflows import parties
from crossward_service.db.engine import connect, write
from crossward_service.http.signing import Signer


def invite(world, party="main", role="source"):
    return world.ask("operator", "POST", "/parties/invites", body={"party": party, "role": role}).json()


def enrol(world, code, key):
    with HttpClient(world.url, timeout=120, retry=NEVER) as client:
        return client.post("/v1/parties", {"code": code, "public_key": keys.public_text(key)}).json()


def test_a_party_joins_with_a_key_of_its_own(world):
    key, code = keys.generate(), invite(world)["code"]
    first = enrol(world, code, key)
    assert (first["party"], first["role"], first["key_id"]) == ("main", "source", keys.key_id(key))
    assert first["coordinator"]["public_key"] == world.made.public_key
    again = enrol(world, code, key)  # the first answer may have been lost
    assert again["key_id"] == first["key_id"]
    shown = world.party("main")
    assert (shown["state"], shown["last_seen"], len(shown["keys"])) == ("active", None, 1)


def test_a_code_works_once(world):
    code = invite(world)["code"]
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
        enrol(world, invite(world)["code"], keys.generate())
    older, _ = invite(world), invite(world)
    with pytest.raises(WrongCode, match="Nobody"):
        enrol(world, older["code"], keys.generate())


def test_a_name_is_given_once(small):
    small.site("main", "source")
    with pytest.raises(Conflict, match="enrolled already"):
        invite(small)
    with pytest.raises(Conflict, match="coordinator itself"):
        invite(small, "coordinator")
    code = invite(small, "other")["code"]
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


def test_a_revoked_party_is_gone_and_its_study_goes_on(world):
    study = world.begin(sources=["main", "west"], quorum={"sources": 1})
    shown = world.ask("operator", "DELETE", "/parties/west").json()
    assert shown["state"] == "revoked"
    with pytest.raises(KeyRevoked):
        world.sites["west"].next()
    world.sites["main"].work()
    world.ask("operator", "DELETE", "/parties/branch-1")
    shown = world.show(study)
    assert shown["state"] == "failed"
    assert "branch-1 (cancelled: The party was revoked.)" in shown["cause"]


@pytest.mark.parametrize("needed", [2, 3])
def test_until_the_quorum_a_revoked_party_takes_its_release_with_it(world, needed):
    study = world.begin(sources=["main", "north", "west"], quorum={"sources": needed})
    site = world.sites["west"]
    result = site.result(site.next())
    site.publish(result)
    world.ask("operator", "DELETE", "/parties/west")
    shown = world.show(study)
    west = next(task for task in shown["tasks"] if task["party"] == "west")
    assert (west["state"], west["release"]) == ("cancelled", result.release.digest)
    assert "What it had released is not used." in west["cause"]
    if needed == 3:
        assert shown["state"] == "failed"
        assert f"west (cancelled: {west['cause']})" in shown["cause"]
        return
    world.sites["main"].work()
    assert world.show(study)["state"] == "sources"
    world.sites["north"].work()
    target = world.sites["branch-1"].next()
    assert [release.party for release in target.inputs] == ["main", "north"]
    site.key = keys.generate()  # it comes back, and asks what became of its result
    site.join(invite(world, "west")["code"])
    assert site.publish(result).content().release == result.release.digest


def test_from_the_quorum_on_what_was_accepted_stays(world):
    study = world.begin(sources=["main", "west"])
    for name in study.sources:
        world.sites[name].work()
    world.ask("operator", "DELETE", "/parties/west")
    [key] = world.party("west")["keys"]
    target = world.sites["branch-1"].next()
    assert [release.party for release in target.inputs] == ["main", "west"]
    path = f"/releases/{target.inputs[1].digest}/receipt"
    receipt = SignedReceipt.from_json(world.ask("auditor", "GET", path).body).verify(
        world.sites["main"].coordinator_key
    )
    assert receipt.release == target.inputs[1].digest
    assert receipt.time <= datetime.fromisoformat(key["revoked"])
    world.sites["branch-1"].publish(world.sites["branch-1"].result(target))
    assert world.show(study)["state"] == "complete"


def test_a_revocation_is_not_older_than_what_was_accepted_before_it(small):
    """Two machines' clocks may differ; the order of transactions does not."""
    small.begin()
    small.sites["main"].work()
    engine = connect(small.settings["database_url"])
    with write(engine) as connection:
        assert parties.revoke(connection, "main", now=1.0)
        together = select(results.c.stored, keys_table.c.revoked).join(
            keys_table, keys_table.c.party == results.c.party
        )
        stored, revoked = connection.execute(together).one()
    engine.dispose()
    assert stored == revoked


def test_a_revoked_party_comes_back_with_its_old_ledger(small):
    site = small.site("main", "source")
    site.send_lines()
    small.ask("operator", "DELETE", "/parties/main")
    site.key = keys.generate()
    site.join(invite(small)["code"])
    assert small.ask("operator", "GET", "/ledger/main").json()["head"]["sequence"] == 1


def test_who_may_do_what(small):
    site = small.site("main", "source")
    other = small.site("west", "source")
    for role, method, path in (
        ("lead", "POST", "/parties/invites"),
        ("auditor", "POST", "/studies"),
        ("operator", "POST", "/studies/x/start"),
        ("lead", "DELETE", "/parties/main"),
        ("auditor", "POST", "/parties/main/reconcile"),
    ):
        with pytest.raises(WrongRole):
            small.ask(role, method, path, body={})
    with HttpClient(small.url, retry=NEVER) as nobody:
        for path in (
            "/parties",
            "/studies",
            "/studies/x",
            "/studies/x/events",
            "/ledger/main",
            f"/releases/{'0' * 64}",
        ):
            with pytest.raises(MissingToken):
                nobody.get(f"/v1{path}")
        with pytest.raises(Unsigned):
            nobody.post("/v1/tasks/next")
    with pytest.raises(Unsigned):
        small.ask("operator", "POST", "/tasks/next")
    for method, path, body in (
        ("GET", "/v1/ledger/west", None),
        ("POST", "/v1/ledger/west/lines", {"lines": []}),
        ("POST", "/v1/parties/west/keys", {"public_key": keys.public_text(keys.generate())}),
    ):
        with pytest.raises(AccessRefused, match="may not ask about west"):
            site.call(method, path, body=body)
    assert other.call("GET", "/v1/ledger/west").json()["lines"] == []
    with pytest.raises(NotFound):
        small.ask("auditor", "GET", "/ledger/nobody")


def signed_request(site, body, clock=None, path="/v1/tasks/x/heartbeat"):
    signer = Signer(site.name, keys.key_id(site.key), site.key, **({"clock": clock} if clock else {}))
    return path, signer.headers("POST", path, "", body), body


def send(url, request, **changes):
    path, headers, body = request
    content = changes.get("body", body)
    with httpx.Client(trust_env=False, timeout=120) as client:
        answer = client.post(url + changes.get("path", path), headers=headers, content=content)
    return answer.status_code, answer.json()["type"].rpartition(":")[2]


def test_a_request_is_taken_once_by_any_worker(world):
    """Two processes share nonces through the database."""
    site = world.site("main", "source")
    first, second = world.url, world.serve()
    request = signed_request(site, HeartbeatMessage(task="x", progress=0).canonical())
    together = threading.Barrier(2)

    def post(url):
        together.wait()
        return send(url, request)

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(post, [first, second])) == [(401, "replayed"), (404, "not-found")]


def test_signatures_that_do_not_count(small):
    site = small.site("main", "source")
    body = HeartbeatMessage(task="x", progress=0).canonical()
    good = signed_request(site, body)
    assert send(small.url, good, body=b"{}") == (401, "wrong-signature")
    assert send(small.url, good, path="/v1/tasks/y/heartbeat") == (401, "wrong-signature")
    assert send(small.url, signed_request(site, body, clock=lambda: 1e9)) == (401, "expired")
    stranger = type(site)(small.url, "stranger", site.hospital)
    assert send(small.url, signed_request(stranger, body)) == (401, "unknown-party")
    stranger.name = "main"
    assert send(small.url, signed_request(stranger, body)) == (401, "unknown-party")
    stranger.close()


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


def test_more_signed_requests_than_threads(world):
    """Verifying waits for writers, and writers' routes wait for threads: they must not wait for one another."""
    world.begin()
    site = world.sites["main"]
    task = site.next()
    with ThreadPoolExecutor(60) as pool:
        pulses = list(pool.map(lambda _: site.heartbeat(task), range(120)))
    assert all(pulse["state"] == "leased" for pulse in pulses)
