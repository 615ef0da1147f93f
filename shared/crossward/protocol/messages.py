"""What parties say to one another: every message has a version, strict fields, one canonical form, and no number that
is not finite. Models and receipts are here; `envelopes` signs them, and `tasks` carries them.

Weights are whole numbers of steps on a grid that is named beside them: the reader has the very model that was released,
in any language. What the study says already (columns, balls, how models combine) is not sent again: the reader works it
out for itself (`crossward.study.wire`).
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    JsonValue,
    StringConstraints,
    ValidationError,
)

from crossward.errors import InvalidMessage, Malformed
from crossward.privacy.budget import Cost
from crossward.privacy.output import COARSEST, FINEST, MOST_STEPS
from crossward.protocol import versions
from crossward.protocol.canonical import Large, canonical, read_canonical, sha256
from crossward.protocol.constants import (
    DIGEST,
    KEY_ID,
    MOST_ATTO_DELTA,
    MOST_NANO_EPSILON,
    PUBLIC_KEY,
    TASK_ID,
    TaskKind,
)
from crossward.protocol.ledger.lines import Head
from crossward.protocol.times import Time
from crossward.values import MOST_COLUMNS, MOST_PARTIES, Count, Section, Slug, refusal

MOST_BYTES = 32 * 1024 * 1024

Digest = Annotated[str, StringConstraints(pattern=f"^{DIGEST}$")]
TaskId = Annotated[str, StringConstraints(pattern=f"^{TASK_ID}$")]
KeyId = Annotated[str, StringConstraints(pattern=f"^{KEY_ID}$")]
PublicKey = Annotated[str, StringConstraints(pattern=f"^{PUBLIC_KEY}$")]
# A list ends at its first fault: to tell of a million would take a thousand bytes for each.
Digests = Annotated[tuple[Digest, ...], FailFast(), Field(max_length=MOST_PARTIES)]

CodeVersion = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z.+-]{1,32}$")]

NanoEpsilon = Annotated[int, Field(strict=True, ge=1, le=MOST_NANO_EPSILON)]
"""An epsilon that was paid, in units of 10^-9."""
AttoDelta = Annotated[int, Large, Field(strict=True, ge=0, le=MOST_ATTO_DELTA)]
"""A delta that was paid, in units of 10^-18."""


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


def _writable(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    try:
        canonical(value)
    except InvalidMessage as error:
        raise refusal(error.cause, error.fix) from None
    return value


Json = Annotated[dict[str, JsonValue], AfterValidator(_writable)]
"""An object of plain values, all of them finite: the description of a release."""


def _head(value: Any) -> Any:
    """A head from plain values: its two fields, each of the very type."""
    if isinstance(value, Head):
        return value
    if not isinstance(value, dict) or value.keys() != {"sequence", "hash"}:
        raise refusal("A head has a sequence and a hash.", "Give both and nothing else.")
    try:
        return Head(**value)
    except Malformed as error:
        raise refusal(error.cause, error.fix) from None


MirrorHead = Annotated[Head, BeforeValidator(_head)]
"""Where a chain ends, in a message."""


B = TypeVar("B", bound=BaseModel)


class Message(BaseModel):
    """A versioned message: frozen, refusing what it does not know, and written out whole."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    most_bytes: ClassVar[int] = MOST_BYTES

    version: Annotated[int, Field(strict=True, ge=1)] = Field(default_factory=versions.newest)

    @classmethod
    def from_json(cls, data: bytes | str) -> Self:
        """A message from its bytes, or `InvalidMessage` naming every field at fault."""
        return cls.from_data(read_canonical(data, cls.most_bytes))

    @classmethod
    def from_data(cls, data: Any) -> Self:
        """A message from plain values."""
        if not isinstance(data, dict):
            raise InvalidMessage(f"{cls.__name__} is a JSON object, not {type(data).__name__}.", "Send an object.")
        versions.check(data.get("version"), cls.__name__)
        # What a writer may leave to its default is written all the same: a field left out would be a second spelling.
        if missing := sorted(cls.model_fields.keys() - data.keys()):
            raise InvalidMessage(f"{cls.__name__} lacks {', '.join(missing)}.", "Send it as documented.")
        return validated(cls, data)

    def canonical(self) -> bytes:
        """The one byte string of this message."""
        return canonical(self.model_dump(mode="json"))


