"""CSV files, well and badly written: found out by looking, told by line, read in order."""

from __future__ import annotations

import csv
import io
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossward.errors import EmptyData, InvalidData
from crossward_connector.csv_files import _QUOTED, CsvOptions, CsvReading, read_csv_bytes
from crossward_connector.tables import Limits

SMALL = Limits(memory=64 << 20, cell=1000, columns=50)


def rows_of(table):
    return [row for batch in table.batches() for row in batch.to_pylist()]


def read(data, wanted=None, options=None, **more):
    table = read_csv_bytes(data, wanted, options, **more)
    return table, rows_of(table)


# -- what it looks like ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252"])
def test_separator_line_end_and_encoding_are_found(delimiter, end, encoding):
    text = end.join([delimiter.join(["pid", "größe", "note"]), delimiter.join(["7", "180", "für sich"]), ""])
    table, rows = read(text.encode(encoding))
    assert rows == [{"pid": "7", "größe": "180", "note": "für sich"}]
    assert table.form.delimiter == delimiter
    assert table.form.bom == (encoding in ("utf-8-sig", "utf-16"))
    assert table.form.encoding == ("utf-8" if encoding == "utf-8-sig" else encoding)
    assert table.line(0) == "line 2"


@pytest.mark.parametrize(
    ("data", "decimal"),
    [
        (b"a;b\n1;2,5\n", ","),
        (b"a\tb\n1\t2,5\n", ","),
        (b"a;b\n1;2.5\n", "."),
        (b'a,b\n1,"2,5"\n', "."),
        (b"a;b\n1;x\n", "."),
    ],
)
def test_a_decimal_comma_is_found_where_it_can_stand(data, decimal):
    assert read(data)[0].form.decimal == decimal


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    ("data", "guesses"),
    [
        ("a;b\n1;2.5\n", ()),
        ("a;b\n1;2,5\n", ("decimal",)),
        ("a;b\n1;n\u00e4\n", ("encoding",)),
        ("\u00e4;b\n1;n\u00e4\n", ()),  # the column names show it
        ("a b,c;d,e;f\n" + "1;2;3\n" * 9, ("delimiter",)),
        ("a b,c;d;e;f\n" + "1;2;3;4\n" * 9, ()),
        ("sep=;\na b,c,d;e\n1;2\n", ()),
    ],
)
def test_what_only_records_show_is_a_guess(data, guesses, end):
    assert read(data.replace("\n", end).encode("cp1252"))[0].form.guesses == guesses


def test_other_readers_of_csv_in_the_process_keep_their_limit():
    before = csv.field_size_limit()
    assert read(b'"a",b\n1,2\n')[0].form.names == ("a", "b")
    assert csv.field_size_limit() >= before


def test_what_is_told_is_no_guess():
    options = CsvOptions(delimiter=";", encoding="cp1252", decimal=",")
    assert read("a b,c;d,e;f\n1;n\u00e4;2,5\n".encode("cp1252"), options=options)[0].form.guesses == ()


def test_what_is_told_is_believed():
    options = CsvOptions(delimiter="|", encoding="latin-1", decimal=",")
    table, rows = read("a|b;c\nü|1;2\n".encode("latin-1"), options=options)
    assert rows == [{"a": "ü", "b;c": "1;2"}]
    assert (table.form.encoding, table.form.decimal) == ("latin-1", ",")


@pytest.mark.parametrize("sign", [",", ";", "\t"])
def test_a_title_above_the_table_is_named_with_the_line_where_the_table_begins(sign):
    table = "id,a,b,c\n" + "1,2,3,4\n" * 30
    data = "Export of the laboratory\nWard: 3\n\nmade on 01.02.2026\n" + table.replace(",", sign)
    with pytest.raises(InvalidData, match=r"table begins in line 5.*Remove lines 1 to 4"):
        read_csv_bytes(data.encode())
    with pytest.raises(InvalidData, match=r"table begins in line 2.*Remove line 1:"):
        read_csv_bytes(("Export\n" + table).encode())


@pytest.mark.parametrize(
    "data", ["a;b;c\n1,5;2,5;3,5\n", "a,b,c,\n1,2,3\n", "note\nx, y\n", "a\n1,5\n2,5\n", "a,b\n1\n"]
)
def test_a_table_without_a_title_has_none(data):
    assert read_csv_bytes(data.encode(), lenient=True).form.names


