"""A result is taken once, whole or not at all, and nothing that is not right is taken."""

import base64
import hashlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select

from crossward.errors import (
    AlreadyReleased,
    BodyTooLarge,
    Conflict,
    Forged,
    InvalidMessage,
    Malformed,
    NotFound,
    NotReserved,
    TaskEnded,
    UnknownVersion,
)
from crossward.privacy.budget import Cost
from crossward.privacy.noise import SeededRandomness
from crossward.protocol import keys
from crossward.protocol.certificate import Certificate, CertifiedCharge, SignedCertificate, verify_certificate
from crossward.protocol.ledger.lines import ReleaseBody
from crossward.protocol.messages import ResultMessage, SignedRelease
from crossward.protocol.messages.signed import _to_sign
from crossward_coordinator.tables import metadata, nonces, parties
from crossward_service.db.engine import connect, read


def everything(world):
    """All that is stored, but for nonces and when a party was last seen."""
    engine = connect(world.settings["database_url"])
    with read(engine) as connection:
        tables = [table for table in metadata.sorted_tables if table is not nonces]
        found = {
            table.name: sorted(
                connection.execute(select(*[c for c in table.c if c is not parties.c.seen])).all(), key=repr
            )
            for table in tables
        }
    engine.dispose()
    return found


def resigned(site, release, change, key=None):
    """The release with its payload changed, signed anew by the party itself."""
    payload = json.loads(base64.b64decode(release.payload))
    change(payload)
    data = json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    digest = hashlib.sha256(data).hexdigest()
    signature = (key or site.key).sign(_to_sign(SignedRelease.context, digest, release.party, release.key_id))
    return {
        **release.model_dump(mode="json"),
        "payload": base64.b64encode(data).decode(),
        "digest": digest,
        "signature": base64.b64encode(signature).decode(),
    }


@pytest.fixture
def ready(world):
    """A source that is about to publish; its study has two targets."""
    world.begin(sources=["main"], targets=["branch-1", "branch-2"])
    site = world.sites["main"]
    task = site.next()
    return world, site, task, site.result(task)


@pytest.fixture
def about(small):
    """The same over SQLite."""
    small.begin(sources=["main"], targets=["branch-1", "branch-2"])
    site = small.sites["main"]
    task = site.next()
    return small, site, task, site.result(task)


def refused(world, site, task, error, message, match=None):
    """The message is refused with this error and nothing changes."""
    before = everything(world)
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    with pytest.raises(error, match=match):
        site.call("POST", f"/v1/tasks/{task}/result", body=body)
    assert everything(world) == before


# -- once -------------------------------------------------------------------------------------------------------------
def test_the_same_bytes_get_the_same_receipt(ready):
    world, site, _, result = ready
    first = site.publish(result)
    lines = world.ask("auditor", "GET", "/ledger/main").json()
    assert site.publish(result) == first  # the acknowledgement was lost
    later = result.model_copy(update={"lines": ()})  # and a site that knows its lines are confirmed
    assert site.publish(later) == first
    assert world.ask("auditor", "GET", "/ledger/main").json() == lines


def test_the_same_result_from_many_threads_at_two_workers(ready):
    world, site, _, result = ready
    urls = [world.url, world.serve()]
    together = threading.Barrier(6)

    def publish(number):
        together.wait()
        return site.publish(result, url=urls[number % 2])

    for url in urls:
        site.next(url=url)  # makes the clients, which threads share
    with ThreadPoolExecutor(6) as pool:
        receipts = list(pool.map(publish, range(6)))
    assert len({receipt.canonical() for receipt in receipts}) == 1
    assert len(world.ask("auditor", "GET", "/ledger/main").json()["lines"]) == 3
    kinds = [task["kind"] for task in world.ask("lead", "GET", "/studies/demo").json()["tasks"]]
    assert kinds == ["train-source", "train-target", "train-target"]


