"""What a connector says is believed only as far as it can be checked."""

from __future__ import annotations

import json
from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossward.errors import EmptyData, InvalidData
from crossward_connector import wire
from crossward_connector.tables import Fault, Form, Limits, Piece, runs

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
    assert wire.batch_of(pa.py_buffer(more), SCHEMA).equals(sliced.batch)
    assert kind == wire.BATCH
    assert wire.batch_of(pa.py_buffer(data), SCHEMA).equals(BATCH)
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
    assert wire.batch_of(message(BATCH), SCHEMA).equals(BATCH)
    for codec in ("lz4", "zstd"):
        with pytest.raises(wire.Garbled):
            wire.batch_of(message(BATCH, compression=codec), SCHEMA)
    other = pa.RecordBatch.from_arrays([pa.array([1])], ["a"])
    with pytest.raises(wire.Garbled):
        wire.batch_of(other.serialize(), SCHEMA)
    lie = pa.RecordBatch.from_arrays([pa.array([b"\xff"]).view(pa.string()), pa.array([1.0])], schema=SCHEMA)
    with pytest.raises(wire.Garbled):
        wire.batch_of(lie.serialize(), SCHEMA)


@given(st.integers(0, 600), st.integers(0, 255), st.integers(0, 600))
def test_a_message_with_other_bytes_is_valid_or_refused(at, value, cut):
    data = bytearray(BATCH.serialize().to_pybytes())
    data[at % len(data)] = value
    for bad in (bytes(data), bytes(data[: cut % len(data)])):
        with suppress(wire.Garbled):
            wire.batch_of(pa.py_buffer(bad), SCHEMA).validate(full=True)


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