def test_column_names_that_come_again_are_told_and_left_out():
    data = b"id,a\n1,2\nid,a\n3,4\nid,5\nid,a\n"
    table = read_csv_bytes(data, lenient=True)
    rows = [row for batch in table.batches() for row in batch.to_pylist()]
    assert rows == [{"id": "1", "a": "2"}, {"id": "3", "a": "4"}, {"id": "id", "a": "5"}]
    assert [(fault.line, fault.cause) for fault in table.faults] == [
        (3, "The column names stand here again."),
        (6, "The column names stand here again."),
    ]
    assert [table.line(row) for row in range(3)] == ["line 2", "line 4", "line 5"]
    with pytest.raises(InvalidData, match="line 3: The column names stand here again"):
        list(read_csv_bytes(data).batches())


def test_excels_own_hint_is_no_header():
    table, rows = read(b"sep=;\na;b\n1;2\n")
    assert rows == [{"a": "1", "b": "2"}]
    assert table.line(0) == "line 3"


def test_excels_own_hint_comes_once():
    table, _ = read(b"sep=;\nsep=;\n1;2\n" + b"sep=;\n" * 5000, lenient=True)
    assert (table.form.names, table.form.delimiter) == (("sep=", ""), ";")


def test_a_quoted_name_of_many_megabytes_takes_little_memory():
    line = f'"{"x" * (4 << 20)}",b'
    tracemalloc.start()
    try:
        assert _QUOTED.sub("", line) == ",b"
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert read_csv_bytes(f"{line}\n1,2\n".encode()).form.names == ("x" * (4 << 20), "b")
    assert _QUOTED.sub("", 'a,"b,""c"",",d') == "a,,d"


def test_a_header_that_is_longer_than_what_is_looked_at_is_one():
    names = [f"{'n' * 40}{k}" for k in range(5000)]
    data = ";".join(names) + "\n" + (";".join(["1,5"] * 5000) + "\n") * 3
    table, rows = read(data.encode())
    assert (table.form.names, table.form.delimiter, table.form.decimal) == (tuple(names), ";", ",")
    assert len(rows) == 3


@pytest.mark.parametrize("sign", ['"', "é"])
def test_a_hint_at_what_cannot_separate_cells_is_a_header(sign):
    _, rows = read(f"sep={sign}\n1\n".encode())
    assert rows == [{f"sep={sign}": "1"}]


def test_columns_come_as_wanted_and_values_as_written():
    _, rows = read(b'a,b,c\n 1 ,NA,""\n"x ""y""",,null\n', ["c", "a"])
    assert rows == [{"c": "", "a": " 1 "}, {"c": "null", "a": 'x "y"'}]


# -- what it is not ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"PK\x03\x04....[Content_Types].xml....xl/workbook.xml", "an Excel file"),
        (b"PK\x03\x04 patients.csv", "a zip archive"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Excel file of the old kind"),
        (b"\x1f\x8b\x08\0", "gzip"),
        (b"\xfd7zXZ\0\0", "xz"),
        (b"\x28\xb5\x2f\xfd..", "Zstandard"),
        (b"%PDF-1.7", "PDF"),
        (b'{"pid": 7}', "JSON"),
        (b'[{"pid": 7}]', "JSON"),
        (b"<!DOCTYPE html><table>", "web page"),
        (b"PAR1....", "Parquet"),
        (b"SQLite format 3\0", "SQLite"),
        (b"a,b\n1,\0\n", "line 2: The file holds a zero byte"),
        (b"\0" * 5000, "zero byte|cannot be shown|names no column"),
        (b"1,2\n3,4\n", "line 1: The first line holds values"),
        (b"2024-01-31;17;4.5\n", "holds values"),
        (b",,\n1,2,3\n", "names no column"),
        (b"a,b\n1,2,3\n", "line 2: The header has 2 columns, this record 3"),
        (b"a,b\n1,2\n\n1\n", "line 4: The header has 2 columns, this record 1"),
        (b"a,a\n1,2\n", "'a' is there twice"),
        (b"a,,b\n1,2,3\n", "A column has no name"),
        (b'a,b\n1,2\n3,"4\n5,6\n', "line 3: A quote is opened here and never closed"),
        (b"a,b\n" + b"1,2\n" * 200_000 + b"3,\xff\n", "line 200002: This is not UTF-8"),
        (b"a,b\n1," + b"x" * 1001, "line 2: A cell of the column 'b' is longer than 1,000 bytes"),
        (b"a,b\n1," + b"x" * (8 << 20), "line 2: The line is longer than"),
        (b'a,b\n1,"' + b"x\n" * (4 << 20), "line 2: The record that begins here has a quote"),
        (b"x" * (8 << 20), "line 1: The line is longer than"),
        (b",".join(b"c%d" % k for k in range(51)), "51 columns; 50 are the limit"),
    ],
)
def test_what_cannot_be_read_is_named(data, words):
    with pytest.raises(InvalidData, match=words) as refusal:
        read(data, limits=SMALL)
    assert refusal.value.fix


