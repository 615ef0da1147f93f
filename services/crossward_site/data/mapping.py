"""From a hospital's own columns, units and codes to those of a study.

What the mapping does not name is taken from the column of the same name, as it is. The mapping is the steward's; it
says nothing about any one record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BeforeValidator, Field, ValidationError, model_validator

from crossward.errors import CrosswardError, InvalidSetting
from crossward.learning.encoding.values import is_missing
from crossward.study import Study
from crossward.study.features import NumberFeature
from crossward.values import MOST_COLUMNS, Name, Note, Real, Section, refusal
from crossward_site.data import units

Code = bool | int | float | str | None


def _column_alone(value: Any) -> Any:
    """`glucose` is short for `{column: glucose}`."""
    return {"column": value} if isinstance(value, str) else value


def _texts(value: Any) -> Any:
    """One word stands for a list of it, and a number for its text: `missing: NA`, `missing: [NA, -99]`."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list | tuple):
        return value
    return tuple(
        value_text(item) if isinstance(item, int | float) and not isinstance(item, bool) else item for item in value
    )


class _Entries(Section):
    """Names and values that a steward writes: a name that is none is refused with those that there are."""

    @model_validator(mode="before")
    @classmethod
    def _known_names(cls, data: Any) -> Any:
        names = list(cls.model_fields)
        if isinstance(data, Mapping) and (strange := [str(name) for name in data if name not in names]):
            alike = next(iter(get_close_matches(strange[0].casefold(), names, n=1)), None)
            hint = f"Is it {alike}? " if alike else ""
            told = ", ".join(repr(name[:64]) for name in strange[:5])
            raise refusal(f"Not known here: {told}.", f"{hint}There are {', '.join(names)}.")
        return data


class ColumnMap(_Entries):
    """One feature or label: its column, and how its values become the study's.

    Either `unit` (with the `substance` where that matters) or `factor` and `offset`; `recode` maps local values, as
    texts, to the study's (null: missing) and leaves others as they are.
    """

    column: Name
    unit: Note | None = None
    substance: Note = ""
    factor: Real = 1.0
    offset: Real = 0.0
    recode: dict[str, Code] = Field(default_factory=dict, max_length=MOST_COLUMNS)

    @model_validator(mode="after")
    def _one_way(self) -> ColumnMap:
        if self.factor == 0:
            raise refusal(
                "A factor of 0 makes all values equal.", "Give the factor from the local unit to the study's."
            )
        if self.unit is not None and (self.factor, self.offset) != (1.0, 0.0):
            raise refusal("Both a unit and a factor or offset are given.", "Give one or the other.")
        return self

    def conversion(self, feature: str, wanted: str) -> units.Conversion:
        """Factor and offset to the study's unit."""
        if self.unit is None:
            return units.Conversion(self.factor, self.offset)
        return units.conversion(feature, self.unit, wanted, self.substance)


class Codes:
    """Local values, as texts, and what each is in the study's words (None: missing).

    A whole number has one text, however it is written: 7, 7.0 and "7.0" are all "7".
    """

    def __init__(self, missing: Iterable[str], recode: Mapping[str, Code]) -> None:
        self.words: dict[str, Code] = {}
        listed = [(word, None) for word in missing] + list(recode.items())  # what is recoded is not missing
        for spell in (_whole, str.strip):
            self.words |= {spell(word.strip()): code for word, code in listed}

    def __bool__(self) -> bool:
        return bool(self.words)

    def read(self, value: Any) -> tuple[Any, bool]:
        """The value in the study's words, and whether it was listed."""
        if not self.words or is_missing(value):
            return value, False
        text = value_text(value)
        for word in (text, _whole(text)):
            if word in self.words:
                return self.words[word], True
        return value, False


def value_text(value: Any) -> str:
    """A value as a text: 7.0 and 7 are the same person and the same code."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, Decimal) and value.is_finite():
        return f"{value.normalize():f}"
    return str(value).strip()


def _whole(text: str) -> str:
    """The text of a whole number without its point; other texts as they are."""
    head, point, tail = text.partition(".")
    return head if point and head.lstrip("+-").isdecimal() and not tail.strip("0") else text


Mapped = Annotated[ColumnMap, BeforeValidator(_column_alone)]


class DataMap(_Entries):
    """How a table reads. `person` names whom a record is about, `record` what tells records apart."""

    person: Name
    record: Name | None = None
    missing: Annotated[tuple[str, ...], BeforeValidator(_texts), Field(max_length=100)] = ()
    features: dict[str, Mapped] = Field(default_factory=dict, max_length=MOST_COLUMNS)
    labels: dict[str, Mapped] = Field(default_factory=dict, max_length=MOST_COLUMNS)

    @classmethod
    def from_data(cls, data: Any) -> DataMap:
        """A mapping from plain values, or `InvalidSetting` naming what is wrong."""
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'mapping'}: {e['msg']}" for e in error.errors()[:5])
            raise InvalidSetting(f"The mapping is wrong: {wrong}.", "Correct these entries.") from None

    @classmethod
    def from_file(cls, path: Path) -> DataMap:
        """A mapping from a YAML or JSON file."""
        try:
            return cls.from_data(yaml.safe_load(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, yaml.YAMLError) as error:
            if isinstance(error, CrosswardError):
                raise
            words = str(error).partition("\n")[0]
            raise InvalidSetting(f"The mapping {path} cannot be read: {words}", "Give a YAML file.") from None

    def of_feature(self, name: str) -> ColumnMap:
        """The map of a feature; by default its own name."""
        return self.features.get(name) or ColumnMap(column=name)

    def of_label(self, name: str) -> ColumnMap:
        """The map of a label; by default its own name."""
        return self.labels.get(name) or ColumnMap(column=name)

    def columns_for(self, study: Study) -> list[str]:
        """The local columns that a study needs, each once."""
        names = [self.of_feature(feature.name).column for feature in study.features]
        return _once([*self.identity, *names, self.of_label(study.label.name).column])

    def codes(self, mapped: ColumnMap) -> Codes:
        """What a column's values are in the study's words, where they are not the same."""
        return Codes(self.missing, mapped.recode)

    @property
    def identity(self) -> list[str]:
        """The columns that say whose record it is."""
        return _once([self.person, *([self.record] if self.record else [])])

    def check(self, study: Study) -> None:
        """Refuse units that cannot be brought to the study's, before a record is read."""
        for feature in study.features:
            if isinstance(feature, NumberFeature):
                self.of_feature(feature.name).conversion(feature.name, feature.unit)


def _once(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
