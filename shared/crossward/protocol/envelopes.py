"""Signed bytes, in the envelope of DSSE v1 (Dead Simple Signing Envelope), with one Ed25519 signature.

    signature over  "DSSEv1" SP len(type) SP type SP len(payload) SP payload

The payload's type keeps a receipt from being passed off as a release. The signature is checked over the very bytes that
were received, and these are refused unless they are the canonical form of their message: one meaning has one digest.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar, cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import Field, field_validator

from crossward.errors import Forged
from crossward.protocol.canonical import canonical, read_canonical, sha256
from crossward.protocol.keys import key_id
from crossward.protocol.messages import (
    MOST_BYTES,
    Base64,
    Content,
    KeyId,
    ModelMessage,
    Receipt,
    unbase64,
    validated,
)
from crossward.values import Section, refusal

C = TypeVar("C", bound=Content)


def to_sign(payload_type: str, payload: bytes) -> bytes:
    """The bytes that are signed: DSSE's pre-authentication encoding, in which nothing can be shifted."""
    name = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(name), name, len(payload), payload)


class Signature(Section):
    """By which key, and the signature itself."""

    keyid: KeyId
    sig: Annotated[Base64, Field(min_length=88, max_length=88)]  # 64 bytes


class Signed(Section, Generic[C]):
    """An envelope around one message. `content` reads it without trust; `verify` reads it with."""

    content_type: ClassVar[type[Content]]
    payload_type: ClassVar[str]

    payload: Annotated[Base64, Field(min_length=4)]
    payloadType: str
    signatures: Annotated[tuple[Signature, ...], Field(min_length=1, max_length=1)]

    @field_validator("payloadType")
    @classmethod
    def _is_of_this_type(cls, given: str) -> str:
        if given != cls.payload_type:
            raise refusal(f"The payload is of the type {given[:80]!r}.", f"{cls.payload_type} is wanted here.")
        return given

    @classmethod
    def from_json(cls, data: bytes | str) -> Self:
        """An envelope from its bytes, or `InvalidMessage` naming every field at fault."""
        return cls.from_data(read_canonical(data, 2 * MOST_BYTES))

    @classmethod
    def from_data(cls, data: Any) -> Self:
        """An envelope from plain values."""
        return validated(cls, data)

    @classmethod
    def sign(cls, message: C, key: Ed25519PrivateKey) -> Self:
        """Sign a message."""
        payload = message.payload
        signature = base64.b64encode(key.sign(to_sign(cls.payload_type, payload))).decode()
        return cls(
            payload=base64.b64encode(payload).decode(),
            payloadType=cls.payload_type,
            signatures=(Signature(keyid=key_id(key), sig=signature),),
        )

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Another envelope: what was read of this one does not count for it."""
        copied = super().model_copy(update=update, deep=deep)
        for name in ("_payload", "_content", "digest"):
            copied.__dict__.pop(name, None)
        return copied

    def canonical(self) -> bytes:
        """The one byte string of this envelope."""
        return canonical(self.model_dump(mode="json"))

    @cached_property
    def _payload(self) -> bytes:
        return unbase64(self.payload)

    @cached_property
    def _content(self) -> C:
        return cast(C, self.content_type.from_json(self._payload))

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the payload: how what is inside is named."""
        return sha256(self._payload)

    @property
    def key_id(self) -> str:
        """The name of the key that is said to have signed it."""
        return self.signatures[0].keyid

    def content(self) -> C:
        """The message inside, its form checked, whoever signed it."""
        return self._content

    def verify(self, key: Ed25519PublicKey) -> C:
        """The message inside, if this key signed it under this key's name."""
        self.check_signature(key)
        return self.content()

    def check_signature(self, key: Ed25519PublicKey) -> None:
        """Refuse it unless this key signed it under this key's name. What is inside is not looked at."""
        if key_id(key) != self.key_id:
            raise Forged(f"It names the key {self.key_id}, not {key_id(key)}.", "Check the signer's public key.")
        try:
            key.verify(unbase64(self.signatures[0].sig), to_sign(self.payloadType, self._payload))
        except InvalidSignature:
            raise Forged(f"The key {self.key_id} did not sign this.", "Ask its sender for it again.") from None


class SignedRelease(Signed[ModelMessage]):
    """A model, signed by the party that trained it: the only thing that leaves a site."""

    content_type: ClassVar[type[Content]] = ModelMessage
    payload_type: ClassVar[str] = "application/vnd.crossward.release+json"

    @property
    def party(self) -> str:
        """Whose it says it is."""
        return self.content().party


class SignedReceipt(Signed[Receipt]):
    """A receipt, signed by the coordinator."""

    content_type: ClassVar[type[Content]] = Receipt
    payload_type: ClassVar[str] = "application/vnd.crossward.receipt+json"