@pytest.mark.parametrize(
    ("data", "words"), [(b"", "is empty"), (b"\n\r\n \n"[:3], "is empty"), (b"a,b\n", "no records")]
)
def test_a_table_without_records_is_named(data, words):
    with pytest.raises(EmptyData, match=words):
        read(data)


def test_a_million_columns_are_counted_not_read():
    with pytest.raises(InvalidData, match="1,000,000 columns; 10,000 are the limit"):
        read(b",".join(b"c%d" % k for k in range(1_000_000)))


def test_a_separator_that_was_told_wrong_is_named():
    with pytest.raises(InvalidData, match="separated by semicolons, not by commas"):
        read(b"a;b\n1;2\n", options=CsvOptions(","))


@pytest.mark.parametrize("encoding", ["no-such", "idna", "utf-7", "rot13", "unicode_escape", "zlib"])
def test_an_encoding_that_is_none_is_named(encoding):
    with pytest.raises(InvalidData, match="encoding that was given is not known"):
        read(b"a,b\n1,2\n", options=CsvOptions(encoding=encoding))


def test_bytes_that_an_encoding_lacks_have_a_line():
    with pytest.raises(InvalidData, match="line 3: This is not cp1252"):
        read(b"a,b\n1,2\n3,\x81\n", options=CsvOptions(encoding="cp1252"))


def test_a_column_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(InvalidData, match=r"no column 'c'. Map to a column that is there: 'a', 'b'"):
        read(b"a,b\n1,2\n", ["a", "c"])


def test_columns_that_nobody_wants_may_be_twice_or_nameless():
    assert read(b"a,a,,b\n1,2,3,4\n", ["b"])[1] == [{"b": "4"}]


def test_no_cell_is_quoted():
    for data in (b"a,b\nhunter2,1,2\n", b'a,b\n"hunter2', b"a,b\nhunter2\0,1\n", b"hunter2;7;8\n"[8:] + b"hunter2\n"):
        with pytest.raises(InvalidData) as refusal:
            read(data)
        assert "hunter2" not in str(refusal.value)


# -- lenient: everything at once ---------------------------------------------------------------------------------------
def test_all_faults_are_told_with_their_lines():
    data = b'a,b,a\n1,2,3\n\n"x\ny",2,3\n1,2\n1,2,3,4\n\n7,8,9\nx\0,1,2\n'
    table, rows = read(data, ["a", "b", "c"], lenient=True)
    assert [row["b"] for row in rows] == ["2", "2", "8", "1"]
    assert [table.line(row) for row in range(4)] == ["line 2", "line 4", "line 9", "line 10"]
    assert [(fault.line, fault.column) for fault in table.faults] == [
        (None, "c"),
        (None, "a"),
        (10, None),
        (6, None),
        (7, None),
    ]


def test_of_many_faults_a_hundred_are_told_and_the_others_counted():
    table, rows = read(b"a,b\n" + b"1\n" * 5000 + b"1,2\n", lenient=True)
    assert len(rows) == 1
    assert [fault.line for fault in table.faults[:100]] == list(range(2, 102))
    assert table.faults[100].cause.startswith("4900 more")
    assert table.line(0) == "line 5002"


