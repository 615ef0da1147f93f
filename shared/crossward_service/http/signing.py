"""Signed requests: one fixed profile of RFC 9421 (HTTP message signatures) with RFC 9530 (Content-Digest).

::

    Content-Digest:  sha-256=:<base64>:
    Signature-Input: cw=("@method" "@path" "@query" "content-digest")
                     ;created=<s>;nonce="<n>";keyid="<party>/<key id>";alg="ed25519"      (on one line)
    Signature:       cw=:<base64>:

The signature is over these lines, joined by newlines, of which the last repeats Signature-Input (RFC 9421, 2.5)::

    "@method": POST
    "@path": /v1/tasks/7/result
    "@query": ?
    "content-digest": sha-256=:<base64>:
    "@signature-params": ("@method" "@path" "@query" "content-digest");created=...

The verifier takes this one spelling and no other: there is nothing to negotiate, so nothing to downgrade. Why these
components and not the host: docs/adr/0013-signed-requests.md.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import httpx
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from crossward.errors import Expired, InvalidSetting, KeyRevoked, Replayed, UnknownParty, Unsigned, WrongSignature
from crossward.protocol import keys
from crossward.protocol.constants import KEY_ID
from crossward.values import SLUG

SKEW = 300  # seconds a signature may be old, or its clock ahead
COMPONENTS = ("@method", "@path", "@query", "content-digest")

_COVERED = "(" + " ".join(f'"{name}"' for name in COMPONENTS) + ")"
_INPUT = re.compile(
    rf'cw=(?P<params>{re.escape(_COVERED)};created=(?P<created>[0-9]{{1,12}});nonce="(?P<nonce>[A-Za-z0-9_-]{{16,64}})"'
    rf';keyid="(?P<party>{SLUG})/(?P<key_id>{KEY_ID})";alg="ed25519")'
)
# Of the last character two bits count; the other four are zero, or one signature would have sixteen spellings.
_SIGNATURE = re.compile(r"cw=:([A-Za-z0-9+/]{85}[AQgw]==):")
_DIGEST = re.compile(r"sha-256=:[A-Za-z0-9+/]{43}=:")
_RESIGN = "Sign the request as it is sent; a proxy on the way must not change path, query or body."


@dataclass(frozen=True)
class PartyKey:
    """A key that a party has enrolled, as 43 base64url characters."""

    public: str
    revoked: bool = False


class KeyLookup(Protocol):
    """Finds an enrolled key, revoked ones included; None if there never was one."""

    def __call__(self, party: str, key_id: str, /) -> PartyKey | None:
        """The key of this id that this party enrolled."""
        ...


class NonceStore(Protocol):
    """Remembers nonces until they expire, across every process that verifies."""

    def seen(self, party: str, key_id: str, nonce: str, expires: int) -> bool:
        """Remember a nonce; True if it was there already. Of two callers at once, one hears False.

        Raises `KeyRevoked` for a key that no longer counts, in the same moment, and remembers nothing.
        """
        ...


def content_digest(body: bytes) -> str:
    """The Content-Digest header of a body (RFC 9530); an empty body has one too."""
    return f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"


def signature_base(components: Sequence[tuple[str, str]], params: str) -> bytes:
    """The bytes that are signed: one line per component, then the signature's own parameters."""
    return "\n".join(f'"{name}": {value}' for name, value in (*components, ("@signature-params", params))).encode(
        "ascii"
    )


def _base(method: str, path: str, query: str, digest: str, params: str) -> bytes:
    values = (method, path or "/", f"?{query}", digest)
    return signature_base(list(zip(COMPONENTS, values, strict=True)), params)


