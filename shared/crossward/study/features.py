"""The features of a study, as its file writes them. The checks are those of `crossward.learning.encoding`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, model_validator

from crossward.errors import InvalidInput
from crossward.learning.encoding import Category, Feature, Flag, Number
from crossward.learning.encoding.labels import encode_labels
from crossward.values import Name, Note, NotNegative, Real, Section, Share, Yes, refusal, refusal_of


class _Feature(Section):
    """What every kind has. `importance` is the doctors' weight of the feature: public, never taken from records.

    So is `direction`: whether the outcome is likelier (`up`) or less likely (`down`) with a larger number, a set flag,
    a later level.
    """

    name: Name
    importance: NotNegative = 1.0
    direction: Literal["up", "down"] | None = None

    @model_validator(mode="after")
    def _as_the_library_has_it(self) -> _Feature:
        try:
            self.feature()
        except InvalidInput as error:
            raise refusal_of(error) from None
        return self

    def feature(self) -> Feature:
        """The library's feature."""
        raise NotImplementedError


class NumberFeature(_Feature):
    """A measurement in `unit`, clipped to the public range [low, high].

    `plausible`, where it is given, holds that range: what lies beyond it is no measurement but a mistake. It is
    clipped as any other, and told at the site; a prediction refuses it.
    """

    kind: Literal["number"]
    low: Real
    high: Real
    unit: Note = ""
    default: Real | None = None
    plausible: tuple[Real, Real] | None = None

    @model_validator(mode="after")
    def _plausible_holds_the_range(self) -> NumberFeature:
        if self.plausible is not None and not self.plausible[0] <= self.low < self.high <= self.plausible[1]:
            raise refusal(
                f"The plausible values of {self.name!r} do not hold its range from {self.low:g} to {self.high:g}.",
                "Give [lowest, highest] that can be true of anyone, around the range.",
            )
        return self

    def feature(self) -> Number:
        """The library's number."""
        return Number(self.name, self.low, self.high, self.unit, self.default, self.importance, self.direction)


class CategoryFeature(_Feature):
    """One of the listed levels, each a text."""

    kind: Literal["category"]
    levels: Annotated[tuple[Name, ...], Field(min_length=2, max_length=1_000)]
    default: Name | None = None

    def feature(self) -> Category:
        """The library's category."""
        return Category(self.name, self.levels, self.default, self.importance, self.direction)


class FlagFeature(_Feature):
    """True or false."""

    kind: Literal["flag"]
    default: Yes | None = None

    def feature(self) -> Flag:
        """The library's flag."""
        return Flag(self.name, self.default, self.importance, self.direction)


KINDS: dict[str, type[_Feature]] = {"number": NumberFeature, "category": CategoryFeature, "flag": FlagFeature}

StudyFeature = Annotated[NumberFeature | CategoryFeature | FlagFeature, Field(discriminator="kind")]


def _label_value(value: Any) -> bool | int | float | str:
    if not isinstance(value, bool | int | float | str):
        raise refusal(f"{value!r} cannot mark a class.", "Give a text, a number, true or false.")
    try:
        encode_labels([value], value)
    except InvalidInput as error:
        raise refusal_of(error) from None
    return int(value) if isinstance(value, float) and value.is_integer() else value


LabelValue = Annotated[bool | int | float | str, PlainValidator(_label_value)]


class Label(Section):
    """The column that holds the outcome, and the values that mark its classes.

    Without `negative` whatever is not positive is negative; a missing label is always an error at the site.
    `positive_rate` is the share of positives that is expected, from the literature and not from records.
    """

    name: Name
    positive: LabelValue = True
    negative: LabelValue | None = None
    positive_rate: Share | None = None

    @model_validator(mode="after")
    def _two_values(self) -> Label:
        try:
            encode_labels([self.positive], self.positive, self.negative)
        except InvalidInput as error:
            raise refusal_of(error) from None
        return self