def test_other_bytes_for_a_finished_task_are_refused(ready):
    world, site, task, result = ready
    site.publish(result)
    other, _ = site.train(task)
    assert other.digest != result.release.digest
    refused(world, site, task.id, AlreadyReleased, ResultMessage(task=task.id, release=other).canonical())
    refused(world, site, task.id, AlreadyReleased, ResultMessage(task=task.id, release=None).canonical())


def test_results_of_two_studies_arrive_in_the_other_order(world):
    for name in ("one", "two"):
        world.begin(id=name)
    site = world.sites["main"]
    first, second = (site.result(site.next()) for _ in range(2))  # the second repeats the lines of the first
    site.publish(second)
    site.confirmed = 0
    site.publish(first)
    assert world.ask("auditor", "GET", "/ledger/main/verify").json()["head"]["sequence"] == 5
    assert world.party("main")["state"] == "active"


def test_two_workers_never_lease_a_task_twice(world):
    world.begin()
    urls = [world.url, world.serve()]
    site = world.sites["main"]
    for url in urls:
        site.call("GET", "/v1/parties", url=url)
    together = threading.Barrier(6)

    def take(number):
        together.wait()
        return site.next(url=urls[number % 2])

    with ThreadPoolExecutor(6) as pool:
        tasks = list(pool.map(take, range(6)))
    assert sum(task is not None for task in tasks) == 1


# -- not as it should be ----------------------------------------------------------------------------------------------
MALFORMED = {
    "not JSON": (b"{", InvalidMessage, "not JSON"),
    "not an object": (b"[]", InvalidMessage, "object"),
    "NaN": (b'{"version": NaN}', InvalidMessage, "NaN"),
    "a key twice": (b'{"task": "a", "task": "b"}', InvalidMessage, "twice"),
    "no version": (b"{}", UnknownVersion, "version"),
    "another version": (b'{"version": 2}', UnknownVersion, "version"),
    "no fields": (b'{"version": 1}', InvalidMessage, "Field required"),
    "deep": (b"[" * 100_000, InvalidMessage, "not JSON"),
}


def test_malformed_results(about):
    world, site, task, _ = about
    for body, error, match in MALFORMED.values():
        refused(world, site, task.id, error, body, match)


def test_an_oversized_result(world_of, sqlite_url):
    world = world_of(sqlite_url, largest_result=1 << 16)
    world.begin()
    site = world.sites["main"]
    task = site.next()
    refused(world, site, task.id, BodyTooLarge, b" " * (1 << 17))


def test_models_that_do_not_fit(about):
    world, site, task, result = about

    def weights(payload):
        return payload["groups"][0]["weights"]

    changes = {
        "NaN weights": (lambda p: weights(p).__setitem__(0, float("nan")), "NaN"),
        "infinite weights": (lambda p: weights(p).__setitem__(0, float("inf")), "Infinity"),
        "wrong shape": (lambda p: weights(p).pop(), "scale|weights"),
        "off the grid": (lambda p: weights(p).__setitem__(0, weights(p)[0] + 1e-9), "grid"),
        "another study": (lambda p: p.update(study_hash="0" * 64), "another study"),
        "another method": (lambda p: p.update(method="direct"), "asks for simcomb"),
        "another role": (lambda p: p.update(role="target"), "made as target"),
        "a cheaper story": (lambda p: p["release"].update(epsilon=0.1), "description"),
        "a seed": (lambda p: p["release"].update(seeded=True), "seeded"),
        "records it did not use": (lambda p: p.update(n=1), "records"),
        "inputs it did not have": (lambda p: p.update(inputs=["0" * 64]), "releases"),
    }
    for change, match in changes.values():
        release = resigned(site, result.release, change)
        refused(world, site, task.id, InvalidMessage, {**json.loads(result.canonical()), "release": release}, match)
    site.publish(result)


