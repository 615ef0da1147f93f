"""The schema of a study: which features a record has, and how a table of records becomes a matrix.

Everything here is public and fixed before a record is read. Row i of the matrix depends on record i alone: no mean, no
largest value, no list of levels is taken from the data, so neighbours differ in one row and in nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

import numpy as np

from crossward.errors import InvalidSetting
from crossward.learning.encoding.kinds import Category, Counts, Feature, Flag, Number
from crossward.learning.encoding.labels import Value, encode_labels
from crossward.learning.encoding.tables import read_columns
from crossward.privacy.noise import Array

__all__ = ["Category", "Counts", "DataReport", "Feature", "Flag", "Number", "Schema"]

KINDS: dict[str, type[Feature]] = {"number": Number, "category": Category, "flag": Flag}


@dataclass(frozen=True, slots=True)
class DataReport:
    """How a site's table fits the schema: rows, and per feature the values missing and the values clipped.

    Private to the site. The counts come from records, so showing them elsewhere would be a release nobody paid for.
    """

    rows: int
    features: dict[str, Counts]


@dataclass(frozen=True, slots=True)
class Schema:
    """The features of a study in their public order."""

    features: tuple[Feature, ...]

    def __post_init__(self) -> None:
        features = tuple(self.features)
        if not features or not all(isinstance(feature, Feature) for feature in features):
            raise InvalidSetting("A schema lists features: numbers, categories or flags.", "Give at least one.")
        object.__setattr__(self, "features", features)
        for what, names in (("feature", [feature.name for feature in features]), ("encoded column", self.columns)):
            if repeated := sorted(name for name, times in Counter(names).items() if times > 1):
                raise InvalidSetting(f"The schema names the {what} {', '.join(repeated)} twice.", "Rename one of them.")

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the encoded columns: "age", or "smoker=never" for a level."""
        return tuple(column for feature in self.features for column in feature.columns())

    @property
    def column_features(self) -> tuple[str, ...]:
        """The feature that each encoded column belongs to."""
        return tuple(feature.name for feature in self.features for _ in feature.columns())

    @property
    def importance(self) -> tuple[float, ...]:
        """The importance of each encoded column: that of its feature."""
        return tuple(feature.importance for feature in self.features for _ in feature.columns())

    @property
    def directions(self) -> tuple[float, ...]:
        """The declared direction of each encoded column's effect, from -1 to +1; 0 where nobody said."""
        return tuple(direction for feature in self.features for direction in feature.directions())

    def encode(self, table: Any) -> Array:
        """The encoded records (n, columns), within [-1, 1]. `table`: columns by name, or a list of records."""
        return self.encode_with_report(table)[0]

    def encode_with_report(self, table: Any) -> tuple[Array, DataReport]:
        """The encoded records, and a report that must stay at the site."""
        table_columns = read_columns(table, [feature.name for feature in self.features])
        rows = len(table_columns[self.features[0].name])
        X = np.empty((rows, len(self.columns)), order="F")  # written by column: three times as fast as by row
        counts, start = {}, 0
        for feature in self.features:
            stop = start + len(feature.columns())
            counts[feature.name] = feature.encode(table_columns[feature.name], X[:, start:stop])
            start = stop
        return np.ascontiguousarray(X), DataReport(rows, counts)

    @staticmethod
    def encode_labels(values: Any, positive: Value = True, negative: Value | None = None) -> Array:
        """+1 where a value is `positive`, -1 where it is `negative` (if None: anything else, but never missing)."""
        return encode_labels(values, positive, negative)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, complete: `from_dict` gives the same schema back."""
        return {"features": [_plain(feature) for feature in self.features]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schema:
        """A schema from plain JSON values. Unknown keys are refused: a misspelt one must not fall back unseen."""
        _check_keys("The schema", data, required={"features"}, known={"features"})
        listed = data["features"]
        if not isinstance(listed, list | tuple):
            raise InvalidSetting(f"'features' is a {type(listed).__name__}.", "Give a list of features.")
        return cls(tuple(_feature(f"Feature {position}", entry) for position, entry in enumerate(listed, start=1)))


def _plain(feature: Feature) -> dict[str, Any]:
    values = asdict(feature)
    return {"kind": feature.kind} | {key: list(v) if isinstance(v, tuple) else v for key, v in values.items()}


def _feature(where: str, entry: Any) -> Feature:
    if not isinstance(entry, Mapping) or entry.get("kind") not in KINDS:
        raise InvalidSetting(f"{where} has no known kind: {entry!r}.", f"Give 'kind' as one of {', '.join(KINDS)}.")
    kind = KINDS[entry["kind"]]
    required = {field.name for field in fields(kind) if field.default is MISSING}
    known = {field.name for field in fields(kind)} | {"kind"}
    _check_keys(f"{where} ({entry.get('name', 'no name')})", entry, required, known)
    return kind(**{key: value for key, value in entry.items() if key != "kind"})


def _check_keys(where: str, data: Any, required: set[str], known: set[str]) -> None:
    if not isinstance(data, Mapping):
        raise InvalidSetting(f"{where} is a {type(data).__name__}.", "Give a mapping.")
    if unknown := [key for key in data if key not in known]:
        listed = ", ".join(repr(key) for key in unknown)
        raise InvalidSetting(f"{where} has the unknown key {listed}.", f"Known are {', '.join(sorted(known))}.")
    if missing := sorted(required - data.keys()):
        raise InvalidSetting(f"{where} lacks {', '.join(missing)}.", "Add what is missing.")
