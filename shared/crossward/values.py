"""The plain values of a study and of a message: strict, finite, and written one way.

A text is printable and not blank, a number is finite and never a boolean, a whole number may be written 2 or 2.0, and
minus zero is zero: two files that mean the same study then have the same canonical form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)
from pydantic_core import PydanticCustomError, PydanticKnownError

from crossward.errors import CrosswardError

SLUG = "[a-z0-9]+(?:-[a-z0-9]+)*"
"""A name of a party or a study, of at most 64 characters."""

MOST_COLUMNS = 10_000
MOST_PARTIES = 1_000
LARGEST = 2**53 - 1
"""Whole numbers up to here are exact in every reader of JSON, and each is the only one that is read so."""


def refusal(cause: str, fix: str) -> PydanticCustomError:
    """A refusal in our own words, to be raised inside a validator."""
    # Braces in the template would be read as places to fill in.
    return PydanticCustomError("crossward", "{cause} {fix}", {"cause": cause, "fix": fix})


def refusal_of(error: CrosswardError) -> PydanticCustomError:
    """The library's own refusal, passed on from inside a validator."""
    return refusal(error.cause, error.fix)


def _printable(text: str) -> str:
    if strange := sorted({character for character in text if not (character.isprintable() or character == "\n")}):
        raise refusal(f"The text holds the unprintable {', '.join(map(repr, strange[:3]))}.", "Write plain text.")
    return text


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _unsigned_zero(value: float) -> float:
    return value + 0.0


_PLAIN = AfterValidator(_printable)

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000), _PLAIN]
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200), _PLAIN]
Note = Annotated[str, StringConstraints(strip_whitespace=True, max_length=2_000), _PLAIN]
Words = Annotated[str, StringConstraints(max_length=2_000), _PLAIN]
Slug = Annotated[str, StringConstraints(pattern=f"^{SLUG}$", max_length=64)]

Real = Annotated[float, Field(strict=True, allow_inf_nan=False), AfterValidator(_unsigned_zero)]
Positive = Annotated[Real, Field(gt=0)]
NotNegative = Annotated[Real, Field(ge=0)]
Share = Annotated[Real, Field(gt=0, lt=1)]
Unit = Annotated[Real, Field(ge=0, le=1)]
Yes = Annotated[bool, Field(strict=True)]
Whole = Annotated[int, Field(strict=True, ge=-LARGEST, le=LARGEST), BeforeValidator(_whole)]
Count = Annotated[Whole, Field(ge=0)]
AtLeastOne = Annotated[Whole, Field(ge=1)]


class Section(BaseModel):
    """A part of a study: frozen, and refusing keys it does not know, since a misspelt one must not fall back unseen."""

    model_config = ConfigDict(frozen=True, extra="forbid")


S = TypeVar("S", bound=Section)


def by_name(value: Any, known: Mapping[str, type[S]]) -> S:
    """One of several kinds of section, by its `name`; `direct` alone is short for `{name: direct}`."""
    for kind in known.values():
        if type(value) is kind:
            return value
    data = {"name": value} if isinstance(value, str) else value
    if not isinstance(data, Mapping):
        raise PydanticKnownError("model_type", {"class_name": "mapping"})
    if "name" not in data:
        raise PydanticKnownError("union_tag_not_found", {"discriminator": "'name'"})
    named = known.get(data["name"]) if isinstance(data["name"], str) else None
    if named is None:
        tags = ", ".join(f"'{name}'" for name in known)
        context = {"discriminator": "'name'", "tag": _short(data["name"]), "expected_tags": tags}
        raise PydanticKnownError("union_tag_invalid", context)
    return named.model_validate(data)


def _short(name: Any) -> str:
    """A name that nobody knows, as an error may quote it: short, and printable everywhere."""
    if not isinstance(name, str):
        return type(name).__name__
    return name if len(name) <= 80 and name.isprintable() else ascii(name)[:80]
