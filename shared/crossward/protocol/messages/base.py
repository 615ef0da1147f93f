"""What every message has: a version, strict fields, one canonical form."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, JsonValue, StringConstraints, ValidationError

from crossward.errors import InvalidMessage, UnknownVersion
from crossward.protocol.canonical import canonical, read_json, sha256
from crossward.values import said

VERSION = 1
MOST_BYTES = 32 * 1024 * 1024

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
TaskId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")]
KeyId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._:-]{1,128}$")]


def _base64(text: str) -> str:
    unbase64(text)
    return text


def unbase64(text: str) -> bytes:
    """The bytes of a base64 text in its one form: standard alphabet, padded, no stray bits."""
    try:
        data = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise said("This is not base64.", "Send standard base64 with padding.") from None
    if base64.b64encode(data).decode() != text:
        raise said("This is not the one base64 form of its bytes.", "Send standard base64 with padding.")
    return data


Base64 = Annotated[str, StringConstraints(max_length=2 * MOST_BYTES), AfterValidator(_base64)]


def _utc(time: datetime) -> datetime:
    return time.astimezone(UTC)


Time = Annotated[AwareDatetime, AfterValidator(_utc)]


def _finite(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    try:
        canonical(value)
    except InvalidMessage as error:
        raise said(error.cause, error.fix) from None
    return value


Json = Annotated[dict[str, JsonValue], AfterValidator(_finite)]
"""An object of plain values, all of them finite: a description, or a line of a ledger."""


class Part(BaseModel):
    """A part of a message: frozen, and refusing what it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Message(Part):
    """A versioned message."""

    most_bytes: ClassVar[int] = MOST_BYTES

    version: Literal[1] = 1

    @classmethod
    def from_json(cls, data: bytes | str) -> Self:
        """A message from its bytes, or `InvalidMessage` naming every field at fault."""
        return cls.from_data(read_json(data, cls.most_bytes))

    @classmethod
    def from_data(cls, data: Any) -> Self:
        """A message from plain values."""
        if not isinstance(data, dict):
            raise InvalidMessage(f"{cls.__name__} is a JSON object, not {type(data).__name__}.", "Send an object.")
        version = data.get("version")
        if version != VERSION or isinstance(version, bool):
            raise UnknownVersion(
                f"{cls.__name__} has version {version!r} and version {VERSION} is understood here.",
                "Bring both sides to the same release of Crossward.",
            )
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise InvalidMessage(f"{cls.__name__} is malformed: {_told(error)}", "Send it as documented.") from None

    def canonical(self) -> bytes:
        """The one byte string of this message."""
        return canonical(self.model_dump(mode="json"))


class Content(Message):
    """A message that gets signed, and is then named by its digest."""

    @property
    def digest(self) -> str:
        """The SHA-256 of the canonical form."""
        return sha256(self.canonical())


def _told(error: ValidationError) -> str:
    """Field and cause of each error; never the value, which may be long or not for the reader."""
    details: Iterable[Any] = error.errors(include_url=False, include_input=False)
    told = [f"{'.'.join(map(str, detail['loc'])) or 'message'}: {detail['msg']}" for detail in details]
    more = f"; and {len(told) - 5} more" if len(told) > 5 else ""
    return "; ".join(told[:5]) + more + "."
