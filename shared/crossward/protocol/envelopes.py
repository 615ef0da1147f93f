"""Signed bytes: what was sent, by whom, under which key.

    digest     sha256(payload)
    signature  Ed25519 over  context || 0x00 || canonical({digest, key_id, party, version})

The context keeps a receipt from being passed off as a release. The payload is the canonical form of its message, so
that one meaning has one digest: a payload that reads well but is written otherwise is refused.
"""

from __future__ import annotations

import base64
from typing import ClassVar, Generic, Self, TypeVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from crossward.errors import Forged
from crossward.protocol.canonical import canonical, sha256
from crossward.protocol.keys import key_id
from crossward.protocol.messages import (
    VERSION,
    Base64,
    Content,
    Digest,
    KeyId,
    Message,
    ModelMessage,
    Receipt,
    unbase64,
)
from crossward.values import Slug

C = TypeVar("C", bound=Content)


class Signed(Message, Generic[C]):
    """An envelope around one message. `content` reads it without trust; `verify` reads it with."""

    context: ClassVar[bytes]
    content_type: ClassVar[type[Content]]

    payload: Base64
    digest: Digest
    party: Slug
    key_id: KeyId
    signature: Base64

    @classmethod
    def sign(cls, message: C, key: Ed25519PrivateKey, *, party: str) -> Self:
        """Sign a message as a party."""
        payload = message.canonical()
        name, digest = key_id(key), sha256(payload)
        return cls(
            payload=base64.b64encode(payload).decode(),
            digest=digest,
            party=party,
            key_id=name,
            signature=base64.b64encode(key.sign(_to_sign(cls.context, digest, party, name))).decode(),
        )

    def content(self) -> C:
        """The message inside, its digest and form checked, whoever signed it."""
        payload = unbase64(self.payload)
        if sha256(payload) != self.digest:
            raise Forged("The payload does not have the digest it is sent with.", "Ask its sender for it again.")
        message = self.content_type.from_json(payload)
        if message.canonical() != payload:
            raise Forged("The payload is not in its canonical form.", "Send what `canonical()` gives.")
        if getattr(message, "party", self.party) != self.party:
            raise Forged("The message inside is another party's.", "A party signs for itself.")
        return message  # type: ignore[return-value]

    def verify(self, key: Ed25519PublicKey) -> C:
        """The message inside, if this key signed it for this party under this key's name."""
        self.check_signature(key)
        return self.content()

    def check_signature(self, key: Ed25519PublicKey) -> None:
        """Refuse it unless this key signed it for this party under this key's name. What is inside is not looked at."""
        try:
            key.verify(unbase64(self.signature), _to_sign(self.context, self.digest, self.party, self.key_id))
        except InvalidSignature:
            raise Forged(
                f"{self.party!r} did not sign this with the key {self.key_id}.", "Check the party's public key."
            ) from None


class SignedRelease(Signed[ModelMessage]):
    """A model, signed by the party that trained it: the only thing that leaves a site."""

    context: ClassVar[bytes] = b"crossward release"
    content_type: ClassVar[type[Content]] = ModelMessage


class SignedReceipt(Signed[Receipt]):
    """A receipt, signed by the coordinator."""

    context: ClassVar[bytes] = b"crossward receipt"
    content_type: ClassVar[type[Content]] = Receipt


def _to_sign(context: bytes, digest: str, party: str, key_id: str) -> bytes:
    named = {"version": VERSION, "digest": digest, "party": party, "key_id": key_id}
    return context + b"\0" + canonical(named)
