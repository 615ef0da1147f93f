"""What the steward should know of the data before anybody learns from it. It is counted from records: never sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from crossward.errors import CrosswardError, OneClass
from crossward.learning.encoding.tables import Column
from crossward.learning.encoding.values import is_missing, spot_of
from crossward.privacy.noise import Array
from crossward.study import Study
from crossward_site.vault.mapping import DataMap
from crossward_site.vault.persons import Persons
from crossward_site.vault.places import Raw


def table_report(raw: Raw, persons: Persons, columns: list[str]) -> dict[str, Any]:
    """Rows, persons, records beyond m, and the values missing in each column."""
    return {
        "rows": raw.rows,
        "persons": len(persons.rows_of),
        "records_dropped": persons.dropped,
        "columns": columns,
        "missing": {name: _missing(column) for name, column in raw.columns.items()},
    }


def _missing(column: Column) -> int:
    values = column if isinstance(column, list) else column.tolist()
    return sum(1 for value in values if is_missing(value))


def encode(study: Study, mapping: DataMap, raw: Raw) -> tuple[Array, Array, dict[str, Any]]:
    """Every row, encoded, with its label; and how the data fit the study. Refusals name place, line and column."""
    table, labels, label = mapping.features_of(study, raw), mapping.label_of(study, raw), study.label
    try:
        X, found = study.schema.encode_with_report(table)
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
    counts: Mapping[str, Any] = found.features
    features = {name: {"missing": count.missing, "clipped": count.clipped} for name, count in counts.items()}
    return X, y, {"study": study.id, "rows": len(y), "positives": positives, "features": features}


def _placed(error: CrosswardError, raw: Raw, column: Callable[[str], str]) -> CrosswardError:
    """The error in the words of the place: its own lines and columns, not the rows and features of the encoding."""
    spot = spot_of(error)
    if spot is None:
        return type(error)(f"{raw.where}: {error.cause}", error.fix)
    return type(error)(f"{raw.where}, {raw.row_name(spot.row)}: column {column(spot.name)} {spot.said}", error.fix)