def test_bytes_of_another_encoding_are_told_and_the_rest_is_read():
    data = b"a,b\n" + b"1,2\n" * 200_000 + b"3,\xfc\n4,5\n"
    table, rows = read(data, lenient=True)
    assert [fault.line for fault in table.faults] == [200_002]
    assert (len(rows), rows[-1]) == (200_002, {"a": "4", "b": "5"})


# -- against an independent reader -------------------------------------------------------------------------------------
CELLS = st.text(st.sampled_from('ab ",;\n\r1ü.'), max_size=6)


@given(st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1, max_size=12), st.sampled_from([",", ";"]))
def test_rows_and_lines_are_those_of_the_standard_library(rows, delimiter):
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(["first", "second", "third"])
    lines, at = [], 2
    for row in rows:
        lines.append(f"line {at}")
        at += 1 + sum(cell.replace("\r\n", "\n").replace("\r", "\n").count("\n") for cell in row)
        writer.writerow(row)
    table, found = read(out.getvalue().encode(), options=CsvOptions(delimiter))
    assert [list(row.values()) for row in found] == rows
    assert [table.line(row) for row in range(len(rows))] == lines


@pytest.mark.parametrize("row", ["1,2\n", '"1","2"\n', '"1\n1",2\n', "1,2\r\n", '1,5" pipe\n', "\n1,2\n"])
def test_blocks_hide_nothing(row):
    """Many blocks: every row once, and its line."""
    count = 400_000
    data = b"a,b\n" + row.encode() * count
    table = read_csv_bytes(data)
    rows = sum(batch.num_rows for batch in table.batches())
    assert rows == count
    height = row.count("\n")
    first = 2 + row.startswith("\n")
    for at in (0, 1, 99_999, count - 1):
        assert table.line(at) == f"line {first + at * height}"
    assert table.progress == 1.0


def test_a_strict_reading_ends_with_the_first_record_that_is_wrong(monkeypatch) -> None:
    """A million of them would take memory and time in the site's own process, where a clinic's CSV is read."""
    seen: list[object] = []
    without = CsvReading._without

    def counted(self, invalid, lines):
        seen.extend(invalid)
        return without(self, invalid, lines)

    monkeypatch.setattr(CsvReading, "_without", counted)
    text = b"a,b\n" + b"1,2\n" * 70_000 + b"1\n" * 200_000
    with pytest.raises(InvalidData, match="line 70002"):
        list(read_csv_bytes(text).batches())
    assert len(seen) == 1


CELLS = ["1", "", "x y", '"q"', '"a,b"', '"a""b"', '"two\nlines"', 'mid"quote', "é", " ", '""', '"\r\n"']


@given(
    st.lists(st.lists(st.sampled_from(CELLS), min_size=2, max_size=4), min_size=1, max_size=8),
    st.sampled_from(["\n", "\r\n", "\n\n", "\r"]),
    st.booleans(),
    st.booleans(),
)
def test_many_columns_are_read_as_few_are(rows, end, last, lenient):
    data = end.join(["a,b,c", *map(",".join, rows)]) + (end if last else "")
    seen = []
    for memory in (1 << 30, 4):  # with so little, every table is a wide one
        table = read_csv_bytes(data.encode(), limits=Limits(memory=memory), lenient=lenient)
        try:
            cells = [row for batch in table.batches() for row in batch.to_pylist()]
            seen.append((cells, table.faults, [table.line(row) for row in range(len(cells))]))
        except InvalidData as error:
            seen.append(str(error))
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("mark", "encoding", "told"),
    [(b"\xff\xfe", "utf-16-le", None), (b"\xfe\xff", "utf-16-be", None), (b"", "utf-16-le", "utf-16")],
)
def test_half_a_character_in_the_middle_is_told_and_the_rest_is_read(mark, encoding, told):
    half = "\ud800".encode(encoding, "surrogatepass")
    data = mark + "a,b\n1,x".encode(encoding) + half + "y\n2,z\n".encode(encoding)
    table = read_csv_bytes(data, options=CsvOptions(encoding=told), lenient=True)
    assert [row["a"] for row in rows_of(table)] == ["1", "2"]
    assert [(fault.cause, fault.line) for fault in table.faults] == [("This is not utf-16.", 2)]
