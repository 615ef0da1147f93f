"""One way in for records: total, record by record, and the library's own reading wherever that one accepts."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossward.errors import InvalidData, InvalidSetting
from crossward.learning.encoding import Category, Flag, Number, Schema
from crossward.study import study_for
from crossward_site.data.mapping import DataMap, value_text
from crossward_site.data.reading import Reader, column_of, nearest
from crossward_site.data.sealed import compact

SCHEMA = Schema(
    (
        Number("glucose", 3.5, 7.5, "mmol/L", default=5.5),
        Number("bmi", 16, 34, "kg/m2"),
        Category("grade", ("1", "2", "10"), default="1"),
        Category("smoker", ("never", "former", "current")),
        Flag("family", default=False),
    )
)
LABEL = {"name": "ill", "positive": "yes", "negative": "no"}
STUDY = study_for(SCHEMA, label=LABEL)
MAPPING = {
    "person": "id",
    "missing": ["NA", " -9 "],
    "features": {
        "glucose": {"column": "GLU", "unit": "mg/dL", "substance": "glucose"},
        "bmi": {"column": "bmi", "recode": {"thin": 18.5, "-8": None, "7": 20}},
        "smoker": {"column": "smokes", "recode": {"N": "never", "0": "former", "x": None}},
        "family": {"column": "family", "recode": {"J": True}},
    },
    "labels": {"ill": {"column": "ill", "recode": {"1": "yes", "0": "no"}}},
}
READER = Reader(STUDY, DataMap.from_data(MAPPING))


def strict(record: dict[str, Any]) -> tuple[np.ndarray, float] | None:
    """The library's own reading of one record, after the mapping's words; None where it refuses."""
    values = {}
    for feature in SCHEMA.features:
        mapped = MAPPING["features"].get(feature.name, {"column": feature.name})
        values[feature.name] = _recoded(record[mapped["column"]], mapped.get("recode", {}))
    try:
        if not isinstance(values["glucose"], str):
            scaled = values["glucose"]
        else:
            scaled = float(values["glucose"]) if values["glucose"].strip() else None
        values["glucose"] = None if scaled is None else (1 / 18.016) * scaled
        ill = _recoded(record["ill"], MAPPING["labels"]["ill"]["recode"])
        return SCHEMA.encode([values])[0], SCHEMA.encode_labels([ill], "yes", "no")[0]
    except (ValueError, TypeError, OverflowError):
        return None


def _recoded(value: Any, recode: dict[str, Any]) -> Any:
    if value is None or value != value:  # noqa: PLR0124
        return None
    words = (
        {"NA": None, "-9": None, "-9.0": None} | recode | {f"{k}.0": v for k, v in recode.items() if k[-1].isdigit()}
    )
    return words.get(value_text(value), value)


def same(one: Any, other: Any) -> None:
    np.testing.assert_array_equal(one.X, other.X)
    np.testing.assert_array_equal(one.y, other.y)
    for name in one.notes:
        for what in ("missing", "unread", "clipped", "recoded", "implausible", "odd_unit"):
            np.testing.assert_array_equal(getattr(one.notes[name], what), getattr(other.notes[name], what))
        assert one.notes[name].likely == other.notes[name].likely


ODD = ["", "  ", "NA", " NA", "na", "-9", "-9.0", "<0.3", "5,4", "inf", "-Infinity", "nan", "1e999", "1_0", "0x1", "٣"]
WORDS = [
    "never",
    "former",
    "current",
    "N",
    "x",
    "0",
    "1",
    "2",
    "10",
    "2.0",
    "yes",
    "No",
    " TRUE",
    "J",
    "thin",
    "7.0",
    "-8",
]
texts = st.one_of(
    st.sampled_from(ODD + WORDS),
    st.floats().map(str),
    st.integers(-(10**20), 10**20).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-999, max_value=999).map(str),
    st.sampled_from(["+5.", " 7", ".5", "+.5", "1.e1", "-0", "5.e-1 ", "\t126\n", "90.5"]),
    st.text(max_size=6),
)
COLUMNS = ("GLU", "bmi", "grade", "smokes", "family", "ill")
numbers = st.one_of(
    st.none(), st.floats(), st.integers(-30, 200).map(float), st.sampled_from([-9.0, -8.0, 7.0, 126.0, 1.0, 0.0])
)


def records(values: Any) -> Any:
    return st.lists(st.fixed_dictionaries(dict.fromkeys(COLUMNS, values)), min_size=1, max_size=20)


@settings(max_examples=300)
@given(st.one_of(records(st.one_of(st.none(), texts)), records(numbers)), st.data())
def test_a_record_is_read_the_same_alone_in_any_batch_and_as_the_library_reads_it(rows, data) -> None:
    table = pa.table({name: pa.array([row[name] for row in rows]) for name in COLUMNS})
    whole = READER.read(table)
    assert np.all(np.isfinite(whole.X))
    assert np.all(np.abs(whole.X) <= 1)
    cut = data.draw(st.integers(0, len(rows)))
    parts = [READER.read(table.slice(0, cut)), READER.read(table.slice(cut))]
    np.testing.assert_array_equal(np.vstack([part.X for part in parts]), whole.X)
    np.testing.assert_array_equal(np.concatenate([part.y for part in parts]), whole.y)
    for name, notes in whole.notes.items():
        for what in ("missing", "unread", "clipped", "recoded", "odd_unit"):
            first, second = (getattr(part.notes[name], what) for part in parts)
            np.testing.assert_array_equal(np.concatenate([first, second + cut]), getattr(notes, what))
    for number, row in enumerate(rows):
        expected = strict(row)
        if expected is not None:
            np.testing.assert_array_equal(whole.X[number], expected[0])
            assert whole.y[number] == expected[1]
    room = READER.room_for(len(rows) + 3)
    room[:] = np.nan
    np.testing.assert_array_equal(READER.read(table, room=room).X, whole.X)
    for part in READER.features:
        judged = part.judge(part.read(column_of(table, part.column)))
        for what in ("missing", "unread", "clipped", "recoded", "implausible", "odd_unit"):
            np.testing.assert_array_equal(getattr(judged, what), getattr(whole.notes[part.name], what))
    one_by_one = READER.read_records(rows)
    np.testing.assert_array_equal(one_by_one.X, whole.X)
    for name, notes in whole.notes.items():
        for what in ("missing", "unread", "clipped", "recoded", "odd_unit"):
            np.testing.assert_array_equal(getattr(one_by_one.notes[name], what), getattr(notes, what))


def read(name: str, values: Any, decimal: str = ".", **mapped: Any) -> Any:
    """One feature alone."""
    [feature] = [feature for feature in SCHEMA.features if feature.name == name]
    study = study_for(Schema((feature,)), method="direct", sources=())
    mapping = {"person": "id", "missing": ["NA", "-9"], "features": {name: {"column": name, **mapped}}}
    column = values if isinstance(values, pa.Array) else pa.array(values)
    reading = Reader(study, DataMap.from_data(mapping), decimal).read(pa.table({name: column}), labels=False)
    return reading.X, reading.notes[name]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([5.5, None, math.nan, 7.0, 3.0, -9.0]),
        pa.array([5.5, None, math.nan, 7.0, 3.0, -9.0], pa.float32()),
        pa.array(["5.5", None, "", " 7.0", "3", "-9"]),
        pa.array(["5.5", None, "", "7", "3", "-9.0"], pa.large_string()),
        pa.array(["5.5", None, " ", "7", "3", "NA"]).dictionary_encode(),
        pa.array([Decimal("5.5"), None, None, Decimal("7"), Decimal("3.00"), Decimal("-9.00")], pa.decimal128(9, 2)),
        pa.array([None, 5.5, None, None, 7.0, 3.0, -9.0]).slice(1),
    ],
    ids=lambda column: str(column.type),
)
def test_every_type_of_column_gives_the_same_numbers(column) -> None:
    X, notes = read("glucose", column)
    np.testing.assert_array_equal(X[:, 0], [0, 0, 0, 0.75, -1, 0])
    assert notes.missing.tolist() == [1, 2, 5]
    assert notes.clipped.tolist() == [4]
    assert len(notes.unread) == 0


def test_whole_numbers_flags_and_dates_among_numbers() -> None:
    assert read("bmi", pa.array([25, None, 16, 2**62]))[0][:, 0].tolist() == [0, 0, -1, 1]
    assert read("bmi", pa.array([True, False, None]))[0][:, 0].tolist() == [-1, -1, 0]
    X, notes = read("bmi", pa.array([datetime.date(2020, 1, 2), None]))
    assert (X[:, 0].tolist(), notes.unread.tolist(), notes.missing.tolist()) == ([0, 0], [0], [1])
    X, notes = read("bmi", pa.array([[1], None]))
    assert (X[:, 0].tolist(), notes.unread.tolist(), notes.missing.tolist()) == ([0, 0], [0], [1])
    assert read("bmi", pa.nulls(3))[1].missing.tolist() == [0, 1, 2]
    assert read("smoker", pa.nulls(3))[1].missing.tolist() == [0, 1, 2]
    assert read("smoker", pa.array([[1], None]))[1].unread.tolist() == [0]
    assert read("grade", pa.array([b"1", None]))[1].unread.tolist() == [0]
    moment = pa.array([0, None], pa.timestamp("ns", "Nowhere/Nothing"))
    assert read("bmi", moment)[1].unread.tolist() == [0]
    assert read("bmi", pa.array([], pa.string()))[0].shape == (0, 1)


def test_what_cannot_be_read_is_noted_and_takes_the_default() -> None:
    X, notes = read("glucose", ["<0.3", "5,4", math.inf.__str__(), "1e999", "6.5", "12.05.2020"])
    assert notes.unread.tolist() == [0, 1, 2, 3, 5]
    assert X[:, 0].tolist() == [0, 0, 0, 0, 0.5, 0]
    X, notes = read("smoker", ["never", "Never", "pipe", None, "N"], recode={"N": "never"})
    assert notes.unread.tolist() == [1, 2]
    assert (notes.missing.tolist(), notes.recoded.tolist()) == ([3], [4])
    assert X.tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [1, 0, 0]]
    assert read("grade", ["2", None, "4"])[0].tolist() == [[0, 1, 0], [1, 0, 0], [1, 0, 0]]
    assert read("grade", pa.array([2.0, 10.0]))[0].tolist() == [[0, 1, 0], [0, 0, 1]]


def test_decimal_commas_where_they_are_said_to_be() -> None:
    X, notes = read("glucose", ["5,5", "7", "6.5", "1.234,5", "-9,0", "", "3,", "1,2,3"], decimal=",")
    assert X[:, 0].tolist() == [0, 0.75, 0, 0, 0, 0, -1, 0]
    assert (notes.unread.tolist(), notes.missing.tolist()) == ([2, 3, 7], [4, 5])
    assert read("glucose", ["5,5", "7"], decimal=",", recode={"5,5": 7.5})[0][:, 0].tolist() == [1, 0.75]


WHOLE = ["0", "1", "2", "7", "10", "126", "-0", "-8", "-9", "99999999999999999999", "9007199254740993"]
REAL = ["0.0", "1.0", "2.0", "7.0", "10.0", "-0.0", "-9.0", "0.5", "1.5", "5.5", "5.50", "90.5", "1,0", "1,5", "5,5"]
EXTREME = ["1e3", "1000000000000000.0", "123456789012345.6", "0.0001", "0.00001", "inf", "nan"]
POOL = st.sampled_from([*WHOLE, *REAL, *EXTREME, "NA", "yes", "no", "True", "J", "N", "thin", "<0.3"])


@settings(max_examples=300)
@given(st.lists(POOL, min_size=1, max_size=3), st.sampled_from(".,"), st.data())
def test_a_sealed_copy_is_read_as_the_table_itself(pool, decimal, data) -> None:
    """However a batch is kept: no record decides what those beside it mean."""
    names = ("GLU", "bmi", "grade", "smokes", "family", "ill")
    cells = st.lists(st.none() | st.sampled_from(pool), min_size=4, max_size=4)
    whole = pa.record_batch({name: pa.array(data.draw(cells), pa.string()) for name in names})
    kept = pa.RecordBatch.from_arrays([compact(column, decimal) for column in whole.columns], list(names))
    reader = Reader(STUDY, DataMap.from_data(MAPPING), decimal)
    table, copy = reader.read(whole), reader.read(kept)
    assert np.array_equal(table.X, copy.X)
    assert np.array_equal(table.y, copy.y)
    for row in range(4):
        assert np.array_equal(reader.read(whole.slice(row, 1)).X, copy.X[row : row + 1])


def test_units_that_look_wrong_and_values_that_cannot_be() -> None:
    _, notes = read("glucose", [5.0, 126.0, 90.0, 8.0, 1000.0, -3.0])
    assert (notes.odd_unit.tolist(), notes.likely) == ([1, 2], ("mg/dL", "mg/dL"))
    assert notes.clipped.tolist() == [1, 2, 3, 4, 5]
    _, notes = read("glucose", [126.0, 6.0, 1000.0], unit="mg/dL", substance="glucose")
    assert (notes.odd_unit.tolist(), notes.likely) == ([1], ("mmol/L",))
    feature = {"kind": "number", "name": "glucose", "low": 3.5, "high": 7.5, "unit": "mmol/L", "plausible": [1, 40]}
    study = study_for(SCHEMA, method="direct", sources=(), features=[feature])
    reading = Reader(study, DataMap(person="id")).read(pa.table({"glucose": [0.5, 1.0, 40.0, 41.0]}), labels=False)
    assert reading.notes["glucose"].implausible.tolist() == [0, 3]


def test_labels() -> None:
    table = {name: pa.nulls(5) for name in COLUMNS} | {"ill": pa.array(["1", "no", None, "perhaps", "yes"])}
    reading = READER.read(pa.table(table))
    assert reading.y.tolist() == [1, -1, 0, 0, 1]
    assert (reading.label.missing.tolist(), reading.label.unread.tolist()) == ([2], [3])


def test_columns_are_named_and_units_must_fit() -> None:
    assert READER.columns == ("GLU", "bmi", "grade", "smokes", "family", "ill")
    with pytest.raises(InvalidData, match=r"no column 'bmi', 'grade'.*Did you mean 'BMI'"):
        READER.read(pa.table({"GLU": [1], "BMI": [1], "smokes": [1], "family": [1], "ill": [1]}))
    with pytest.raises(InvalidData, match="Record 2 has no column 'GLU'"):
        READER.read_records([dict.fromkeys(COLUMNS), dict.fromkeys(COLUMNS[1:])])
    wrong = {"person": "id", "features": {"bmi": {"column": "bmi", "unit": "mmHg"}}}
    with pytest.raises(InvalidSetting, match="bmi"):
        Reader(STUDY, DataMap.from_data(wrong))


def test_a_mapping_says_which_entries_there_are_and_takes_numbers_for_missing() -> None:
    with pytest.raises(InvalidSetting, match=r"'feature', 'id'.*Is it features\? There are person, record, missing"):
        DataMap.from_data({"person": "p", "feature": {}, "id": "x"})
    with pytest.raises(InvalidSetting, match=r"features.bmi: .*'colum'.*Is it column"):
        DataMap.from_data({"person": "p", "features": {"bmi": {"colum": "BMI"}}})
    assert DataMap.from_data({"person": "p", "missing": ["NA", -99, 9.5, 7.0]}).missing == ("NA", "-99", "9.5", "7")
    assert DataMap.from_data({"person": "p", "missing": "k.A."}).missing == ("k.A.",)
    with pytest.raises(InvalidSetting, match="missing"):
        DataMap.from_data({"person": "p", "missing": [False]})  # what YAML makes of `no`


def test_names_that_are_spelled_alike() -> None:
    assert nearest("glucose", ["id", "Glucose "]) == "Glucose "
    assert nearest("glucose", ["id", "glucsoe_"]) == "glucsoe_"
    assert nearest("glucose", ["id", "bmi"]) is None
