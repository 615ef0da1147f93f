"""A signed request counts once, at any worker, and only if its party signed it just now."""

import threading
from concurrent.futures import ThreadPoolExecutor

import httpx

from crossward.protocol import keys
from crossward.protocol.tasks import HeartbeatMessage
from crossward_service.http.signing import Signer


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


def test_more_signed_requests_than_threads(world):
    """Verifying waits for writers, and writers' routes wait for threads: they must not wait for one another."""
    world.begin()
    site = world.sites["main"]
    task = site.next()
    with ThreadPoolExecutor(60) as pool:
        pulses = list(pool.map(lambda _: site.heartbeat(task), range(120)))
    assert all(pulse["state"] == "leased" for pulse in pulses)
