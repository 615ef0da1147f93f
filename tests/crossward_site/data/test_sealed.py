"""The sealed copy: nothing is lost, nobody else can read it, damage is noticed, persons can be removed."""

from __future__ import annotations

import errno
import os
from concurrent.futures import wait
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossward.errors import StorageFailed
from crossward_site.data import sealed as module
from crossward_site.data import straight
from crossward_site.data.beside import Beside
from crossward_site.data.sealed import Frames, SealedCopy, compact, numbered, read_frames, write_cells

SECRET = b"k" * 32
texts = st.text(max_size=12) | st.sampled_from(
    [
        "126",
        "126.0",
        "007",
        "7",
        "-0",
        "1e5",
        "100000",
        "0x10",
        " 5",
        "+5",
        "nan",
        "inf",
        "5.50",
        "5.5",
        "1,5",
        "",
        "NA",
    ]
)


@settings(max_examples=400)
@given(st.lists(st.none() | texts, min_size=1, max_size=50), st.sampled_from(".,"))
def test_texts_come_back_as_they_were(values, decimal) -> None:
    column = pa.array(values, pa.string())
    assert compact(column, decimal).cast(pa.string()).equals(column)


def test_numbers_are_kept_as_numbers_where_nothing_is_lost() -> None:
    assert compact(pa.array(["1", "22", None]), ".").type == compact(pa.array(["1", "22"]), ",").type == pa.int64()
    assert compact(pa.array(["1.5", "22", None]), ".").type == pa.float64()
    assert compact(pa.array(["1.5", "22", None]), ",").type == pa.string()  # with decimal commas 1.5 is no number
    for odd in (["1.50"], ["007"], ["0x10"], ["1e5"], ["<0.3"], ["nan"], ["1,5"]):
        assert compact(pa.array(odd), ".").type == pa.string(), odd
    assert pa.types.is_dictionary(compact(pa.array(["yes", "no"] * 50), ".").type)


def sealed(folder, batches):
    with Frames(folder / "r", SECRET) as frames:
        for batch in batches:
            frames.write_batch(numbered(batch, ["tag", "x"], np.arange(len(batch), dtype=np.uint64), "."))
    cells = np.concatenate([np.full(len(batch), index, np.uint8) for index, batch in enumerate(batches)])
    write_cells(folder / "c", SECRET, cells, [len(batch) for batch in batches])
    return SealedCopy(folder / "r", folder / "c", SECRET, ["tag", "x"])


BATCHES = [pa.record_batch({"x": [1.0, None], "tag": ["a", "b"]}), pa.record_batch({"x": [3.0], "tag": ["7"]})]


def test_columns_come_in_the_order_they_are_asked_for(tmp_path) -> None:
    copy = sealed(tmp_path, BATCHES)
    found = list(copy.batches(["x", "tag"]))
    assert [batch.columns.to_pydict() for batch in found] == [
        {"x": [1.0, None], "tag": ["a", "b"]},
        {"x": [3.0], "tag": [7]},  # a number writes this text exactly so
    ]
    assert [batch.cells.tolist() for batch in found] == [[0, 0], [1]]
    assert [batch.columns.to_pydict() for batch in copy.batches(["tag"])] == [{"tag": ["a", "b"]}, {"tag": [7]}]
    assert [len(batch.cells) for batch in copy.batches(())] == [2, 1]
    assert [batch.persons.tolist() for batch in copy.batches(())] == [[0, 1], [0]]


def test_persons_are_removed(tmp_path) -> None:
    copy = sealed(tmp_path, BATCHES)
    assert copy.without(np.array([0], np.uint64), tmp_path / "r2", tmp_path / "c2") == 2
    left = list(SealedCopy(tmp_path / "r2", tmp_path / "c2", SECRET, ["tag", "x"]).batches(["x"]))
    assert [batch.columns.to_pydict()["x"] for batch in left] == [[None], []]
    assert [batch.cells.tolist() for batch in left] == [[0], []]


def test_no_word_of_a_person_who_was_removed_is_left(tmp_path) -> None:
    copy = sealed(tmp_path, [pa.record_batch({"x": [1.0] * 40, "tag": ["of one only", *["a", "b", "c"] * 13]})])
    copy.without(np.array([0], np.uint64), tmp_path / "r2", tmp_path / "c2")
    for path, there in (("r", 1), ("r2", 0)):
        (frame,) = read_frames(tmp_path / path, SECRET)
        column = pa.ipc.open_stream(frame).read_next_batch().column(1)
        assert column.dictionary.to_pylist().count("of one only") == there