def test_a_release_on_more_records_than_there_are_numbers(about):
    world, site, task, result = about

    def change(payload):
        payload["release"]["parameters"]["n"] = 10**400

    release = resigned(site, result.release, change)
    refused(world, site, task.id, InvalidMessage, {**json.loads(result.canonical()), "release": release})


def test_a_seeded_release_is_refused(about):
    world, site, task, _ = about
    release, _ = site.train(task, randomness=SeededRandomness(1))
    refused(world, site, task.id, InvalidMessage, ResultMessage(task=task.id, release=release).canonical(), "seeded")


def test_releases_that_their_party_did_not_sign(about):
    world, site, task, result = about
    whole = json.loads(result.canonical())
    stranger = keys.generate()
    swapped = base64.b64encode(base64.b64decode(result.release.payload)[:-1] + b" ").decode()
    wrong = [
        (Forged, resigned(site, result.release, lambda p: None, key=stranger), "did not sign"),
        (Forged, {**whole["release"], "payload": swapped}, "digest"),
        (Forged, {**whole["release"], "digest": "0" * 64}, "digest"),
        (Forged, {**whole["release"], "key_id": "0" * 32}, "no key"),
        (InvalidMessage, {**whole["release"], "party": "branch-1"}, "another party's"),
        (Forged, resigned(site, result.release, lambda p: p.update(party="branch-1")), "another party's"),
        (InvalidMessage, None, "releases a model"),
    ]
    for error, release, match in wrong:
        refused(world, site, task.id, error, {**whole, "release": release}, match)


def test_other_parties_tasks(about):
    world, site, task, result = about
    refused(world, world.sites["branch-1"], task.id, NotFound, result.canonical())
    refused(world, site, "no-such-task", InvalidMessage, result.canonical(), "another task")
    refused(world, site, "none", NotFound, result.model_copy(update={"task": "none"}).canonical())


def test_releases_that_were_not_paid_for(about):
    world, site, task, _ = about
    release, description = site.train(task)
    opened = site.lines[:1]

    def attempt(error, match, *bodies, cost=None, cells=None, study=None):
        site.lines, site.replay = list(opened), type(site.replay)()
        site.replay.take(opened[0])
        if cost or cells:
            site.charge(task, description, cost, cells)
        for body in bodies:
            site.append(body)
        lines = tuple(line.to_dict() for line in site.lines)
        refused(
            world, site, task.id, error, ResultMessage(task=task.id, release=release, lines=lines).canonical(), match
        )

    right, paid = ReleaseBody(task.id, release.digest), description.cost
    attempt(NotReserved, "no reservation")
    attempt(InvalidMessage, "does not name these bytes", cost=paid)
    attempt(InvalidMessage, "does not name these bytes", ReleaseBody(task.id, "0" * 64), cost=paid)
    attempt(InvalidMessage, "nano-epsilon were reserved", right, cost=Cost(paid.nano_epsilon - 1))
    attempt(InvalidMessage, "leaves out cells", right, cost=paid, cells=(0, 1))
    broken = {**opened[0].to_dict(), "hash": "0" * 64}
    message = {**json.loads(ResultMessage(task=task.id, release=release).canonical()), "lines": [broken]}
    refused(world, site, task.id, Malformed, message)


def test_a_target_must_learn_from_what_it_was_given(small):
    small.begin()
    small.sites["main"].work()
    site = small.sites["branch-1"]
    task = site.next()
    result = site.result(task)
    release = resigned(site, result.release, lambda p: p.update(inputs=["0" * 64]))
    refused(small, site, task.id, InvalidMessage, {**json.loads(result.canonical()), "release": release}, "came with")


def test_a_result_after_cancel_changes_nothing(ready):
    world, site, task, result = ready
    world.ask("lead", "POST", "/studies/demo/cancel", body={"reason": "Wrong label."})
    refused(world, site, task.id, TaskEnded, result.canonical(), r"cancelled: Wrong label\.")
    # The charge stands, and the mirror may learn of it.
    assert site.send_lines().head.sequence == 3


