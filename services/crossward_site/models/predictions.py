"""What a model says about records: a probability, a class, and what each part of the model added.

Records come in as they did for training, by the same reader: the site's own columns, units and codes, or the study's.
Nothing is guessed: what cannot be read, cannot be true, or looks to be in another unit is refused, and what was
missing, recoded or clipped is said with the prediction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

import pyarrow as pa

from crossward.errors import EmptyData, InvalidData
from crossward.study import Study
from crossward.study.features import NumberFeature
from crossward_connector.csv_files import CsvOptions, read_csv_bytes
from crossward_connector.tables import Limits, Opened
from crossward_site.data.mapping import DataMap
from crossward_site.data.reading import Reader, Reading
from crossward_site.models.service import Served
from crossward_site.models.views import Contribution, Prediction, Remark

Value = bool | int | float | str | None
Words = Literal["site", "study"]
"""Whose columns, units and codes records come in."""

MOST_RECORDS = 10_000
MOST_TOLD = 5
_AS_TEXT = CsvOptions(encoding="utf-8")
_LIMITS = Limits(columns=10_000, cell=1 << 16, memory=16 << 20)
"""A CSV that comes with a question is read in this process: none of its records is longer than about a megabyte."""


def predict(served: Served, records: Sequence[Mapping[str, Value]], words: Words = "site") -> list[Prediction]:
    """Probability, class and what each part added to the margin, for raw values.

    A part is a feature where there is one linear model, and a group of them where several are combined. `words`: a site
    that trained the model is asked in its own columns and units, by the mapping of its dataset, unless "study" is said.
    """
    mapping = _mapping(served, words)
    if not records:
        raise EmptyData("There are no records.", "Give at least one.")
    _check_words(served, mapping, records[0])
    reading = Reader(served.study, mapping).read_records(records)
    return _predictions(served, mapping, reading, lambda row: f"Record {row + 1}")


def predict_csv(served: Served, text: str, words: Words = "site") -> list[Prediction]:
    """The same for a CSV: how it is written is found by looking."""
    mapping = _mapping(served, words)
    wanted = [mapping.of_feature(feature.name).column for feature in served.study.features]
    data = text.encode("utf-8", "replace")
    _check_words(served, mapping, _read(data, None, lenient=True).form.names)
    table = _read(data, wanted)
    batches, rows = [], 0
    for batch in table.batches():
        batches.append(batch)
        rows += batch.num_rows
        if rows > MOST_RECORDS:
            raise InvalidData(f"The CSV has more than {MOST_RECORDS:,} records.", "Ask in several parts.")
    if not rows:
        raise EmptyData("The CSV has no records.", "Give at least one line after that of the column names.")
    reading = Reader(served.study, mapping, table.form.decimal).read(pa.Table.from_batches(batches), labels=False)
    return _predictions(served, mapping, reading, lambda row: f"Record {row + 1} ({table.line(row)})")


def _read(data: bytes, wanted: Sequence[str] | None, lenient: bool = False) -> Opened:
    return read_csv_bytes(data, wanted, _AS_TEXT, where="The CSV", limits=_LIMITS, lenient=lenient)


def _mapping(served: Served, words: Words) -> DataMap:
    # One that names no feature takes each as it is, from the column of its name.
    return DataMap(person="person") if served.mapping is None or words == "study" else served.mapping


def _check_words(served: Served, mapping: DataMap, there: Iterable[str]) -> None:
    """Refuse records that come in the study's names where the site's own are asked for: units may differ too."""
    names = set(there)
    features = {feature.name: mapping.of_feature(feature.name).column for feature in served.study.features}
    if names >= features.keys() and (lost := sorted(set(features.values()) - names)):
        shown = ", ".join(map(repr, lost[:MOST_TOLD]))
        raise InvalidData(
            f"The records come in the study's names, not in this site's: there is no column {shown}.",
            "If their units and codes are the study's too, say `--study-words` (by HTTP, `words: study`).",
        )


def _predictions(served: Served, mapping: DataMap, reading: Reading, name: Callable[[int], str]) -> list[Prediction]:
    _check(served.study, mapping, reading, name)
    schema, model, X = served.study.schema, served.model, reading.X
    explained = model.contributions(X).by_owner(schema.column_features)
    parts = [
        (part.name, list(dict.fromkeys(schema.column_features[column] for column in part.columns)))
        for part in explained.parts
    ]
    remarks = _remarks(served.study, reading)
    return [
        Prediction(
            probability=float(chance),
            positive=bool(margin > 0),
            contributions=[
                Contribution(group=name, features=features, contribution=float(amount))
                for (name, features), amount in zip(parts, row, strict=True)
            ],
            remarks=remarks[number],
        )
        for number, (chance, margin, row) in enumerate(
            zip(model.scores(X), model.margins(X), explained.values, strict=True)
        )
    ]


# -- what is refused --------------------------------------------------------------------------------------------------
def _check(study: Study, mapping: DataMap, reading: Reading, name: Callable[[int], str]) -> None:
    """Refuse records whose prediction would stand on a guess. No value is quoted."""
    refusals = sorted(_refusals(study, mapping, reading))
    if not refusals:
        return
    told = " ".join(f"{name(row)}: {cause}" for row, cause in refusals[:MOST_TOLD])
    more = f" And {len(refusals) - MOST_TOLD} more." if len(refusals) > MOST_TOLD else ""
    raise InvalidData(f"{told}{more}", "Correct these values or, where the study has a default, leave them empty.")


def _refusals(study: Study, mapping: DataMap, reading: Reading) -> Iterator[tuple[int, str]]:
    for feature in study.features:
        notes, column = reading.notes[feature.name], mapping.of_feature(feature.name).column
        what = repr(feature.name) if column == feature.name else f"{feature.name!r} (column {column!r})"
        meant = "a number" if isinstance(feature, NumberFeature) else "one of the values that the study lists"
        for row in notes.unread:
            yield int(row), f"{what} is not {meant}."
        for row in notes.missing if feature.default is None else ():
            yield int(row), f"{what} is missing, and the study has no default."
        if isinstance(feature, NumberFeature):
            odd = dict(zip(notes.odd_unit.tolist(), notes.likely, strict=True))
            unit = mapping.of_feature(feature.name).unit or feature.unit
            for row, likely in odd.items():
                yield row, f"{what} looks like {likely}, where {unit} is meant."
            for row in notes.implausible if feature.plausible else ():
                if row not in odd:
                    low, high = feature.plausible or (0.0, 0.0)
                    yield int(row), f"{what} is not plausible: beyond {low:g} to {high:g} {feature.unit}".rstrip() + "."


# -- what is said -----------------------------------------------------------------------------------------------------
def _remarks(study: Study, reading: Reading) -> dict[int, list[Remark]]:
    remarks: dict[int, list[Remark]] = defaultdict(list)
    start = 0
    for feature in study.features:
        notes = reading.notes[feature.name]
        for row in notes.missing.tolist():
            remarks[row].append(Remark(feature=feature.name, what="missing", used=feature.default))
        for row in notes.recoded.tolist():
            remarks[row].append(Remark(feature=feature.name, what="recoded", used=None))
        if isinstance(feature, NumberFeature):
            for row in notes.clipped.tolist():
                bound = feature.high if reading.X[row, start] > 0 else feature.low
                remarks[row].append(Remark(feature=feature.name, what="clipped", used=bound))
        start += len(feature.feature().columns())
    return remarks
