"""Signatures: the RFC's own example, a round trip for anything, and a refusal for every change."""

import base64
import runpy
import threading
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from crossward.errors import Expired, InvalidSetting, KeyRevoked, Replayed, UnknownParty, Unsigned, WrongSignature
from crossward.protocol import keys
from crossward_service.http.signing import (
    PartyKey,
    Signer,
    content_digest,
    signature_base,
    verify_body,
    verify_head,
)

MemoryNonces = runpy.run_path(str(Path(__file__).with_name("memory_nonces.py")))["MemoryNonces"]

NOW = 1_800_000_000
KEY = keys.generate()
ENROLLED = {("ward-7", keys.key_id(KEY)): PartyKey(keys.public_text(KEY))}

paths = st.text("abcXYZ019-._~%/", max_size=30).map("/".__add__)
queries = st.text("abc=&%20+?/", max_size=30)
bodies = st.binary(max_size=200)
methods = st.sampled_from(["GET", "POST", "PUT", "DELETE"])


def verify_request(*, body, key_of, nonces, now, **head):
    """Head and body at once, as a service meets them one after the other."""
    return verify_body(verify_head(**head, key_of=key_of, now=now), body, nonces=nonces, now=now)


def signed(method="POST", path="/v1/x", query="a=1", body=b"{}", *, at=NOW, party="ward-7", key=KEY):
    headers = Signer(party, keys.key_id(key), key, clock=lambda: at).headers(method, path, query, body)
    lowered = {name.lower(): value for name, value in headers.items()}
    return {"method": method, "path": path, "query": query, "body": body, "headers": lowered}


def verify(request, *, now=NOW, nonces=None, enrolled=None):
    lookup = ENROLLED if enrolled is None else enrolled
    store = nonces or MemoryNonces(lambda: now)
    return verify_request(**request, key_of=lambda party, key_id: lookup.get((party, key_id)), nonces=store, now=now)


def test_rfc_9421_b_2_6():
    """The published key, signature base and signature of the Ed25519 example."""
    seed = base64.urlsafe_b64decode("n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU=")
    components = [
        ("date", "Tue, 20 Apr 2021 02:07:55 GMT"),
        ("@method", "POST"),
        ("@path", "/foo"),
        ("@authority", "example.com"),
        ("content-type", "application/json"),
        ("content-length", "18"),
    ]
    covered = " ".join(f'"{name}"' for name, _ in components)
    base = signature_base(components, f'({covered});created=1618884473;keyid="test-key-ed25519"')
    published = "wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw=="
    assert base64.b64encode(Ed25519PrivateKey.from_private_bytes(seed).sign(base)).decode() == published


def test_rfc_9530_digest():
    """The published digest of the example body, and of no body."""
    assert content_digest(b'{"hello": "world"}\n') == "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:"
    assert content_digest(b"") == "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:"


@given(methods, paths, queries, bodies)
def test_what_was_signed_verifies(method, path, query, body):
    assert verify(signed(method, path, query, body)) == "ward-7"


@given(methods, paths, queries, bodies, st.data())
def test_any_changed_component_is_refused(method, path, query, body, data):
    request = signed(method, path, query, body)
    part, other = data.draw(
        st.one_of(
            st.tuples(st.just("method"), methods.filter(lambda m: m != method)),
            st.tuples(st.just("path"), paths.filter(lambda p: p != path)),
            st.tuples(st.just("query"), queries.filter(lambda q: q != query)),
            st.tuples(st.just("body"), bodies.filter(lambda b: b != body)),
        )
    )
    with pytest.raises(WrongSignature):
        verify({**request, part: other})
    if part == "body":  # and the digest changed to fit
        with pytest.raises(WrongSignature):
            verify(
                {**request, "body": other, "headers": {**request["headers"], "content-digest": content_digest(other)}}
            )


@pytest.mark.parametrize("name", ["signature", "signature-input", "content-digest"])
def test_any_changed_character_of_a_header_is_refused(name):
    """Every character, changed to every other: the rare ones are where a lenient reader takes two spellings for one."""
    request = signed()
    value = request["headers"][name]
    for at in range(len(value)):
        for char in map(chr, range(32, 127)):
            changed = value[:at] + char + value[at + 1 :]
            if changed == value:
                continue
            with pytest.raises((WrongSignature, UnknownParty)):
                verify({**request, "headers": {**request["headers"], name: changed}})


@pytest.mark.parametrize("suffix", ["\n", " ", ", b=()", ';tag="x"'])
def test_one_spelling_only(suffix):
    request = signed()
    for name in ("signature", "signature-input", "content-digest"):
        headers = {**request["headers"], name: request["headers"][name] + suffix}
        with pytest.raises(WrongSignature):
            verify({**request, "headers": headers})


@pytest.mark.parametrize("missing", ["signature", "signature-input"])
def test_unsigned(missing):
    request = signed()
    del request["headers"][missing]
    with pytest.raises(Unsigned):
        verify(request)


