"""Signatures and the messages around tasks."""

import base64
import hashlib
import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from crossward.errors import Forged, InvalidMessage, UnknownVersion
from crossward.privacy.noise import SYSTEM
from crossward.protocol.constants import Role, TaskKind
from crossward.protocol.envelopes import Signature, SignedReceipt, SignedRelease
from crossward.protocol.keys import key_id
from crossward.protocol.ledger.lines import START, Head, Line, ReleaseBody
from crossward.protocol.messages import ModelMessage, Receipt
from crossward.protocol.tasks import DeclineMessage, HeartbeatMessage, ResultMessage, TaskMessage
from crossward.study import Study, study_for
from crossward.study.wire import open_inputs, open_study, task_message, to_message
from crossward.study.work import train

EXAMPLE = Path(__file__).with_name("first_example.yaml").read_text()


@pytest.fixture(scope="module")
def key():
    return Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


@pytest.fixture(scope="module")
def study(federation):
    return study_for(federation.schema, method="simcomb")


@pytest.fixture(scope="module")
def message(study, federation, rows):
    trained = train(study, Role.SOURCE, *rows(study, Role.SOURCE, federation.main), randomness=SYSTEM)
    return to_message(study, trained, "main")


@pytest.fixture(scope="module")
def signed(message, key):
    return SignedRelease.sign(message, key)


def test_what_was_signed_is_what_arrives(signed, message, key):
    arrived = SignedRelease.from_json(signed.canonical())
    assert arrived == signed
    assert arrived.verify(key.public_key()) == message
    assert arrived.digest == message.digest
    assert arrived.key_id == key_id(key)


def test_signing_again_gives_the_same_bytes(signed, message, key):
    assert SignedRelease.sign(message, key).canonical() == signed.canonical()


def test_another_key(signed):
    other = Ed25519PrivateKey.generate()
    with pytest.raises(Forged, match=f"names the key {signed.key_id}"):
        signed.verify(other.public_key())
    claimed = signed.model_copy(update={"signatures": (Signature(keyid=key_id(other), sig=signed.signatures[0].sig),)})
    with pytest.raises(Forged, match="did not sign"):
        claimed.verify(other.public_key())


def _repacked(signed, payload):
    return SignedRelease.from_data(json.loads(signed.canonical()) | {"payload": base64.b64encode(payload).decode()})


def _resigned(signed, sig):
    return signed.model_copy(update={"signatures": (Signature(keyid=signed.key_id, sig=sig),)})


def test_every_part_is_bound(signed, message, key):
    flipped = bytearray(base64.b64decode(signed.signatures[0].sig))
    flipped[3] ^= 1
    for forged in (
        _repacked(signed, message.payload.replace(b'"n":', b'"n":1')),
        signed.model_copy(update={"signatures": (Signature(keyid="0" * 16, sig=signed.signatures[0].sig),)}),
        _resigned(signed, base64.b64encode(bytes(flipped)).decode()),
        _resigned(signed, base64.b64encode(bytes(64)).decode()),
    ):
        with pytest.raises(Forged):
            forged.verify(key.public_key())


def test_the_signature_is_over_the_encoding_of_dsse(signed, message, key):
    kind, payload = signed.payloadType.encode(), message.canonical()
    encoded = b"DSSEv1 " + str(len(kind)).encode() + b" " + kind + b" " + str(len(payload)).encode() + b" " + payload
    key.public_key().verify(base64.b64decode(signed.signatures[0].sig), encoded)


def test_there_is_one_signature(signed):
    data = json.loads(signed.canonical())
    for signatures in ([], data["signatures"] * 2):
        with pytest.raises(InvalidMessage, match="signatures"):
            SignedRelease.from_data(data | {"signatures": signatures})
    with pytest.raises(InvalidMessage, match="extra"):
        SignedRelease.from_data(data | {"extra": 1})


def test_only_the_canonical_payload(message, key, signed):
    spaced = json.dumps(json.loads(message.canonical())).encode()
    with pytest.raises(InvalidMessage, match="canonical"):
        _repacked(signed, spaced).content()


def test_a_message_is_named_by_the_bytes_that_came(message, signed):
    arrived = SignedRelease.from_json(signed.canonical()).content()
    assert arrived.payload == base64.b64decode(signed.payload) == message.payload
    assert arrived.digest == hashlib.sha256(arrived.payload).hexdigest()


def test_inputs_are_verified_one_by_one(study, message, signed, key):
    asked = []

    def key_of(party, key_id):
        asked.append((party, key_id))
        return key.public_key()

    assert open_inputs(study, [signed], key_of) == (message,)
    assert asked == [("main", signed.key_id)]
    with pytest.raises(InvalidMessage, match="two releases"):
        open_inputs(study, [signed, signed], key_of)
    with pytest.raises(Forged):
        open_inputs(study, [signed], lambda party, key_id: Ed25519PrivateKey.generate().public_key())
    with pytest.raises(InvalidMessage, match="another study"):
        open_inputs(study.model_copy(update={"title": "Other"}), [signed], key_of)


@pytest.mark.parametrize("text", ["%%%", "YQ", "YR==", "YQ==\n"])
def test_base64_has_one_form(signed, text):
    with pytest.raises(InvalidMessage, match="base64"):
        SignedRelease.from_data(json.loads(signed.canonical()) | {"payload": text})


def receipt(**changes):
    values = {
        "party": "main",
        "task": "t-1",
        "release": "a" * 64,
        "head": Head(sequence=3, hash="b" * 64),
        "time": datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC),
    }
    return Receipt(**(values | changes))