class Content(Message):
    """A message that gets signed, and is then named by the digest of its bytes."""

    @classmethod
    def from_json(cls, data: bytes | str) -> Self:
        """A message from its bytes, which it keeps: what is said of it is said of them."""
        message = super().from_json(data)
        message.__dict__["payload"] = data.encode() if isinstance(data, str) else data
        return message

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Another message: it has bytes of its own."""
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("payload", None)
        return copied

    @cached_property
    def payload(self) -> bytes:
        """The bytes that are signed: those that were received, where it was."""
        return self.canonical()

    @property
    def digest(self) -> str:
        """The SHA-256 of the payload."""
        return sha256(self.payload)


def validated(kind: type[B], data: Any) -> B:
    """A model from plain values, or `InvalidMessage` naming every field at fault."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise InvalidMessage(f"{kind.__name__} is malformed: {_causes(error)}", "Send it as documented.") from None


def _causes(error: ValidationError) -> str:
    """Field and cause of each error; never the value, which may be long or not for the reader."""
    details: Iterable[Any] = error.errors(include_url=False, include_input=False)
    causes = [f"{'.'.join(map(str, detail['loc'])) or 'message'}: {detail['msg']}" for detail in details]
    more = f"; and {len(causes) - 5} more" if len(causes) > 5 else ""
    return "; ".join(causes[:5]) + more + "."


Steps = Annotated[int, Field(strict=True, gt=-MOST_STEPS, lt=MOST_STEPS)]


class Vector(Section):
    """The weights of one linear model, in the order of its columns, the intercept's last: each is steps * 2^grid."""

    grid: Annotated[int, Field(strict=True, ge=FINEST, le=COARSEST)]
    steps: Annotated[tuple[Steps, ...], FailFast(), Field(min_length=1, max_length=MOST_COLUMNS + 1)]

    @classmethod
    def of(cls, weights: Sequence[float], grid: float) -> Self:
        """Weights that lie on a grid, a power of two."""
        exponent = math.frexp(grid)[1] - 1
        steps = [weight / grid for weight in weights]
        if not all(step.is_integer() and abs(step) < MOST_STEPS for step in steps):
            raise InvalidMessage("The weights do not lie on their grid.", "Release what the last step rounded.")
        return cls(grid=exponent, steps=tuple(int(step) for step in steps))

    @property
    def weights(self) -> tuple[float, ...]:
        """The weights, exactly."""
        return tuple(math.ldexp(step, self.grid) for step in self.steps)

    @property
    def spacing(self) -> float:
        """The grid as a number."""
        return math.ldexp(1.0, self.grid)


class Paid(Section):
    """What something costs: whole numbers of nano-epsilon and atto-delta, as ledgers count them."""

    nano_epsilon: NanoEpsilon
    atto_delta: AttoDelta

    @property
    def cost(self) -> Cost:
        """As a cost."""
        return Cost(self.nano_epsilon, self.atto_delta)


class ModelMessage(Content):
    """A model that leaves its site: the weights of its linear models, level-1's where there is one, its description.

    `kind` is the task that made it, `code_version` what wrote it, `n` how many records it was trained on, `inputs` the
    digests of the releases that it learned from, in their order. The bytes of `release` are those that were charged.
    """

    study_hash: Digest
    party: Slug
    kind: TaskKind
    method: Slug
    code_version: CodeVersion
    n: Count
    weights: Annotated[tuple[Vector, ...], FailFast(), Field(min_length=1, max_length=MOST_COLUMNS)]
    level1: Vector | None
    release: Json
    inputs: Digests


class Receipt(Content):
    """What the coordinator has stored for a party, and where its mirror of that party's ledger stands.

    `release` is the digest of what was stored for the task, None where nothing leaves the site.
    """

    party: Slug
    task: TaskId
    release: Digest | None
    head: MirrorHead
    time: Time
