"""Nothing that is not right is taken, and a refusal changes nothing."""

import base64
import json

import pytest

from crossward.errors import (
    BodyTooLarge,
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
from crossward.protocol.canonical import canonical
from crossward.protocol.envelopes import SignedReceipt, to_sign
from crossward.protocol.ledger.lines import ReleaseBody
from crossward.protocol.tasks import ResultMessage


def resigned(site, release, change, key=None):
    """The release with its payload changed, signed anew by the party itself."""
    payload = json.loads(base64.b64decode(release.payload))
    change(payload)
    data = canonical(payload)
    for name in ("NaN", "Infinity", "1" + "0" * 400):  # what RFC 8785 does not write
        data = data.replace(f'"{name}"'.encode(), name.encode())
    signature = (key or site.key).sign(to_sign(release.payloadType, data))
    return {
        **release.model_dump(mode="json"),
        "payload": base64.b64encode(data).decode(),
        "signatures": [{"keyid": release.key_id, "sig": base64.b64encode(signature).decode()}],
    }


MALFORMED = {
    "not JSON": (b"{", InvalidMessage, "not JSON"),
    "not an object": (b"[]", InvalidMessage, "object"),
    "NaN": (b'{"version": NaN}', InvalidMessage, "NaN"),
    "a key twice": (b'{"task": "a", "task": "b"}', InvalidMessage, "twice"),
    "no version": (b"{}", UnknownVersion, "version"),
    "another version": (b'{"version":2}', UnknownVersion, "version"),
    "no fields": (b'{"version":1}', InvalidMessage, "lacks lines, release, task"),
    "deep": (b"[" * 100_000, InvalidMessage, "not JSON"),
}


def test_malformed_results(about):
    world, site, task, _ = about
    for body, error, match in MALFORMED.values():
        world.refuses(site, task.id, error, body, match)


def test_an_oversized_result(world_of, sqlite_url):
    world = world_of(sqlite_url, largest_result=1 << 16)
    world.begin()
    site = world.sites["main"]
    task = site.next()
    world.refuses(site, task.id, BodyTooLarge, b" " * (1 << 17))


def test_models_that_do_not_fit(about):
    world, site, task, result = about

    def weights(payload):
        return payload["weights"][0]["steps"]

    changes = {
        "NaN weights": (lambda p: weights(p).__setitem__(0, "NaN"), "NaN"),
        "infinite weights": (lambda p: weights(p).__setitem__(0, "Infinity"), "Infinity"),
        "wrong shape": (lambda p: weights(p).pop(), "scale|weights"),
        "between two steps": (lambda p: weights(p).__setitem__(0, weights(p)[0] + 0.5), "steps"),
        "another grid": (lambda p: p["weights"][0].update(grid=p["weights"][0]["grid"] - 1), "grid"),
        "another study": (lambda p: p.update(study_hash="0" * 64), "another study"),
        "another method": (lambda p: p.update(method="direct"), "asks for simcomb"),
        "another task": (lambda p: p.update(kind="train-target"), "is of train-target"),
        "a cheaper story": (lambda p: p["release"].update(nano_epsilon=10**8), "description"),
        "a seed": (lambda p: p["release"].update(seeded=True), "seeded"),
        "records it did not use": (lambda p: p.update(n=1), "records"),
        "inputs it did not have": (lambda p: p.update(inputs=["0" * 64]), "releases"),
    }
    for change, match in changes.values():
        release = resigned(site, result.release, change)
        world.refuses(site, task.id, InvalidMessage, {**json.loads(result.canonical()), "release": release}, match)
    site.publish(result)


def test_a_release_on_more_records_than_there_are_numbers(about):
    world, site, task, result = about

    def change(payload):
        payload["release"]["parameters"]["n"] = "1" + "0" * 400

    release = resigned(site, result.release, change)
    world.refuses(site, task.id, InvalidMessage, {**json.loads(result.canonical()), "release": release})


def test_a_seeded_release_is_refused(about):
    world, site, task, _ = about
    release, _ = site.train(task, randomness=SeededRandomness(1))
    world.refuses(site, task.id, InvalidMessage, ResultMessage(task=task.id, release=release).canonical(), "seeded")


def test_releases_that_their_party_did_not_sign(about):
    world, site, task, result = about
    whole = json.loads(result.canonical())
    stranger = keys.generate()
    whole_payload, [signature] = base64.b64decode(result.release.payload), whole["release"]["signatures"]
    spaced = base64.b64encode(whole_payload[:-1] + b" }").decode()
    other = base64.b64encode(whole_payload.replace(b'"n":', b'"n":1')).decode()
    wrong = [
        (Forged, resigned(site, result.release, lambda p: None, key=stranger), "did not sign"),
        (Forged, {**whole["release"], "payload": other}, "did not sign"),
        (InvalidMessage, {**whole["release"], "payload": spaced}, "canonical"),
        (InvalidMessage, {**whole["release"], "payloadType": SignedReceipt.payload_type}, "payloadType"),
        (InvalidMessage, {**whole["release"], "signatures": [signature] * 2}, "signatures"),
        (Forged, {**whole["release"], "signatures": [{**signature, "keyid": "0" * 16}]}, "no key"),
        (InvalidMessage, resigned(site, result.release, lambda p: p.update(party="branch-1")), "another party's"),
        (InvalidMessage, None, "releases a model"),
    ]
    for error, release, match in wrong:
        world.refuses(site, task.id, error, {**whole, "release": release}, match)


def test_other_parties_tasks(about):
    world, site, task, result = about
    world.refuses(world.sites["branch-1"], task.id, NotFound, result.canonical())
    world.refuses(site, "no-such-task", InvalidMessage, result.canonical(), "another task")
    world.refuses(site, "none", NotFound, result.model_copy(update={"task": "none"}).canonical())


def test_releases_that_were_not_paid_for(about):
    world, site, task, _ = about
    release, description = site.train(task)
    opened = site.lines[:2]

    def attempt(error, match, *bodies, cost=None, cells=None, study=None):
        site.lines, site.replay = list(opened), type(site.replay)()
        for line in opened:
            site.replay.take(line)
        if cost or cells:
            site.charge(task, description, cost, cells)
        for body in bodies:
            site.append(body)
        lines = tuple(line.text for line in site.lines)
        world.refuses(
            site, task.id, error, ResultMessage(task=task.id, release=release, lines=lines).canonical(), match
        )

    right, paid = ReleaseBody(task.id, release.digest), description.cost
    attempt(NotReserved, "no reservation")
    attempt(InvalidMessage, "does not name these bytes", cost=paid)
    attempt(InvalidMessage, "does not name these bytes", ReleaseBody(task.id, "0" * 64), cost=paid)
    attempt(InvalidMessage, "nano-epsilon were reserved", right, cost=Cost(paid.nano_epsilon - 1))
    attempt(InvalidMessage, "leaves out cells", right, cost=paid, cells=(0, 1))
    spaced = opened[0].text.replace(":", ": ")
    message = {**json.loads(ResultMessage(task=task.id, release=release).canonical()), "lines": [spaced]}
    world.refuses(site, task.id, Malformed, message)


def test_a_target_must_learn_from_what_it_was_given(small):
    small.begin()
    small.sites["main"].work()
    site = small.sites["branch-1"]
    task = site.next()
    result = site.result(task)
    release = resigned(site, result.release, lambda p: p.update(inputs=["0" * 64]))
    small.refuses(site, task.id, InvalidMessage, {**json.loads(result.canonical()), "release": release}, "came with")


def test_a_result_after_cancel_changes_nothing(ready):
    world, site, task, result = ready
    world.ask("lead", "POST", "/studies/demo/cancel", body={"reason": "Wrong label."})
    world.refuses(site, task.id, TaskEnded, result.canonical(), r"cancelled: Wrong label\.")
    # The charge stands, and the mirror may learn of it.
    assert site.send_lines().head.sequence == 4


def test_a_declined_task_takes_no_result(about):
    world, site, task, result = about
    site.decline(task, "steward", "Not this year.")
    world.refuses(site, task.id, TaskEnded, result.canonical(), "declined: steward: Not this year.")
    shown = world.ask("lead", "GET", "/studies/demo").json()
    assert shown["state"] == "failed"
    assert "main (declined: steward: Not this year.)" in shown["cause"]


def test_what_is_done_cannot_be_declined(about):
    world, site, task, result = about
    site.publish(result)
    before = world.stored()
    with pytest.raises(TaskEnded):
        site.decline(task)
    assert world.stored() == before
