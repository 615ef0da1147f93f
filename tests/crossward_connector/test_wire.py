"""What a connector says is believed only as far as it can be checked."""

from __future__ import annotations

import json
import struct
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossward.errors import EmptyData, InvalidData
from crossward_connector import wire
from crossward_connector.tables import Fault, Faults, Form, Limits, Lines, Piece, parts, runs

SCHEMA = pa.schema([("a", pa.string()), ("b", pa.float64())])
BATCH = pa.RecordBatch.from_arrays([pa.array(["x", None, "yy"]), pa.array([1.0, None, 3.0])], schema=SCHEMA)


def frames(send, *what):
    """What was sent, frame by frame."""
    sent = bytearray()
    send(sent.extend, *what)
    at, found = 0, []
    while at < len(sent):
        kind, size = wire.HEAD.unpack_from(sent, at)
        at += wire.HEAD.size
        found.append((kind, bytes(sent[at : at + size])))
        at += size
    return found


def test_what_is_sent_is_taken():
    form = Form("csv", ("a", "b"), ";", "cp1252", ",", True, 7)
    [(kind, data)] = frames(wire.send_form, form, SCHEMA)
    assert (kind, wire.form_of(wire.json_of(data), Limits())) == (wire.FORM, (form, SCHEMA))
    starts, lines = runs(pa.array([2, 3, 7]).to_numpy())
    piece, sliced = Piece(BATCH, 0.5, starts, lines), Piece(BATCH.slice(1, 1), 0.75)
    sent = frames(lambda write: [pieces.send(p) for pieces in [wire.Pieces(write, SCHEMA)] for p in (piece, sliced)])
    [(_, about), (kind, data), (_, _), (_, more)] = sent
    assert wire.batch_of(pa.py_buffer(more), SCHEMA, Limits()).equals(sliced.batch)
    assert kind == wire.BATCH
    assert wire.batch_of(pa.py_buffer(data), SCHEMA, Limits()).equals(BATCH)
    progress, *place = wire.place_of(wire.json_of(about), 3)
    assert (progress, [part.tolist() for part in place]) == (0.5, [[0, 2], [2, 7]])
    faults = [Fault("cause", "fix", 7, "a"), Fault("cause", "fix")]
    [(_, data)] = frames(wire.send_trailer, faults)
    assert wire.faults_of(wire.json_of(data)) == faults
    [(_, data)] = frames(wire.send_error, EmptyData("cause", "fix"))
    assert repr(wire.error_of(wire.json_of(data))) == repr(EmptyData("cause", "fix"))


def message(batch, **options):
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(batch)
    reader = pa.ipc.MessageReader.open_stream(pa.BufferReader(out.getvalue()))
    reader.read_next_message()
    return reader.read_next_message().serialize()


def test_messages_that_unpack_or_lie_are_refused():
    assert wire.batch_of(message(BATCH), SCHEMA, Limits()).equals(BATCH)
    for codec in ("lz4", "zstd"):
        with pytest.raises(wire.Garbled):
            wire.batch_of(message(BATCH, compression=codec), SCHEMA, Limits())
    other = pa.RecordBatch.from_arrays([pa.array([1])], ["a"])
    with pytest.raises(wire.Garbled):
        wire.batch_of(other.serialize(), SCHEMA, Limits())
    lie = pa.RecordBatch.from_arrays([pa.array([b"\xff"]).view(pa.string()), pa.array([1.0])], schema=SCHEMA)
    with pytest.raises(wire.Garbled):
        wire.batch_of(lie.serialize(), SCHEMA, Limits())


def test_messages_that_say_a_byte_twice_or_too_many_rows_are_refused():
    text, empty = pa.array(["x" * 1000] * 100), pa.array([""] * 100)
    twice = pa.RecordBatch.from_arrays([text] + [empty] * 49, [f"c{k}" for k in range(50)])
    said = bytearray(twice.serialize())
    assert wire.batch_of(pa.py_buffer(bytes(said)), twice.schema, Limits()).equals(twice)
    # Every column is said to lie where the first one does: three places of 16 bytes each, its texts in the last.
    first = said.index(struct.pack("<q", 100_000)) - 8 - 2 * 16
    said[first : first + 50 * 48] = said[first : first + 48] * 50
    assert pa.ipc.read_record_batch(pa.py_buffer(bytes(said)), twice.schema).column(49).equals(text)
    with pytest.raises(wire.Garbled):
        wire.batch_of(pa.py_buffer(bytes(said)), twice.schema, Limits())
    with pytest.raises(wire.Garbled):
        wire.batch_of(twice.serialize(), twice.schema, Limits(batch_rows=99))


def test_long_rows_are_cut_into_small_parts_that_keep_their_lines():
    limits, faults = Limits(memory=64 << 20), Faults("table", False)
    texts = pa.array(["x"] * 1000 + ["y" * 500_000] * 60)
    batch = pa.RecordBatch.from_arrays([texts], ["a"])
    lines = np.concatenate([np.arange(2, 902), np.arange(1000, 1160)])
    cut = list(parts(Piece(batch, 0.5, *runs(lines)), limits, faults))
    assert max(part.batch.nbytes for part in cut) <= 2 * limits.batch_bytes
    assert pa.Table.from_batches([part.batch for part in cut]).combine_chunks().to_batches()[0].equals(batch)
    table, row = Lines(), 0
    for part in cut:
        wire.place_of({"progress": 0, "starts": part.starts.tolist(), "lines": part.lines.tolist()}, len(part.batch))
        table.extend(row, len(part.batch), part.starts, part.lines)
        row += len(part.batch)
    assert [table.line(row) for row in range(1060)] == [f"line {line}" for line in lines]
    assert all(part.starts is None for part in parts(Piece(batch, 0.5), limits, faults))
    wide = pa.RecordBatch.from_arrays([pa.array(["z" * (17 << 20)])], ["a"])
    with pytest.raises(InvalidData, match="table: A row takes more than"):
        list(parts(Piece(wide, 0.5), limits, faults))


