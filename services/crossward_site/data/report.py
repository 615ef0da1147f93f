"""What the steward should know of the data before anybody learns from it. It is counted from records: never sent."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from crossward.errors import CrosswardError, InvalidData, OneClass
from crossward.learning.encoding.tables import Column
from crossward.learning.encoding.values import is_missing, number_of, spot_of
from crossward.privacy.noise import Array
from crossward.study import Study
from crossward.study.features import NumberFeature
from crossward_service.http.views import View
from crossward_site.data.mapping import ColumnMap, DataMap
from crossward_site.data.persons import Persons
from crossward_site.data.places import Raw


class FeatureFit(View):
    """Values of a feature that were missing, and that lay outside of its range."""

    missing: int
    clipped: int


class StudyFit(View):
    """How data fit a study."""

    study: str
    rows: int
    positives: int
    features: dict[str, FeatureFit]


class TableReport(View):
    """Rows, persons, records beyond m, and the values missing in each column; with a study, how the data fit it."""

    rows: int
    persons: int
    records_dropped: int
    columns: tuple[str, ...]
    missing: dict[str, int]
    fit: StudyFit | None = None


class ReportView(TableReport):
    """The report of a dataset's version; with a study, how the data fit it now.

    `persons_in_two_datasets` have the budget of another dataset too.
    """

    dataset: str
    version: int
    persons_in_two_datasets: int

    @classmethod
    def of(cls, dataset: str, version: int, report: TableReport, fit: StudyFit | None, twice: int) -> Self:
        """A stored report, with what is counted when it is asked for."""
        stored = {name: getattr(report, name) for name in TableReport.model_fields} | {"fit": fit}
        return cls(dataset=dataset, version=version, persons_in_two_datasets=twice, **stored)


@dataclass(frozen=True, slots=True)
class Encoded:
    """Every row, encoded, with its label; and how the data fit the study."""

    X: Array
    y: Array
    fit: StudyFit


def table_report(raw: Raw, persons: Persons, columns: list[str], fit: StudyFit | None = None) -> TableReport:
    """What was counted as the data were read."""
    return TableReport(
        rows=raw.rows,
        persons=len(persons.records_of),
        records_dropped=persons.dropped,
        columns=tuple(columns),
        missing={name: _missing(column) for name, column in raw.columns.items()},
        fit=fit,
    )


def _missing(column: Column) -> int:
    values = column if isinstance(column, list) else column.tolist()
    return sum(1 for value in values if is_missing(value))


def encode(study: Study, mapping: DataMap, raw: Raw) -> Encoded:
    """Encode every record for a study. Refusals name place, line and column."""
    table, labels, label = _features(study, mapping, raw), _labels(study, mapping, raw), study.label
    try:
        X, report = study.schema.encode_with_report(table)
    except CrosswardError as error:
        raise _placed(error, raw, lambda name: f"{mapping.of_feature(name).column!r} (feature {name!r})") from None
    try:
        y = study.schema.encode_labels(labels, label.positive, label.negative)
    except CrosswardError as error:
        raise _placed(error, raw, lambda _: f"{mapping.of_label(label.name).column!r} (label {label.name!r})") from None
    positives = int(np.count_nonzero(y > 0))
    if positives in (0, len(y)):
        which = "positive" if positives else "negative"
        raise OneClass(
            f"{raw.where}: all {len(y)} labels {study.label.name!r} (column "
            f"{mapping.of_label(study.label.name).column!r}) are {which}.",
            "Bring records of both classes, or correct the label's recoding.",
        )
    features = {
        name: FeatureFit(missing=count.missing, clipped=count.clipped) for name, count in report.features.items()
    }
    return Encoded(X, y, StudyFit(study=study.id, rows=len(y), positives=positives, features=features))


def _placed(error: CrosswardError, raw: Raw, column: Callable[[str], str]) -> CrosswardError:
    """The error in the words of the place: its own lines and columns, not the rows and features of the encoding."""
    spot = spot_of(error)
    if spot is None:
        return type(error)(f"{raw.where}: {error.cause}", error.fix)
    return type(error)(f"{raw.where}, {raw.row_name(spot.row)}: column {column(spot.name)} {spot.said}", error.fix)


def recoded(column: Column, mapping: DataMap, mapped: ColumnMap) -> list[Any]:
    """The values in the study's words."""
    codes = mapping.codes(mapped)
    return [codes.read(value)[0] for value in (column if isinstance(column, list) else column.tolist())]


def _features(study: Study, mapping: DataMap, raw: Raw) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    for feature in study.features:
        mapped = mapping.of_feature(feature.name)
        column = recoded(raw.columns[mapped.column], mapping, mapped)
        if isinstance(feature, NumberFeature):
            factor, offset = mapped.conversion(feature.name, feature.unit)
            columns[feature.name] = factor * _numbers(raw, mapped.column, feature.name, column) + offset
        else:
            columns[feature.name] = column
    return columns


def _labels(study: Study, mapping: DataMap, raw: Raw) -> list[Any]:
    mapped = mapping.of_label(study.label.name)
    read = recoded(raw.columns[mapped.column], mapping, mapped)
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
    numbers = [number_of(value) for value in values]
    for row, number in enumerate(numbers):
        if number is None or math.isinf(number):
            raise InvalidData(
                f"{raw.where}, {raw.row_name(row)}: column {column!r} (feature {feature!r}) is {values[row]!r}, which "
                "is no number.",
                "Correct it, leave it empty, or list the word under `missing` or `recode`.",
            )
    return np.array(numbers, dtype=np.float64)
