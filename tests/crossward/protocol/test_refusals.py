"""Whatever is not exactly as the page says is refused, and the refusal names the field."""

import copy
import json
import re
from pathlib import Path

import pytest

from crossward.errors import InvalidMessage, UnknownVersion
from crossward.protocol.canonical import canonical
from crossward.protocol.certificate import Certificate, SignedCertificate
from crossward.protocol.envelopes import SignedReceipt, SignedRelease
from crossward.protocol.messages import ModelMessage, Receipt
from crossward.protocol.tasks import DeclineMessage, HeartbeatMessage, ResultMessage, TaskMessage

BUNDLE = Path(__file__).parents[3] / "docs" / "vectors" / "bundle"


def envelope(folder):
    return sorted((BUNDLE / folder).iterdir())[0].read_bytes()


RELEASE = SignedRelease.from_json(envelope("releases"))
RECEIPT = SignedReceipt.from_json(envelope("receipts"))
CERTIFICATE = SignedCertificate.from_json((BUNDLE / "certificate.json").read_bytes())
STUDY = (BUNDLE / "study.json").read_text()
LINE = (BUNDLE / "ledgers" / "main.txt").read_text().splitlines()[0][65:]

GOOD = {
    SignedRelease: RELEASE,
    SignedReceipt: RECEIPT,
    SignedCertificate: CERTIFICATE,
    ModelMessage: RELEASE.content(),
    Receipt: RECEIPT.content(),
    Certificate: CERTIFICATE.content(),
    TaskMessage: TaskMessage(
        id="t", kind="train-target", study=STUDY, study_hash="0" * 64, inputs=(RELEASE,), lease_seconds=60.5, lead="ada"
    ),
    ResultMessage: ResultMessage(task="t", release=RELEASE, lines=(LINE,)),
    HeartbeatMessage: HeartbeatMessage(task="t", progress=0.5, note="at work"),
    DeclineMessage: DeclineMessage(task="t", reason="policy", text="No."),
}

FREE_TEXTS = {"title", "purpose", "cause", "method", "mechanism", "neighbours", "code_version", "id", "proofs"}
FREE_TEXTS |= {"text", "note", "lead", "study", "lines", "task", "party"}
"""Texts that may say something else; what they may say is asked elsewhere."""


def leaves(value, path=()):
    """Every value inside, with the way to it. What a release says of itself is read in `test_wire.py`."""
    if isinstance(value, dict):
        yield path, value
        for key, inside in value.items():
            if key != "release" or "weights" not in value:
                yield from leaves(inside, (*path, key))
    elif isinstance(value, list):
        yield path, value
        for index, inside in enumerate(value[:2]):
            yield from leaves(inside, (*path, index))
    else:
        yield path, value


def changed(data, path, value):
    data = copy.deepcopy(data)
    inside = data
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = value
    return data


def wrong(path, value):
    """Other things in the place of a value: each of another type, out of range, or spelled otherwise."""
    if isinstance(value, dict):
        yield from ([], "x", 1, value | {"unknown": 1})
        for key in value:
            yield {name: inside for name, inside in value.items() if name != key}
    elif isinstance(value, list):
        yield from ({}, "x", 1, None)
    elif isinstance(value, bool) or value is None:
        yield from (1, 0.5, {}, [])
    elif isinstance(value, int):
        yield from (str(value), value + 0.5, -1.5, True, [], {}, 1e300)
        if path[-1] != "atto_delta":  # in bytes this is a text
            yield 2**60
    elif isinstance(value, float):
        yield from (str(value), True, -1, [], {})
    else:
        yield from (1, True, [], {}, [value])
        if path[-1] not in FREE_TEXTS and not isinstance(path[-1], int):
            yield from (value + " ", "", value.upper() + "!")


@pytest.mark.parametrize("kind", GOOD, ids=lambda kind: kind.__name__)
def test_every_field_is_what_the_page_says_or_is_refused_by_name(kind):
    good = json.loads(GOOD[kind].canonical())
    assert kind.from_data(good) == GOOD[kind]
    tried = 0
    for path, value in leaves(good):
        for other in wrong(path, value):
            data = changed(good, path, other) if path else other
            with pytest.raises(InvalidMessage) as caught:
                kind.from_data(data)
            tried += 1
            names = [step for step in path if isinstance(step, str)][-1:]
            if isinstance(other, dict) and isinstance(value, dict):
                names += value.keys() ^ other.keys()
            if names and not isinstance(caught.value, UnknownVersion):
                assert any(name in str(caught.value) for name in names), (path, other, str(caught.value))
    assert tried > 20


@pytest.mark.parametrize("kind", GOOD, ids=lambda kind: kind.__name__)
def test_other_spellings_of_the_same_message_are_refused(kind):
    data = json.loads(GOOD[kind].canonical())
    text = canonical(data).decode()
    assert kind.from_json(text) == GOOD[kind]
    first = next(iter(sorted(data)))
    spellings = {
        "blanks": json.dumps(data),
        "indented": json.dumps(data, indent=1, sort_keys=True),
        "a line break": text + "\n",
        "another order": json.dumps(dict(sorted(data.items(), reverse=True)), separators=(",", ":")),
        "a key twice": text.replace("{", f'{{"{first}":{json.dumps(data[first], separators=(",", ":"))},', 1),
        "escaped letters": text.replace(f'"{first}"', f'"\\u{ord(first[0]):04x}{first[1:]}"', 1),
        "a byte order mark": "\ufeff" + text,
    }
    if "version" in data:
        spellings["a number with a point"] = re.sub(r'"version":(\d+)', r'"version":\1.0', text)
    for spelling in spellings.values():
        assert spelling != text
        with pytest.raises(InvalidMessage):
            kind.from_json(spelling)


def test_a_million_faults_are_one_refusal():
    """A list ends at its first fault: an error for each would fill the memory."""
    data = json.loads(GOOD[ModelMessage].canonical())
    data["weights"] = [{"grid": 0, "steps": [""] * 10_000}] * 100
    with pytest.raises(InvalidMessage, match=r"weights\.0\.steps\.0: ") as caught:
        ModelMessage.from_data(data)
    assert "more" not in str(caught.value)


def test_a_changed_copy_has_nothing_of_what_was_read():
    other = json.loads(RECEIPT.canonical())["payload"]
    copied = RELEASE.model_copy(update={"payload": other})
    assert copied.digest == RECEIPT.digest != RELEASE.digest
    with pytest.raises(InvalidMessage):
        copied.content()


@pytest.mark.parametrize("state", ["draft", "sources", "targets"])
def test_a_certificate_is_of_what_has_ended(state):
    with pytest.raises(InvalidMessage, match="outcome"):
        Certificate.from_data(json.loads(GOOD[Certificate].canonical()) | {"outcome": state})
