"""An export is verified offline, and no byte of it can change unseen."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossward.errors import ChainBroken, StorageFailed
from crossward.protocol.ledger.chain import verify
from crossward.protocol.ledger.export import export_file, read_file, verify_file
from crossward.protocol.ledger.lines import START, Body, Head, Line, OpenBody, ReleaseBody, ReserveBody, SeatsBody

ZEROS, ONES = "0" * 64, "1" * 64


def chain(*bodies: Body, time: int = 0) -> list[Line]:
    lines: list[Line] = []
    for body in bodies:
        lines.append(Line.after(lines[-1].head if lines else START, body, time))
    return lines


@pytest.fixture
def lines() -> list[Line]:
    reserved = ReserveBody("a", "study", ZEROS, (0, 2), 10**8, 0, ONES)
    return chain(OpenBody(1, 3, "basic", 10**9), SeatsBody(1, ONES), reserved, ReleaseBody("a", ONES))


def test_there_and_back(lines, tmp_path):
    path = tmp_path / "ledger.txt"
    head = export_file(lines, path)
    assert head == lines[-1].head
    assert list(read_file(path)) == lines
    assert verify_file(path, head) == verify(lines)
    assert [entry.name for entry in tmp_path.iterdir()] == ["ledger.txt"]
    assert export_file([], path) == START
    assert verify_file(path).head == START


def test_a_flipped_byte_anywhere_is_found_and_its_line_named(lines, tmp_path):
    path = tmp_path / "ledger.txt"
    export_file(lines, path)
    whole = path.read_bytes()
    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= 1 << position % 8
        path.write_bytes(changed)
        with pytest.raises(ChainBroken) as caught:
            verify_file(path)
        assert caught.value.line == whole[:position].count(b"\n") + 1
    path.write_bytes(whole)
    verify_file(path)


def test_a_lost_byte_anywhere_is_found(lines, tmp_path):
    path = tmp_path / "ledger.txt"
    export_file(lines, path)
    whole = path.read_bytes()
    for position in range(len(whole)):
        path.write_bytes(whole[:position] + whole[position + 1 :])
        with pytest.raises(ChainBroken):
            verify_file(path)


def test_lost_and_swapped_lines(lines, tmp_path):
    path = tmp_path / "ledger.txt"
    for wrong, number in (([0, 2, 3], 2), ([1, 2, 3], 1), ([0, 2, 1, 3], 2), ([0, 1, 1], 3)):
        export_file([lines[i] for i in wrong], path)
        with pytest.raises(ChainBroken) as caught:
            verify_file(path)
        assert caught.value.line == number
    export_file(lines[:2], path)
    verify_file(path)  # a shorter chain is a chain; the head of a receipt shows what is missing
    with pytest.raises(ChainBroken) as caught:
        verify_file(path, lines[2].head)
    assert caught.value.line == 3
    with pytest.raises(ChainBroken):
        verify_file(path, Head(2, ONES))


def test_a_file_without_line_breaks_does_not_fill_the_memory(tmp_path):
    path = tmp_path / "ledger.txt"
    path.write_bytes(b"[" * 10**6)
    with pytest.raises(ChainBroken, match=r"Line 1: .*too long"):
        verify_file(path)


def test_places_that_cannot_be_used(lines, tmp_path):
    with pytest.raises(StorageFailed):
        verify_file(tmp_path / "missing.txt")
    with pytest.raises(StorageFailed):
        export_file(lines, tmp_path / "missing" / "ledger.txt")
    with pytest.raises(StorageFailed):
        export_file(lines, Path("/dev/full/ledger.txt"))


def test_the_longest_line_fits(tmp_path):
    dear = ReserveBody("t" * 200, "s" * 200, ZEROS, tuple(range(1000)), 10**15, 10**18, ONES)
    lines = chain(OpenBody(1, 1000, "basic", 10**11, 10**15), SeatsBody(1, ONES), dear, time=10**14)
    path = tmp_path / "ledger.txt"
    export_file(lines, path)
    assert list(read_file(path)) == lines