# -- what the certificate says of charges -----------------------------------------------------------------------------
def certified(world, study):
    """The certificate, verified, by party; and its text."""
    public_key = world.ask("lead", "GET", "/coordinator").json()["public_key"]
    path = f"/studies/{study.id}/certificate"
    certificate = verify_certificate(world.ask("auditor", "GET", path).body, public_key)
    return {party.party: party for party in certificate.parties}, certificate.text()


@pytest.mark.parametrize("end", ["cancel", "decline", "deadline"])
def test_a_charge_without_a_release_is_certified(small, end):
    study = small.begin(epsilon=0.25)
    site = small.sites["main"]
    task = site.next()
    site.result(task)
    site.send_lines(site.lines[:2])  # opened and reserved; the study ends before the release comes
    if end == "cancel":
        small.ask("lead", "POST", f"/studies/{study.id}/cancel", body={"reason": "Wrong label."})
    elif end == "decline":
        site.decline(task, "steward")
    else:
        small.pass_deadline(study)
        small.until(study, "failed")
    found, text = certified(small, study)
    assert found["main"].release is None
    assert found["main"].charged == CertifiedCharge(line=2, epsilon=0.25, delta=0.0)
    assert "charged    epsilon 0.25 to each person, nothing released (line 2)" in text


def test_a_task_that_was_not_charged_says_nothing_of_charges(small):
    study = small.begin()
    small.sites["main"].decline(small.sites["main"].next(), "steward")
    found, text = certified(small, study)
    assert found["main"].charged is None
    assert b"charged" not in found["main"].model_dump_json().encode()
    assert "charged " not in text


def test_what_was_charged_for_several_records_of_a_person_is_certified(small):
    study = small.begin(epsilon=0.125)
    site = small.sites["main"]
    task = site.next()
    release, description = site.train(task)
    site.charge(task, description, Cost(2 * description.cost.nano_epsilon))  # two records of a person at most
    site.append(ReleaseBody(task.id, release.digest))
    site.publish(ResultMessage(task=task.id, release=release, lines=tuple(line.to_dict() for line in site.lines)))
    small.sites["branch-1"].work()
    found, text = certified(small, study)
    assert (found["main"].release.epsilon, found["main"].charged.epsilon) == (0.125, 0.25)
    assert "cost       epsilon 0.125, to each record" in text
    assert "charged    epsilon 0.25 to each person, all records of one together (line 2)" in text


def test_certificates_from_before_charges_were_named_still_verify(small):
    study = small.begin()
    small.sites["main"].work()
    small.sites["branch-1"].work()
    data = small.ask("auditor", "GET", f"/studies/{study.id}/certificate").body
    old = json.loads(base64.b64decode(SignedCertificate.from_json(data).payload))
    for party in old["parties"]:
        del party["charged"]
    key = keys.generate()
    signed = SignedCertificate.sign(Certificate.from_data(old), key, party="coordinator")
    assert json.loads(base64.b64decode(signed.payload)) == old
    read_back = verify_certificate(signed.canonical(), keys.public_text(key))
    assert "charged " not in read_back.text()


# -- late -------------------------------------------------------------------------------------------------------------
@pytest.fixture
def behind(world):
    """A source that takes its time, in a study that needs one of two."""
    study = world.begin(sources=["main", "west"], quorum={"sources": 1})
    site = world.sites["west"]
    task = site.next()
    return world, study, site, task


def task_of(world, study, party):
    return next(task for task in world.show(study)["tasks"] if task["party"] == party)