def test_names_that_are_books_are_refused():
    for names in (("a" * 30_000,), tuple(f"{'b' * 1000}{k}" for k in range(9000))):
        with pytest.raises(InvalidData, match="names of the columns are longer"):
            frames(wire.send_form, Form("csv", names), pa.schema([]))


@given(st.integers(0, 600), st.integers(0, 255), st.integers(0, 600))
def test_a_message_with_other_bytes_is_valid_or_refused(at, value, cut):
    data = bytearray(BATCH.serialize().to_pybytes())
    data[at % len(data)] = value
    for bad in (bytes(data), bytes(data[: cut % len(data)])):
        with suppress(wire.Garbled):
            wire.batch_of(pa.py_buffer(bad), SCHEMA, Limits()).validate(full=True)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {"form": {}, "columns": []},
        {"form": {"names": ["a"]}, "columns": [["a", "text"]]},
        *[
            {
                "form": {"kind": "csv", "names": names, "delimiter": "", "encoding": "", "decimal": ".", "bom": 0}
                | {"total_rows": total},
                "columns": columns,
            }
            for names, total, columns in (
                (["a"], None, [["b", "text"]]),
                (["a"], None, [["a", "pickle"]]),
                (["a"], -1, []),
                (["a"], 2**70, []),
                (["a"], True, []),
                ([7], None, []),
                (["a"] * 10_001, None, []),
                (["a"], None, [["a", "text"], ["a", "text"]]),
            )
        ],
    ],
)
def test_forms_that_no_reader_sends_are_refused(value):
    with pytest.raises(wire.Garbled):
        wire.form_of(value, Limits())


ABOUT = {"kind": "csv", "names": ["a", "b"], "delimiter": ",", "encoding": "utf-8", "decimal": ".", "bom": False}
ABOUT |= {"total_rows": None, "short": [], "guesses": []}


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "pickle"},
        {"kind": ""},
        {"decimal": ""},
        {"decimal": "5"},
        {"encoding": "rot13"},
        {"encoding": "UTF-8"},
        {"delimiter": "\ud800"},
        {"delimiter": "\0"},
        {"names": ["a", "b", "\udfff"]},
        {"names": ["a", "b", "x\0y"]},
    ],
)
def test_forms_that_cannot_be_kept_or_mean_nothing_are_refused(change):
    columns = [["a", "text"], ["b", "text"]]
    wire.form_of({"form": ABOUT, "columns": columns}, Limits())
    for encoding in ("", "utf-16-le", "utf-16-be", "cp1252", "latin-1"):
        wire.form_of({"form": ABOUT | {"encoding": encoding}, "columns": columns}, Limits())
    with pytest.raises(wire.Garbled):
        wire.form_of({"form": ABOUT | change, "columns": columns}, Limits())
    with pytest.raises(wire.Garbled):
        wire.form_of({"form": ABOUT, "columns": [["a", "text"], ["a", "text"]]}, Limits())


@pytest.mark.parametrize("name", ["x\0y", "\ud800"])
def test_names_that_cannot_be_kept_are_not_sent(name):
    with pytest.raises(InvalidData, match="no text does"):
        frames(wire.send_form, Form("parquet", ("a", name)), pa.schema([]))


@pytest.mark.parametrize("words", ["\ud800", "a\0b", "x" * 20_001, 7, None])
def test_errors_and_faults_that_cannot_be_kept_are_refused(words):
    for pair in ([words, "fix"], ["cause", words]):
        with pytest.raises(wire.Garbled):
            wire.error_of(["InvalidData", *pair])
        with pytest.raises(wire.Garbled):
            wire.faults_of({"faults": [[*pair, None, None]]})
    if words is not None:
        with pytest.raises(wire.Garbled):
            wire.faults_of({"faults": [["cause", "fix", None, words]]})


def test_errors_and_faults_are_one_short_line_each():
    error = wire.error_of(["InvalidData", "a\r\nb\x1b[2J\u202e\u2028c", "é" * 20_000])
    assert error.cause == "a  b [2J  c"
    assert error.fix == "é" * 1997 + "..."
    [fault] = wire.faults_of({"faults": [["a\tb", "c\x7f", 3, "d\n" + "e" * 500]]})
    assert fault == Fault("a b", "c ", 3, "d " + "e" * 195 + "...")


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"progress": "x"},
        {"progress": 0, "starts": [0], "lines": []},
        {"progress": 0, "starts": [1], "lines": [1]},
        {"progress": 0, "starts": [0, 0], "lines": [1, 1]},
        {"progress": 0, "starts": [0, 3], "lines": [1, 1]},
        {"progress": 0, "starts": [], "lines": []},
        {"progress": 0, "starts": [0], "lines": [2**70]},
        {"progress": 0, "starts": [[0]], "lines": [[1]]},
    ],
)
def test_places_that_no_reader_sends_are_refused(value):
    with pytest.raises(wire.Garbled):
        wire.place_of(value, 3)


@pytest.mark.parametrize("value", [None, [], ["SystemExit", "a", "b"], ["InvalidData", 1, "b"], ["InvalidData", "a"]])
def test_errors_that_are_not_ours_are_refused(value):
    with pytest.raises(wire.Garbled):
        wire.error_of(value)
    assert isinstance(wire.error_of(["InvalidData", "a", "b"]), InvalidData)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 100_000, json.dumps("x").encode()[:-1]])
def test_bytes_that_are_no_json_are_refused(data):
    with pytest.raises(wire.Garbled):
        wire.json_of(data)
