"""The stored vectors, read by the library; `test_verifier.py` reads the same ones with the verifier."""

import base64
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bundles import key_of
from crossward.errors import ChainBroken, InvalidMessage
from crossward.privacy.budget import Budget
from crossward.privacy.filters import ZcdpFilter
from crossward.protocol import keys
from crossward.protocol.canonical import canonical, read_canonical, sha256
from crossward.protocol.certificate import SignedCertificate, verify_certificate
from crossward.protocol.envelopes import SignedReceipt, SignedRelease, to_sign
from crossward.protocol.ledger.chain import verify
from crossward.protocol.ledger.export import verify_file
from crossward.protocol.ledger.lines import Line
from crossward.study import Study
from crossward.study.wire import check_message, to_model
from crossward_service.http.signing import PartyKey, content_digest, verify_body, verify_head

VECTORS = Path(__file__).parents[3] / "docs" / "vectors"
KINDS = {kind.payload_type: kind for kind in (SignedRelease, SignedReceipt, SignedCertificate)}


def load(name):
    return json.loads((VECTORS / name).read_text())


def test_canonical_bytes_are_taken():
    for case in load("canonical.json")["taken"]:
        data = base64.b64decode(case["bytes"])
        assert data.decode() == case["text"]
        assert canonical(read_canonical(data, 10**6)) == data


@pytest.mark.parametrize("case", load("canonical.json")["refused"], ids=lambda case: case["why"])
def test_other_bytes_are_refused(case):
    with pytest.raises(InvalidMessage):
        read_canonical(base64.b64decode(case["bytes"]), 10**6)


def test_keys():
    for case in load("keys.json"):
        key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(case["seed"]))
        assert keys.public_text(key) == keys.public_text(key_of(case["party"])) == case["public_key"]
        assert keys.key_id(key) == case["key_id"]


@pytest.mark.parametrize("case", load("envelopes.json"), ids=lambda case: case["digest"][:8])
def test_envelopes(case):
    data = json.loads(case["envelope"])
    signed = KINDS[data["payloadType"]].from_json(case["envelope"])
    content = signed.verify(key_of(case["signer"]).public_key())
    assert content.payload == case["payload"].encode()
    assert content.canonical() == content.payload
    assert signed.digest == content.digest == case["digest"] == sha256(content.payload)
    assert to_sign(signed.payloadType, content.payload) == base64.b64decode(case["signed_bytes"])
    assert type(signed).sign(content, key_of(case["signer"])).canonical().decode() == case["envelope"]


@pytest.mark.parametrize("case", load("ledger.json")["taken"], ids=lambda case: case["what"])
def test_chains_that_hold(case):
    lines = [Line.from_text(text) for text in case["lines"]]
    assert [line.hash for line in lines] == case["hashes"]
    assert verify(lines).head == lines[-1].head


@pytest.mark.parametrize("case", load("ledger.json")["refused"], ids=lambda case: case["why"])
def test_chains_that_do_not(case):
    with pytest.raises(ChainBroken) as caught:
        verify(Line.from_text(text) for text in case["lines"])
    assert caught.value.line == case["line"]


def test_zcdp_limits():
    for case in load("zcdp.json"):
        assert ZcdpFilter(Budget(case["nano_epsilon"], int(case["atto_delta"]))).limit == int(case["limit"])


def test_signed_requests():
    class Once:
        def seen(self, party, key_id, nonce, expires):
            return False

    public = PartyKey(keys.public_text(key_of("main")))
    for case in load("requests.json"):
        headers = {name.lower(): value for name, value in case["headers"].items()}
        assert headers["content-digest"] == content_digest(case["body"].encode())
        where = {"method": case["method"], "path": case["path"], "query": case["query"]}
        now = 1_769_860_800
        head = verify_head(**where, headers=headers, key_of=lambda *_: public, now=now)
        who = verify_body(head, case["body"].encode(), nonces=Once(), now=now)
        assert who == "main"


@pytest.mark.parametrize("name", ["bundle", "bundle-aggregate"])
def test_bundles(name):
    folder = VECTORS / name
    study = Study.from_canonical((folder / "study.json").read_bytes())
    certificate = verify_certificate(
        (folder / "certificate.json").read_bytes(), keys.public_text(key_of("coordinator"))
    )
    assert certificate.study_hash == study.digest
    assert (folder / "certificate.txt").read_text() == certificate.text()
    assert len(certificate.parties) == 3 + study.method.aggregates
    read = {}
    for party in certificate.parties:
        if party.release is not None:
            path = folder / "releases" / f"{party.release.digest}.json"
            message = SignedRelease.from_json(path.read_bytes()).verify(key_of(party.party).public_key())
            check_message(study, message)
            read[message.digest] = message
            assert to_model(study, message, [read[digest] for digest in message.inputs]) is not None
        if party.head.sequence:
            verify_file(folder / "ledgers" / f"{party.party}.txt", party.head)