@pytest.mark.parametrize("paid_before", [True, False])
def test_what_was_paid_for_is_taken_after_the_quorum_and_not_used(behind, paid_before):
    """Whether the mirror learned of the charge before the quorum or after it."""
    world, study, site, task = behind
    result = site.result(task)
    if paid_before:
        site.send_lines(site.lines[:2])  # opened and reserved
    world.sites["main"].work()
    assert task_of(world, study, "west")["state"] == ("leased" if paid_before else "cancelled")
    assert site.heartbeat(task)["cancelled"] is not paid_before
    site.send_lines(site.lines[:2])
    assert site.heartbeat(task)["cancelled"] is False  # it has paid: it may finish
    assert [waited["party"] for waited in world.show(study)["late"]] == ["branch-1"]
    first = site.publish(result)
    assert site.publish(result) == first
    shown = task_of(world, study, "west")
    assert (shown["state"], shown["release"]) == ("late", result.release.digest)
    with pytest.raises(TaskEnded):
        site.decline(task)
    target = world.sites["branch-1"].next()
    assert [release.party for release in target.inputs] == ["main"]
    world.sites["branch-1"].publish(world.sites["branch-1"].result(target))
    assert world.show(study)["state"] == "complete"
    text = world.ask("auditor", "GET", f"/studies/{study.id}/certificate", params={"form": "text"}).body.decode()
    assert "west (train-source): late" in text
    assert result.release.digest in text


def test_what_was_not_paid_for_ends_with_the_quorum(behind):
    world, study, site, task = behind
    site.send_lines()
    world.sites["main"].work()
    assert task_of(world, study, "west")["state"] == "cancelled"
    assert site.heartbeat(task)["cancelled"]
    release, _ = site.train(task)
    refused(world, site, task.id, NotReserved, ResultMessage(task=task.id, release=release).canonical())


def test_after_the_end_nothing_is_late(behind):
    """The certificate has been signed: it says all that was released."""
    world, study, site, task = behind
    result = site.result(task)
    site.send_lines(site.lines[:2])
    world.sites["main"].work()
    world.sites["branch-1"].work()
    assert world.show(study)["state"] == "complete"
    assert site.heartbeat(task)["cancelled"]
    refused(world, site, task.id, TaskEnded, result.canonical(), "cancelled")


def test_a_source_that_paid_and_fell_silent_is_given_its_task_again(world_of, url):
    world = world_of(url)
    study = world.begin(sources=["main", "west"], quorum={"sources": 1})
    site = world.sites["west"]
    result = site.result(site.next())
    site.send_lines(site.lines[:2])
    world.sites["main"].work()
    world.expire_leases()
    again = site.next(wait=120)
    assert again.id == result.task
    site.publish(result)
    assert task_of(world, study, "west")["state"] == "late"


def test_a_declined_task_takes_no_result(about):
    world, site, task, result = about
    site.decline(task, "steward", "Not this year.")
    refused(world, site, task.id, TaskEnded, result.canonical(), "declined: steward: Not this year.")
    shown = world.ask("lead", "GET", "/studies/demo").json()
    assert shown["state"] == "failed"
    assert "main (declined: steward: Not this year.)" in shown["cause"]


def test_what_is_done_cannot_be_declined(about):
    world, site, task, result = about
    site.publish(result)
    before = everything(world)
    with pytest.raises(TaskEnded):
        site.decline(task)
    assert everything(world) == before


def test_heartbeats_of_another_attempt(about):
    world, site, task, _ = about
    assert site.heartbeat(task, 0.35) == {
        "task": task.id,
        "state": "leased",
        "cancelled": False,
        "cause": "",
        "lease_seconds": world.settings["lease_seconds"],
    }
    shown = world.ask("lead", "GET", "/studies/demo").json()["tasks"][0]
    assert shown["progress"] == 0.35
    with pytest.raises(Conflict, match="Attempt 1"):
        site.heartbeat(task, attempt=2)
    with pytest.raises(InvalidMessage, match="another task"):
        site.call("POST", "/v1/tasks/other/heartbeat", body=b'{"version":1,"task":"x","progress":0.5}')