def test_another_partys_key_does_not_speak_for_this_one():
    other = keys.generate()
    with pytest.raises(UnknownParty):
        verify(signed(key=other))
    forged = signed(key=other)
    named = forged["headers"]["signature-input"].replace(keys.key_id(other), keys.key_id(KEY))
    with pytest.raises(WrongSignature):
        verify({**forged, "headers": {**forged["headers"], "signature-input": named}})


def test_a_revoked_key_is_named_as_such_to_its_holder_only():
    enrolled = {("ward-7", keys.key_id(KEY)): PartyKey(keys.public_text(KEY), revoked=True)}
    with pytest.raises(KeyRevoked):
        verify(signed(), enrolled=enrolled)
    with pytest.raises(WrongSignature):
        verify({**signed(), "path": "/other"}, enrolled=enrolled)


@pytest.mark.parametrize(("at", "said"), [(NOW - 301, "301 s behind"), (NOW + 301, "301 s ahead")])
def test_expired_says_by_how_much(at, said):
    with pytest.raises(Expired, match=said):
        verify(signed(at=at))
    verify(signed(at=NOW + 300))
    verify(signed(at=NOW - 300))


def test_a_replay_is_refused_for_as_long_as_it_would_be_fresh():
    clock = [NOW]
    nonces = MemoryNonces(lambda: clock[0])
    request = signed(at=NOW + 300)
    verify(request, nonces=nonces)
    for clock[0] in range(NOW, NOW + 601, 100):
        with pytest.raises(Replayed):
            verify(request, nonces=nonces, now=clock[0])
    clock[0] = NOW + 601
    with pytest.raises(Expired):
        verify(request, nonces=nonces, now=clock[0])


def test_a_body_that_is_held_back_is_refused():
    """Until its key was revoked, or until its nonce is forgotten and it would be taken twice."""
    request, nonces = signed(), MemoryNonces(lambda: NOW)
    body = request.pop("body")
    head = verify_head(**request, key_of=lambda party, key_id: ENROLLED.get((party, key_id)), now=NOW)
    with pytest.raises(Expired):
        verify_body(head, body, nonces=nonces, now=NOW + 301)
    with pytest.raises(WrongSignature):
        verify_body(head, body + b" ", nonces=nonces, now=NOW)
    nonces.revoked.add((head.party, head.key_id))
    with pytest.raises(KeyRevoked):
        verify_body(head, body, nonces=nonces, now=NOW)
    nonces.revoked.clear()
    assert verify_body(head, body, nonces=nonces, now=NOW + 300) == "ward-7"  # none of these spent the nonce


def test_nonces_are_forgotten_in_the_end():
    clock = [NOW]
    nonces = MemoryNonces(lambda: clock[0])
    assert not nonces.seen("a", "k", "n", NOW + 600)
    assert not nonces.seen("b", "k", "n", NOW + 600)
    assert nonces.seen("a", "k", "n", NOW + 600)
    clock[0] = NOW + 1300
    assert not nonces.seen("a", "k", "n", NOW + 2000)


def test_a_refused_request_spends_no_nonce():
    nonces, request = MemoryNonces(lambda: NOW), signed()
    with pytest.raises(WrongSignature):
        verify({**request, "path": "/other"}, nonces=nonces)
    verify(request, nonces=nonces)


def test_of_two_threads_with_one_nonce_exactly_one_passes():
    for _ in range(50):
        nonces, request, outcomes, start = MemoryNonces(lambda: NOW), signed(), [], threading.Barrier(2)

        def ask(request=request, nonces=nonces, outcomes=outcomes, start=start):
            start.wait()
            try:
                outcomes.append(verify(request, nonces=nonces))
            except Replayed:
                outcomes.append("replayed")

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["replayed", "ward-7"]


@given(paths, st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3))
def test_httpx_signs_what_it_sends(path, params):
    """Whatever httpx makes of a path and its parameters, the wire form is what is signed."""
    request = httpx.Request(
        "POST", httpx.URL("https://example.org").copy_with(path="/v" + path), params=params, content=b"x"
    )
    signed_request = next(Signer("ward-7", keys.key_id(KEY), KEY, clock=lambda: NOW).auth_flow(request))
    wire_path, _, wire_query = signed_request.url.raw_path.decode().partition("?")
    verified = verify_request(
        method="POST",
        path=wire_path,
        query=wire_query,
        headers=signed_request.headers,
        body=b"x",
        key_of=lambda party, key_id: ENROLLED.get((party, key_id)),
        nonces=MemoryNonces(lambda: NOW),
        now=NOW,
    )
    assert verified == "ward-7"


def test_a_signer_is_checked_when_made():
    with pytest.raises(InvalidSetting, match="party's name"):
        Signer('a"b', keys.key_id(KEY), KEY)
    with pytest.raises(InvalidSetting, match="id of this key"):
        Signer("a", "0" * 16, KEY)
