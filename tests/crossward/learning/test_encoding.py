"""Encoding by a public schema: what each value becomes, what is refused, and that a record is read on its own."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossward.errors import (
    EmptyData,
    InvalidBounds,
    InvalidData,
    InvalidImportance,
    InvalidSetting,
    NotFinite,
    UnknownCategory,
    WrongShape,
)
from crossward.learning.encoding import Category, Flag, Number, Schema

SCHEMA = Schema(
    (
        Number("age", 40, 80, "years", default=60, importance=0.5),
        Category("smoker", ("never", "former", "current"), default="never", importance=0.3),
        Flag("famdm", default=False, importance=0.2),
    )
)
TABLE = {"age": [40, 60.0, 95], "smoker": ["never", "current", "former"], "famdm": [True, "No", 1], "note": ["x"]}
MATRIX = [[-1, 1, 0, 0, 1], [0, 0, 0, 1, 0], [1, 0, 1, 0, 1]]


class NAType:
    """Stands in for a data frame library's missing value, which answers no comparison."""

    def __eq__(self, other: object) -> bool:
        raise TypeError

    __hash__ = None  # type: ignore[assignment]


class Frame:
    """A data frame as far as encoding is concerned: columns by name, which turn into arrays."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self._columns = {name: Series(values) for name, values in columns.items()}

    def __getitem__(self, name: str) -> Any:
        return self._columns[name]


class Series:
    def __init__(self, values: Any) -> None:
        self._values = values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self._values, dtype=dtype)


def one(feature: Number | Category | Flag, *values: Any) -> np.ndarray:
    return Schema((feature,)).encode({feature.name: list(values)})


# What values become


def test_columns_importance_and_features_follow_the_schema() -> None:
    assert SCHEMA.columns == ("age", "smoker=never", "smoker=former", "smoker=current", "famdm")
    assert SCHEMA.importance == (0.5, 0.3, 0.3, 0.3, 0.2)
    assert SCHEMA.column_features == ("age", "smoker", "smoker", "smoker", "famdm")


def _rows(table: dict[str, Any]) -> list[dict[str, Any]]:
    names = ["age", "smoker", "famdm"]
    return [dict(zip(names, values, strict=True)) for values in zip(*(table[name] for name in names), strict=True)]


STRUCTURED = np.array(
    [(40, "never", True), (60, "current", False), (95, "former", True)],
    dtype=[("age", "f4"), ("smoker", "U8"), ("famdm", "?")],
)


@pytest.mark.parametrize("table", [TABLE, _rows(TABLE), tuple(_rows(TABLE)), STRUCTURED, Frame(TABLE)])
def test_every_kind_of_table_gives_the_same_matrix(table: Any) -> None:
    X = SCHEMA.encode(table)
    assert X.dtype == np.float64
    assert X.flags.c_contiguous
    np.testing.assert_array_equal(X, MATRIX)


def test_report_counts_missing_and_clipped() -> None:
    table = {"age": [30, None, 95, 50], "smoker": ["never", "", None, "never"], "famdm": [0, 1, math.nan, 1]}
    X, report = SCHEMA.encode_with_report(table)
    assert report.rows == 4
    assert {name: (c.missing, c.clipped) for name, c in report.features.items()} == {
        "age": (1, 2),
        "smoker": (2, 0),
        "famdm": (1, 0),
    }
    np.testing.assert_array_equal(X[:, 0], [-1, 0, 1, -0.5])
    assert X[2, 4] == 0


MISSING = [None, math.nan, np.float32("nan"), "", "  ", NAType()]


@pytest.mark.parametrize("missing", MISSING, ids=lambda value: type(value).__name__ + str(value)[:3])
@pytest.mark.parametrize("feature", SCHEMA.features, ids=lambda feature: feature.kind)
def test_missing_takes_the_default(feature: Any, missing: Any) -> None:
    np.testing.assert_array_equal(one(feature, missing), one(feature, feature.default))


def test_a_mask_means_missing() -> None:
    masked = np.ma.masked_array([50.0, 70.0], mask=[False, True])
    np.testing.assert_array_equal(Schema((SCHEMA.features[0],)).encode({"age": masked})[:, 0], [-0.5, 0.0])


def test_flags_in_all_their_spellings() -> None:
    yes = [True, 1, 1.0, "true", "TRUE", "Yes", "1", np.True_, np.int8(1), " yes "]
    no = [False, 0, 0.0, "false", "False", "no", "0", np.False_, np.int8(0)]
    assert one(Flag("f"), *yes).all()
    assert not one(Flag("f"), *no).any()


def test_whole_numbers_stand_for_the_levels_that_write_them() -> None:
    grade = Category("grade", ("1", "2", "10"))
    expected = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    np.testing.assert_array_equal(one(grade, 1, "2", 10.0), expected)
    np.testing.assert_array_equal(Schema((grade,)).encode({"grade": np.array([1.0, 2.0, 10.0])}), expected)


def test_numbers_may_come_as_text() -> None:
    np.testing.assert_array_equal(one(Number("x", 0, 4, default=2), "1", " 3.0 ", "", None)[:, 0], [-0.5, 0.5, 0, 0])


# Labels


@pytest.mark.parametrize(
    ("values", "settings"),
    [
        ([True, False, True], {}),
        (np.array([1, 0, 1]), {}),
        (["yes", "No", "TRUE"], {}),
        ([0, 1, 0], {"positive": False}),
        ([1, -1, 1], {"positive": 1}),
        (["1", "0", "1"], {"positive": 1, "negative": 0}),
        ([1.0, 2.0, 1.0], {"positive": "1", "negative": "2"}),
        (["ill", "well", "ill"], {"positive": "ill"}),
        (["ill", "well", "ill"], {"positive": "ill", "negative": "well"}),
        ([0.5, 1.5, 0.5], {"positive": 0.5}),
    ],
)
def test_labels(values: Any, settings: dict[str, Any]) -> None:
    np.testing.assert_array_equal(SCHEMA.encode_labels(values, **settings), [1, -1, 1])


@pytest.mark.parametrize(
    ("values", "settings", "error"),
    [
        ([], {}, EmptyData),
        (["ill", "maybe"], {"positive": "ill", "negative": "well"}, UnknownCategory),
        (["ill", "maybe"], {}, UnknownCategory),
        (["ill", None], {"positive": "ill"}, InvalidData),
        ([1.0, math.nan], {"positive": 1}, InvalidData),
        (["a"], {"positive": "a", "negative": "a"}, InvalidSetting),
        ([1], {"positive": "1", "negative": 1}, InvalidSetting),
        (["a"], {"positive": ""}, InvalidSetting),
        ("ill", {"positive": "ill"}, WrongShape),
    ],
)
def test_labels_refused(values: Any, settings: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        SCHEMA.encode_labels(values, **settings)


# Data that is refused


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"age": [40, math.inf, 50]}, NotFinite, ["age", "row 1"]),
        ({"age": ["40", "-Infinity", "50"]}, NotFinite, ["age", "row 1"]),
        ({"age": [40, 50, "sixty"]}, InvalidData, ["age", "row 2", "'sixty'"]),
        ({"age": [40, [50], 60]}, InvalidData, ["age", "row 1", "[50]"]),
        ({"age": [40, 10**400, 60]}, InvalidData, ["age", "row 1"]),
        ({"smoker": ["never", "pipe", "never"]}, UnknownCategory, ["smoker", "'pipe'", "row 1", "former", "current"]),
        ({"smoker": ["never", ["never"], "never"]}, UnknownCategory, ["smoker", "row 1"]),
        ({"famdm": [0, 1, 2]}, UnknownCategory, ["famdm", "row 2", "yes"]),
        ({"age": [40, 50]}, WrongShape, ["age 2", "smoker 3"]),
        ({"age": np.zeros((3, 2))}, WrongShape, ["age"]),
        ({"age": 40}, WrongShape, ["age", "int"]),
        ({"smoker": "never"}, WrongShape, ["smoker", "str"]),
        ({"age": {40, 50, 60}}, WrongShape, ["age", "set"]),
        ({"age": np.array(["2020-01-01"] * 3, "M8[ns]")}, InvalidData, ["age", "datetime"]),
        ({"age": [], "smoker": [], "famdm": []}, EmptyData, ["no records"]),
    ],
)
def test_data_refused(change: dict[str, Any], error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as caught:
        SCHEMA.encode(TABLE | change)
    assert type(caught.value) is error
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    ("table", "error"),
    [
        ([], EmptyData),
        (STRUCTURED[:0], EmptyData),
        (np.zeros((3, 3)), WrongShape),
        ([1, 2], WrongShape),
        ("age", WrongShape),
        (None, WrongShape),
    ],
)
def test_tables_refused(table: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        SCHEMA.encode(table)


@pytest.mark.parametrize(
    "table", [{"age": [50]}, [{"age": 50}], Frame({"age": [50]}), np.array([(50,)], dtype=[("age", "f8")])]
)
def test_missing_columns_are_listed(table: Any) -> None:
    with pytest.raises(InvalidData, match="'smoker', 'famdm'"):
        SCHEMA.encode(table)


@pytest.mark.parametrize("feature", [Number("x", 0, 2), Category("x", ("0", "1")), Flag("x")])
def test_missing_without_a_default_names_feature_first_row_and_count(feature: Any) -> None:
    with pytest.raises(InvalidData, match=r"'x' is missing in 2 of 4 rows, first in row 1 "):
        one(feature, 1, None, "", 0)


# Schemas that are refused


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Number("x", 1, 1), InvalidBounds),
        (lambda: Number("x", 2, 1), InvalidBounds),
        (lambda: Number("x", 0, math.inf), InvalidBounds),
        (lambda: Number("x", math.nan, 1), InvalidBounds),
        (lambda: Number("x", -1.7e308, 1.7e308), InvalidBounds),
        (lambda: Number("x", "0", 1), InvalidBounds),
        (lambda: Number("x", False, True), InvalidBounds),
        (lambda: Number("x", 0, 1, unit=3), InvalidSetting),
        (lambda: Number("x", 0, 1, default=2), InvalidSetting),
        (lambda: Number("x", 0, 1, default=math.nan), InvalidSetting),
        (lambda: Number("x", 0, 1, importance=-0.1), InvalidImportance),
        (lambda: Flag("x", importance=math.inf), InvalidImportance),
        (lambda: Flag("x", importance="high"), InvalidImportance),
        (lambda: Flag("x", default=1), InvalidSetting),
        (lambda: Flag(" "), InvalidSetting),
        (lambda: Category("x", ("a", "a")), InvalidSetting),
        (lambda: Category("x", ("a",)), InvalidSetting),
        (lambda: Category("x", "ab"), InvalidSetting),
        (lambda: Category("x", ("a", "")), InvalidSetting),
        (lambda: Category("x", (1, 2)), InvalidSetting),
        (lambda: Category("x", ("a", "b"), default="c"), InvalidSetting),
        (lambda: Schema(()), InvalidSetting),
        (lambda: Schema(("age",)), InvalidSetting),
        (lambda: Schema((Flag("x"), Number("x", 0, 1))), InvalidSetting),
        (lambda: Schema((Flag("x=a"), Category("x", ("a", "b")))), InvalidSetting),
    ],
)
def test_schema_refused(make: Any, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        make()
    assert type(caught.value) is error


# Plain values


def test_schema_survives_json() -> None:
    assert Schema.from_dict(json.loads(json.dumps(SCHEMA.to_dict()))) == SCHEMA


def test_equal_schemas_are_written_alike() -> None:
    whole = Schema((Number("x", 0, 1, default=1, importance=1),))
    broken = Schema((Number("x", 0.0, 1.0, default=1.0, importance=1.0),))
    assert json.dumps(whole.to_dict()) == json.dumps(broken.to_dict())


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"features": [], "feature": []}, "'feature'"),
        ({}, "lacks features"),
        ([], "list"),
        ({"features": {"kind": "flag"}}, "dict"),
        ({"features": ["age"]}, "Feature 1"),
        ({"features": [{"name": "x"}]}, "kind"),
        ({"features": [{"kind": "text", "name": "x"}]}, "text"),
        ({"features": [{"kind": "flag", "name": "f"}, {"kind": "number", "name": "x", "low": 0}]}, "Feature 2 .*high"),
        ({"features": [{"kind": "flag", "name": "x", "hihg": 3}]}, "'hihg'"),
        ({"features": [{"kind": "flag", "name": "x", "low": 3}]}, "'low'"),
    ],
)
def test_from_dict_is_strict(data: Any, words: str) -> None:
    with pytest.raises(InvalidSetting, match=words):
        Schema.from_dict(data)


# Properties that privacy rests on

ages = st.one_of(st.none(), st.integers(), st.floats(allow_infinity=False), st.sampled_from(["", "55", "-1e3", "nan"]))
smokers = st.sampled_from(["never", "former", "current", None, "", math.nan])
flags = st.sampled_from([True, False, 0, 1, 1.0, "YES", "no", None, math.nan])
records = st.fixed_dictionaries({"age": ages, "smoker": smokers, "famdm": flags})


@given(st.lists(records, min_size=1, max_size=12))
def test_encoded_values_lie_within_one(table: list[dict[str, Any]]) -> None:
    X = SCHEMA.encode(table)
    assert X.shape == (len(table), 5)
    assert np.all(np.abs(X) <= 1)
    np.testing.assert_array_equal(X[:, 1:4].sum(axis=1), 1)


@given(st.lists(records, min_size=1, max_size=12))
def test_a_record_is_encoded_the_same_alone_as_in_a_table(table: list[dict[str, Any]]) -> None:
    alone = np.vstack([SCHEMA.encode([record]) for record in table])
    np.testing.assert_array_equal(SCHEMA.encode(table), alone)
    by_columns = {name: [record[name] for record in table] for name in ("age", "smoker", "famdm")}
    np.testing.assert_array_equal(SCHEMA.encode(by_columns), alone)


@given(st.lists(records, min_size=1, max_size=12), st.randoms())
def test_permuted_records_give_permuted_rows(table: list[dict[str, Any]], random: Any) -> None:
    order = list(range(len(table)))
    random.shuffle(order)
    np.testing.assert_array_equal(SCHEMA.encode([table[i] for i in order]), SCHEMA.encode(table)[order])


@given(
    st.floats(-1e300, 1e300), st.floats(-1e300, 1e300), st.floats(allow_nan=False, allow_infinity=False), st.booleans()
)
def test_any_finite_range_maps_into_one(low: float, high: float, value: float, at_end: bool) -> None:
    low, high = min(low, high), max(low, high)
    if low == high:
        return
    encoded = one(Number("x", low, high), high if at_end else value)[0, 0]
    assert -1 <= encoded <= 1
    if at_end:
        assert encoded == 1
