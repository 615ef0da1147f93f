"""Parquet: plain columns come out; what is none, or would burst, is refused by what it says of itself."""

from __future__ import annotations

import datetime
import decimal
import os
from contextlib import closing

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crossward.errors import EmptyData, InvalidData
from crossward_connector.parquet_files import ParquetReading
from crossward_connector.tables import Limits, Opened


@pytest.fixture
def read(tmp_path):
    """Write tables or bytes as files, and read them as one."""
    opened = []

    def read(*tables, wanted=None, limits=None, lenient=False, **how):
        descriptors = []
        for number, table in enumerate(tables):
            path = tmp_path / f"{number}.parquet"
            if isinstance(table, bytes):
                path.write_bytes(table)
            else:
                pq.write_table(table, path, **how)
            descriptors.append(os.open(path, os.O_RDONLY))
            opened.append(descriptors[-1])
        limits = limits or Limits()
        with closing(ParquetReading("the table", descriptors, wanted, limits, lenient)) as reading:
            table = Opened("the table", reading, limits)
            rows = pa.Table.from_batches(table.batches(), reading.schema)
        return table, rows

    yield read
    for descriptor in opened:
        os.close(descriptor)


DAY = datetime.date(2024, 2, 29)
NOON = datetime.datetime(2024, 2, 29, 12, 30)


@pytest.mark.parametrize(
    ("values", "kind", "plain"),
    [
        ([1, None], pa.int8(), [1, None]),
        ([2**63], pa.uint64(), [str(2**63)]),
        ([0.5, None], pa.float32(), [0.5, None]),
        ([True, None], pa.bool_(), [True, None]),
        (["a", None], pa.large_string(), ["a", None]),
        (["a", "b", "a"], pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a"]),
        ([decimal.Decimal("12.34")], pa.decimal128(10, 2), [12.34]),
        ([decimal.Decimal("1234567890123456.78")], pa.decimal128(30, 2), ["1234567890123456.78"]),
        ([DAY, None], pa.date32(), ["2024-02-29", None]),
        ([DAY], pa.date64(), ["2024-02-29"]),
        ([NOON], pa.timestamp("ms"), ["2024-02-29T12:30:00.000"]),
        ([NOON], pa.timestamp("s", "UTC"), ["2024-02-29T12:30:00.000Z"]),
        ([datetime.time(1, 2, 3)], pa.time32("s"), ["01:02:03.000"]),
        ([None], pa.null(), [None]),
    ],
)
def test_columns_become_plain(read, values, kind, plain):
    assert read(pa.table({"a": pa.array(values, kind)}))[1].column("a").to_pylist() == plain


def test_short_decimals_are_the_nearest_numbers(read):
    digits = np.random.default_rng(1).integers(-(10**15) + 1, 10**15, 2000)
    for scale in (0, 2, 7, 15):
        values = [decimal.Decimal(int(value)).scaleb(-scale) for value in digits]
        _, rows = read(pa.table({"a": pa.array(values, pa.decimal128(15, scale))}))
        assert rows.column("a").to_pylist() == [float(str(value)) for value in values]


def test_files_are_one_table_in_order(read):
    tables = [pa.table({"a": [k, k + 1], "b": ["x", "y"]}) for k in (0, 2, 4)]
    table, rows = read(*tables, wanted=["a"])
    assert rows.to_pydict() == {"a": [0, 1, 2, 3, 4, 5]}
    assert (table.form.kind, table.form.names, table.form.total_rows) == ("parquet", ("a", "b"), 6)
    assert (table.line(4), table.progress) == ("row 5", 1.0)


@pytest.mark.parametrize("other", [pa.table({"a": ["x"]}), pa.table({"b": [1]}), pa.table({"a": [1], "b": [2]})])
def test_files_of_one_folder_must_agree(read, other):
    with pytest.raises(InvalidData, match="File 2 of the folder, by name, has other columns or types"):
        read(pa.table({"a": [1]}), other)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pa.array([[1, 2]]), "'a' holds lists in each cell"),
        (pa.array([{"x": 1}]), "'a' holds records in each cell"),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), "'a' holds maps in each cell"),
        (pa.array([b"\xff"]), "'a' holds bytes, not texts"),
        (pa.array([5], pa.duration("s")), "'a' holds values of the type duration"),
    ],
)
def test_columns_without_single_values_are_refused_by_name(read, column, words):
    table = pa.table({"a": column, "b": ["x"]})
    with pytest.raises(InvalidData, match=words):
        read(table)
    assert read(table, wanted=["b"])[1].to_pydict() == {"b": ["x"]}
    told, rows = read(table, lenient=True)
    assert rows.to_pydict() == {"b": ["x"]}
    assert [fault.column for fault in told.faults] == ["a"]


def whole(tmp_path, table):
    pq.write_table(table, tmp_path / "whole")
    return (tmp_path / "whole").read_bytes()


def test_what_is_no_parquet_or_half_of_one_is_named(read, tmp_path):
    data = whole(tmp_path, pa.table({"a": list(range(10_000))}))
    middle = bytearray(data)
    middle[200:400] = b"\xff" * 200
    footer = bytearray(data)
    footer[-60:-20] = b"\xff" * 40
    for damaged, words in (
        (b"pid,a\n1,2\n", "no Parquet file"),
        (data[:-100], "ends early"),
        (data[:4] + b"PAR1", "damaged"),
        (data[:-8] + b"\xff\xff\xff\x7fPAR1", "damaged"),
        (bytes(footer), "damaged"),
        (bytes(middle), "damaged"),
        (b"PARE" + data[4:-4] + b"PARE", "encrypted"),
    ):
        with pytest.raises(InvalidData, match=words):
            read(damaged)
    with pytest.raises(EmptyData, match="is empty"):
        read(b"")


def test_limits_hold_before_a_page_is_unpacked(read):
    wide = pa.table({f"c{k}": [1] for k in range(51)})
    with pytest.raises(InvalidData, match="51 columns; 50 are the limit"):
        read(wide, limits=Limits(columns=50))
    with pytest.raises(InvalidData, match="more than 99 rows"):
        read(pa.table({"a": list(range(100))}), limits=Limits(rows=99))
    with pytest.raises(InvalidData, match="longer than 10 bytes"):
        read(pa.table({"a": ["x" * 11]}), limits=Limits(cell=10))
    with pytest.raises(EmptyData, match="no records"):
        read(pa.table({"a": pa.array([], pa.string())}))
    with pytest.raises(InvalidData, match="'a' is there twice"):
        read(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]), wanted=["a"])


def test_a_bomb_is_refused_by_what_it_says_of_itself(read):
    zeros = pa.table({"a": np.zeros(12_000_000)})
    with pytest.raises(InvalidData, match="would unpack to"):
        read(zeros, limits=Limits(memory=64 << 20), compression="zstd", use_dictionary=False, write_statistics=False)


def test_wide_tables_come_in_small_batches(read):
    table = pa.table({f"c{k}": np.zeros(3000) for k in range(1000)})
    limits = Limits(memory=64 << 20)
    assert read(table, limits=limits)[1].num_rows == 3000


def test_nothing_of_python_is_made_from_a_file(read):
    """An extension type of Arrow once was a pickle."""
    kind = pa.schema([pa.field("a", pa.string(), metadata={b"ARROW:extension:name": b"arrow.py_extension_type"})])
    assert read(pa.Table.from_arrays([pa.array(["x"])], schema=kind))[1].to_pydict() == {"a": ["x"]}
