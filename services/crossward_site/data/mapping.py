"""From a hospital's own columns, units and codes to those of a study.

What the mapping does not name is taken from the column of the same name, as it is. The mapping is the steward's; it
says nothing about any one record.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import yaml
from pydantic import BeforeValidator, Field, ValidationError, model_validator

from crossward.errors import CrosswardError, InvalidData, InvalidSetting
from crossward.learning.encoding.tables import Column
from crossward.learning.encoding.values import is_missing
from crossward.privacy.noise import Array
from crossward.study import Study
from crossward.study.features import NumberFeature
from crossward.values import Name, Note, Real, Section, refusal
from crossward_site.data import units
from crossward_site.data.places import Raw

Code = bool | int | float | str | None


def _column_alone(value: Any) -> Any:
    """`glucose` is short for `{column: glucose}`."""
    return {"column": value} if isinstance(value, str) else value


class ColumnMap(Section):
    """One feature or label: its column, and how its values become the study's.

    Either `unit` (with the `substance` where that matters) or `factor` and `offset`; `recode` maps local values, as
    texts, to the study's (null: missing) and leaves others as they are.
    """

    column: Name
    unit: Note | None = None
    substance: Note = ""
    factor: Real = 1.0
    offset: Real = 0.0
    recode: dict[str, Code] = Field(default_factory=dict)

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

    def recoded(self, column: Column, missing: frozenset[str]) -> list[Any]:
        """The values in the study's words."""
        values = column if isinstance(column, list) else column.tolist()
        codes = dict.fromkeys(missing) | {key.strip(): value for key, value in self.recode.items()}
        if not codes:
            return list(values)
        return [value if is_missing(value) else codes.get(value_text(value), value) for value in values]


def value_text(value: Any) -> str:
    """A value as a text: 7.0 and 7 are the same person and the same code."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


Mapped = Annotated[ColumnMap, BeforeValidator(_column_alone)]


class DataMap(Section):
    """How a table reads. `person` names whom a record is about, `record` what tells records apart."""

    person: Name
    record: Name | None = None
    missing: Annotated[tuple[str, ...], Field(max_length=100)] = ()
    features: dict[str, Mapped] = Field(default_factory=dict)
    labels: dict[str, Mapped] = Field(default_factory=dict)

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

    @property
    def identity(self) -> list[str]:
        """The columns that say whose record it is."""
        return _once([self.person, *([self.record] if self.record else [])])

    def check(self, study: Study) -> None:
        """Refuse units that cannot be brought to the study's, before a record is read."""
        for feature in study.features:
            if isinstance(feature, NumberFeature):
                self.of_feature(feature.name).conversion(feature.name, feature.unit)

    def features_of(self, study: Study, raw: Raw) -> dict[str, Column]:
        """The study's features in the study's units and words, ready to be encoded."""
        missing = frozenset(word.strip() for word in self.missing)
        columns: dict[str, Column] = {}
        for feature in study.features:
            mapped = self.of_feature(feature.name)
            column = mapped.recoded(raw.columns[mapped.column], missing)
            if isinstance(feature, NumberFeature):
                factor, offset = mapped.conversion(feature.name, feature.unit)
                columns[feature.name] = factor * _numbers(raw, mapped.column, feature.name, column) + offset
            else:
                columns[feature.name] = column
        return columns

    def label_of(self, study: Study, raw: Raw) -> list[Any]:
        """The study's label, in its own words."""
        mapped = self.of_label(study.label.name)
        read = mapped.recoded(raw.columns[mapped.column], frozenset(word.strip() for word in self.missing))
        values = [None if is_missing(value) else value for value in read]
        if None in values:
            row = values.index(None)
            raise InvalidData(
                f"{raw.where}, {raw.row_name(row)}: the label {study.label.name!r} (column {mapped.column!r}) is "
                f"missing, as in {values.count(None)} of {len(values)} rows.",
                "Leave records without a label out.",
            )
        return values


def _numbers(raw: Raw, column: str, feature: str, values: list[Any]) -> Array:
    """The values as floats, NaN where missing."""
    try:
        numbers: Array = np.array([math.nan if value is None or value == "" else value for value in values], np.float64)
    except (ValueError, TypeError, OverflowError):
        numbers = np.array([_number(raw, column, feature, row, value) for row, value in enumerate(values)])
    if np.any(wild := np.isinf(numbers)):
        row = int(np.argmax(wild))
        raise _bad_number(raw, column, feature, row, values[row])
    return numbers


def _number(raw: Raw, column: str, feature: str, row: int, value: Any) -> float:
    try:
        return math.nan if is_missing(value) else float(value)
    except (ValueError, TypeError, OverflowError):
        raise _bad_number(raw, column, feature, row, value) from None


def _bad_number(raw: Raw, column: str, feature: str, row: int, value: Any) -> InvalidData:
    return InvalidData(
        f"{raw.where}, {raw.row_name(row)}: column {column!r} (feature {feature!r}) is {value!r}, which is no number.",
        "Correct it, leave it empty, or list the word under `missing` or `recode`.",
    )


def _once(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