def test_receipts(key):
    signed = SignedReceipt.sign(receipt(), key)
    assert SignedReceipt.from_json(signed.canonical()).verify(key.public_key()) == receipt()
    tomorrow_there = receipt().time.astimezone(timezone(timedelta(hours=9)))
    assert receipt(time=tomorrow_there).canonical() == receipt().canonical()
    assert Receipt.from_json(receipt(release=None).canonical()).release is None
    written = json.loads(receipt().canonical())
    assert written["time"] == "2026-01-02T03:04:05.000678Z"
    for other in ("2026-01-02T03:04:05", "2026-01-02T03:04:05.000678+00:00", "2026-01-02 03:04:05.000678Z", 1767323045):
        with pytest.raises(InvalidMessage, match="time"):
            Receipt.from_data(written | {"time": other})
    for head in ({"sequence": "3", "hash": "b" * 64}, {"sequence": 3, "hash": "b" * 64, "more": 1}, [3, "b" * 64]):
        with pytest.raises(InvalidMessage, match="head"):
            Receipt.from_data(written | {"head": head})


def test_a_receipt_is_no_release(key):
    """The same envelope signed for another purpose does not verify."""
    signed = SignedReceipt.sign(receipt(), key)
    with pytest.raises(InvalidMessage, match=r"payloadType.*receipt.*release"):
        SignedRelease.from_json(signed.canonical())
    renamed = json.loads(signed.canonical()) | {"payloadType": SignedRelease.payload_type}
    with pytest.raises(Forged, match="did not sign"):
        SignedRelease.from_data(renamed).verify(key.public_key())


def test_tasks_carry_their_study(study, signed):
    task = task_message(study, id="s-1:train-target:b", kind=TaskKind.TRAIN_TARGET, lease_seconds=60, inputs=(signed,))
    back = TaskMessage.from_json(task.canonical())
    assert back == task
    assert open_study(back) == study
    assert open_study(back).digest == study.digest
    other = Study.from_yaml(EXAMPLE)
    with pytest.raises(InvalidMessage, match="hash"):
        open_study(back.model_copy(update={"study": other.canonical().decode()}))
    spaced = json.dumps(json.loads(task.study))
    named = hashlib.sha256(spaced.encode()).hexdigest()
    with pytest.raises(InvalidMessage, match="canonical"):
        open_study(back.model_copy(update={"study": spaced, "study_hash": named}))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"kind": "train"}, "kind"),
        ({"id": "a b"}, "id"),
        ({"id": ""}, "id"),
        ({"attempt": 0}, "attempt"),
        ({"lease_seconds": 0}, "lease_seconds"),
        ({"study_hash": "x"}, "study_hash"),
        ({"inputs": [{"payload": "YQ=="}]}, "inputs.0"),
    ],
)
def test_malformed_tasks(study, change, field):
    task = task_message(study, id="t", kind=TaskKind.TRAIN_SOURCE, lease_seconds=60)
    with pytest.raises(InvalidMessage, match=field):
        TaskMessage.from_data(json.loads(task.canonical()) | change)


def test_results(signed):
    line = Line.after(START, ReleaseBody("t", "1" * 64), 5)
    result = ResultMessage(task="t", release=signed, lines=(line.text,))
    assert ResultMessage.from_json(result.canonical()) == result
    assert ResultMessage.from_json(ResultMessage(task="t", release=None).canonical()).release is None
    with pytest.raises(InvalidMessage, match="lines"):
        ResultMessage.from_data({"version": 1, "task": "t", "release": None, "lines": [line.values]})
    with pytest.raises(InvalidMessage, match="release"):
        ResultMessage.from_data({"version": 1, "task": "t", "lines": []})


def test_heartbeats_and_refusals():
    beat = HeartbeatMessage(task="t", progress=0.5, note="solving")
    assert HeartbeatMessage.from_json(beat.canonical()) == beat
    plain = json.loads(beat.canonical())
    for progress in (-0.1, 1.1, "0.5", None, True):
        with pytest.raises(InvalidMessage, match="progress"):
            HeartbeatMessage.from_data(plain | {"progress": progress})
    decline = DeclineMessage(task="t", reason="budget", text="The lifetime budget is spent.")
    assert DeclineMessage.from_json(decline.canonical()) == decline
    plain = json.loads(decline.canonical())
    with pytest.raises(InvalidMessage, match="reason"):
        DeclineMessage.from_data(plain | {"reason": "mood"})
    with pytest.raises(InvalidMessage, match="text"):
        DeclineMessage.from_data(plain | {"text": "\x1b[31mred"})


@pytest.mark.parametrize("kind", [TaskMessage, ResultMessage, HeartbeatMessage, DeclineMessage, Receipt, ModelMessage])
def test_every_message_has_a_version(kind):
    with pytest.raises(UnknownVersion, match=rf"{kind.__name__} is of version 99 .* Upgrade this side"):
        kind.from_data({"version": 99})
    for version in (None, 0, -1, "1", 1.0, True):
        with pytest.raises(UnknownVersion, match="no version"):
            kind.from_data({"version": version})
    with pytest.raises(UnknownVersion, match="no version"):
        kind.from_json(b"{}")


def test_a_field_left_out_is_not_a_default():
    """Else one meaning would have two digests."""
    written = json.loads(HeartbeatMessage(task="t", progress=0.5).canonical())
    for name in written.keys() - {"version"}:
        with pytest.raises(InvalidMessage, match=name):
            HeartbeatMessage.from_data({key: value for key, value in written.items() if key != name})