class Signer(httpx.Auth):
    """Signs every request of an httpx client; a retried request is signed anew."""

    requires_request_body = True

    def __init__(
        self,
        party: str,
        key_id: str,
        private_key: Ed25519PrivateKey,
        *,
        clock: Callable[[], float] = time.time,
        word: Callable[[int], str] = secrets.token_urlsafe,
    ) -> None:
        if not re.fullmatch(SLUG, party):
            raise InvalidSetting(f"{party!r} is not a party's name.", "Use small letters, digits, and dashes between.")
        if key_id != keys.key_id(private_key):
            raise InvalidSetting(f"{key_id!r} is not the id of this key.", f"Its id is {keys.key_id(private_key)}.")
        self.party = party
        self.key_id = key_id
        self._key = private_key
        self._clock = clock
        self._word = word

    def headers(self, method: str, path: str, query: str, body: bytes) -> dict[str, str]:
        """The three headers that sign one request; `path` and `query` as they go over the wire, percent-encoded."""
        nonce = self._word(18)
        params = (
            f'{_COVERED};created={int(self._clock())};nonce="{nonce}";keyid="{self.party}/{self.key_id}";alg="ed25519"'
        )
        digest = content_digest(body)
        signature = self._key.sign(_base(method, path, query, digest, params))
        return {
            "Content-Digest": digest,
            "Signature-Input": f"cw={params}",
            "Signature": f"cw=:{base64.b64encode(signature).decode()}:",
        }

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Sign a request just before it is sent."""
        path, _, query = request.url.raw_path.decode("ascii").partition("?")
        request.headers.update(self.headers(request.method, path, query, request.content))
        yield request


@dataclass(frozen=True)
class SignedHead:
    """The head of a request that a party signed. Its body has yet to come, and may not be the one that was signed."""

    party: str
    key_id: str
    created: int
    nonce: str
    digest: str


def verify_head(
    *, method: str, path: str, query: str, headers: Mapping[str, str], key_of: KeyLookup, now: float
) -> SignedHead:
    """Who signed this head: all that can be said before the body is read. `headers` are looked up in lower case."""
    if "signature" not in headers or "signature-input" not in headers:
        raise Unsigned("This request is not signed.", "Sign it with the party's key (RFC 9421).")
    given = _INPUT.fullmatch(headers["signature-input"])
    signature = _SIGNATURE.fullmatch(headers["signature"])
    digest = _DIGEST.fullmatch(headers.get("content-digest", ""))
    if given is None or signature is None or digest is None:
        raise WrongSignature(
            "The signature headers are not of the agreed form.", "Use the profile of crossward_service.http.signing."
        )
    party, key_id = given["party"], given["key_id"]
    known = key_of(party, key_id)
    if known is None:
        raise UnknownParty(f"No key {key_id} of a party {party} is enrolled here.", "Join this coordinator first.")
    try:
        base = _base(method, path, query, digest[0], given["params"])
        keys.public_key(known.public).verify(base64.b64decode(signature[1]), base)
    except (InvalidSignature, UnicodeEncodeError):
        raise WrongSignature(f"The signature is not by key {key_id} over this request.", _RESIGN) from None
    head = SignedHead(party, key_id, int(given["created"]), given["nonce"], digest[0])
    if known.revoked:
        raise revoked(party, key_id)
    _check_age(head.created, now)
    return head


def verify_body(head: SignedHead, body: bytes, *, nonces: NonceStore, now: float) -> str:
    """The party that signed this head and this body, for the first time.

    The nonce is spent last, so that only a party itself can use up its nonces. Key and age are checked once more: a
    body may be held back until the key is revoked, or until the nonce is forgotten and would be taken twice.
    """
    if head.digest != content_digest(body):
        raise WrongSignature("The Content-Digest is not that of the body.", _RESIGN)
    _check_age(head.created, now)
    # Twice the skew: another worker's clock may run behind ours.
    if nonces.seen(head.party, head.key_id, head.nonce, head.created + 2 * SKEW):
        raise Replayed("This signed request was here before.", "Sign every request anew, also a repeated one.")
    return head.party


def revoked(party: str, key_id: str) -> KeyRevoked:
    """The key signs nothing any more."""
    return KeyRevoked(f"Key {key_id} of {party} was revoked.", "Enrol a new key.")


def _check_age(created: int, now: float) -> None:
    """Refuse a signature that is too old or from the future, and say by how much the clocks differ."""
    off = now - created
    if abs(off) > SKEW:
        side = "behind" if off > 0 else "ahead of"
        raise Expired(
            f"The signature's time is {abs(off):.0f} s {side} this service's clock; {SKEW} s are allowed.",
            "Set the clock (NTP), and send a request soon after signing it.",
        )