def test_only_the_site_can_read_it(tmp_path) -> None:
    sealed(tmp_path, BATCHES)
    assert (tmp_path / "r").stat().st_mode & 0o777 == 0o600
    for content in (b"tag", b"ARROW"):
        assert content not in (tmp_path / "r").read_bytes()
    with pytest.raises(StorageFailed, match="not as it was written"):
        list(read_frames(tmp_path / "r", b"l" * 32))
    (tmp_path / "r").rename(tmp_path / "other")  # one file is not another
    with pytest.raises(StorageFailed, match="not as it was written"):
        list(read_frames(tmp_path / "other", SECRET))


def test_every_flipped_bit_and_every_cut_is_noticed(tmp_path) -> None:
    with Frames(tmp_path / "f", SECRET) as frames:
        frames.write(b"one")
        frames.write(b"two")
    whole = (tmp_path / "f").read_bytes()
    assert list(read_frames(tmp_path / "f", SECRET)) == [b"one", b"two"]
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        (tmp_path / "f").write_bytes(changed)
        with pytest.raises(StorageFailed):
            list(read_frames(tmp_path / "f", SECRET))
        (tmp_path / "f").write_bytes(whole[:place])
        with pytest.raises(StorageFailed):
            list(read_frames(tmp_path / "f", SECRET))
    (tmp_path / "f").write_bytes(whole + b"\0")
    with pytest.raises(StorageFailed):
        list(read_frames(tmp_path / "f", SECRET))


def frames_of(path: Path) -> list[bytes]:
    """The frames as they lie in the file, each with its length before it, the last one too."""
    data, at, found = path.read_bytes(), len(module.MAGIC), []
    while at < len(data):
        end = at + 8 + int.from_bytes(data[at : at + 8], "big")
        found.append(data[at:end])
        at = end
    return found


def test_frames_are_not_exchanged_doubled_or_left_out(tmp_path) -> None:
    with Frames(tmp_path / "f", SECRET) as frames:
        for data in (b"same", b"same", b"else"):
            frames.write(data)
    one, two, three, end = frames_of(tmp_path / "f")
    assert one != two  # what is the same looks different: no nonce comes twice
    for order in ([two, one, three], [one, one, three], [one, three], [one, two, three, three], [three, two, one]):
        (tmp_path / "f").write_bytes(b"".join([module.MAGIC, *order, end]))
        with pytest.raises(StorageFailed, match="not as it was written"):
            list(read_frames(tmp_path / "f", SECRET))


def test_what_was_not_finished_has_no_name(tmp_path) -> None:
    def broken() -> None:
        with Frames(tmp_path / "f", SECRET) as frames:
            frames.write(b"one")
            raise KeyError

    with pytest.raises(KeyError):
        broken()
    assert list(tmp_path.iterdir()) == []


def seal_one(path: Path, size: int) -> None:
    with Frames(path, SECRET) as frames:
        frames.write(bytes(size))
        frames.write(bytes(size))


@pytest.mark.parametrize("size", [10, 5_000, 100_000])
def test_a_full_disk_is_named_and_leaves_no_part(tmp_path, monkeypatch, size: int) -> None:
    create = os.open

    def full(path: Path, flags: int, mode: int = 0o777) -> int:
        if path.suffix != ".part":
            return create(path, flags, mode)
        os.close(create(path, flags, mode))
        return create("/dev/full", os.O_WRONLY)

    monkeypatch.setattr(os, "open", full)
    monkeypatch.setattr(straight, "SPARE", -(1 << 62))  # what the folder of devices has left says nothing
    with pytest.raises(StorageFailed, match="Make room"):
        seal_one(tmp_path / "vault-a.records", size)
    assert not list(tmp_path.iterdir())


def test_the_last_bytes_of_a_disk_are_left_to_the_ledger(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(straight, "SPARE", 1 << 62)
    with pytest.raises(StorageFailed, match="Make room"):
        seal_one(tmp_path / "vault-a.records", 10)
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_after_a_frame_that_could_not_be(tmp_path, monkeypatch) -> None:
    """Also where it was asked for before that was seen: the file would lack a frame, and have its name."""
    room = iter([True, False])

    def leave_some(descriptor: int, size: int) -> None:
        if not next(room, True):
            raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(module, "leave_some", leave_some)
    with pytest.raises(StorageFailed, match="Make room"):
        seal_two_beside(tmp_path / "vault-a.records")
    assert not list(tmp_path.iterdir())


def seal_two_beside(path: Path) -> None:
    with Frames(path, SECRET) as frames, Beside() as sealing:
        sealing.do(lambda: frames.write(b"one"))
        sealing.finish()
        sealing.do(lambda: frames.write(b"two"))
        sealing.do(frames.finish)
        wait(list(sealing._waiting))  # as long as persons are seated
        sealing.finish()
