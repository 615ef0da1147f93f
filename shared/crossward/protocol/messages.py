"""What parties say to one another: every message has a version, strict fields, one canonical form, and no number that
is not finite. Models and receipts are here; `envelopes` signs them, and `tasks` carries them.

A private weight lies on the grid its release declares, and floats are written so that they read back exactly: the
reader has the very model that was released. What the study says already (columns, balls, how models combine) is not
sent again: the reader works it out for itself (`crossward.study.wire`).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, StringConstraints, ValidationError

from crossward.errors import InvalidMessage, Malformed, UnknownVersion
from crossward.protocol.canonical import canonical, read_json, sha256
from crossward.protocol.constants import TaskKind
from crossward.protocol.ledger.lines import Head
from crossward.protocol.times import Time
from crossward.values import MOST_COLUMNS, MOST_PARTIES, Count, Real, Slug, refusal

VERSION = 1
MOST_BYTES = 32 * 1024 * 1024

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
TaskId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")]
KeyId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]


def _base64(text: str) -> str:
    unbase64(text)
    return text


def unbase64(text: str) -> bytes:
    """The bytes of a base64 text in its one form: standard alphabet, padded, no stray bits."""
    try:
        data = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise refusal("This is not base64.", "Send standard base64 with padding.") from None
    if base64.b64encode(data).decode() != text:
        raise refusal("This is not the one base64 form of its bytes.", "Send standard base64 with padding.")
    return data


Base64 = Annotated[str, StringConstraints(max_length=2 * MOST_BYTES), AfterValidator(_base64)]


def _finite(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    try:
        canonical(value)
    except InvalidMessage as error:
        raise refusal(error.cause, error.fix) from None
    return value


Json = Annotated[dict[str, JsonValue], AfterValidator(_finite)]
"""An object of plain values, all of them finite: a description, or a line of a ledger."""


class Message(BaseModel):
    """A versioned message: frozen, and refusing what it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")
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
                "Bring both sides to the same version of Crossward.",
            )
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise InvalidMessage(f"{cls.__name__} is malformed: {_causes(error)}", "Send it as documented.") from None
        except Malformed as error:  # a part that belongs to the ledger
            raise InvalidMessage(f"{cls.__name__} is malformed: {error.cause}", "Send it as documented.") from None

    def canonical(self) -> bytes:
        """The one byte string of this message."""
        return canonical(self.model_dump(mode="json"))


class Content(Message):
    """A message that gets signed, and is then named by its digest."""

    @property
    def digest(self) -> str:
        """The SHA-256 of the canonical form."""
        return sha256(self.canonical())


def _causes(error: ValidationError) -> str:
    """Field and cause of each error; never the value, which may be long or not for the reader."""
    details: Iterable[Any] = error.errors(include_url=False, include_input=False)
    causes = [f"{'.'.join(map(str, detail['loc'])) or 'message'}: {detail['msg']}" for detail in details]
    more = f"; and {len(causes) - 5} more" if len(causes) > 5 else ""
    return "; ".join(causes[:5]) + more + "."


Weights = Annotated[tuple[Real, ...], Field(min_length=1, max_length=MOST_COLUMNS + 1)]
"""The weights of one linear model, in the order of its columns, the intercept's last."""


class ModelMessage(Content):
    """A model that leaves its site: the weights of its linear models, level-1's where there is one, its description.

    `kind` is the task that made it, `n` how many records it was trained on, `inputs` the digests of the releases that
    it learned from, in their order.
    """

    study_hash: Digest
    party: Slug
    kind: TaskKind
    method: Slug
    n: Count
    weights: Annotated[tuple[Weights, ...], Field(min_length=1, max_length=MOST_COLUMNS)]
    level1: Weights | None = None
    release: Json
    inputs: Annotated[tuple[Digest, ...], Field(max_length=MOST_PARTIES)] = ()


class Receipt(Content):
    """What the coordinator has stored, and where that party's mirrored ledger stands.

    `release` is the digest of what was stored for the task, None where nothing leaves the site.
    """

    task: TaskId
    release: Digest | None
    head: Head
    time: Time
