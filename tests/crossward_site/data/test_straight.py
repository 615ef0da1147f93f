"""Files past the cache: every byte arrives, in order, whatever sizes they come in and whatever the disk can do."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossward_site.data import straight
from crossward_site.data.straight import BLOCK, Outflow, Room

sizes = st.lists(st.integers(0, 3 * BLOCK) | st.sampled_from([BLOCK, 2 * BLOCK, BLOCK - 1, BLOCK + 1]), max_size=8)


def written(path: Path, parts: list[bytes]) -> bytes:
    file = Outflow(path)
    for number, part in enumerate(parts):
        file.put(part)
        if number % 2:
            file.flow()
    file.finish()
    assert file.closed
    return path.read_bytes()


@given(sizes)
def test_all_that_was_put_arrives(tmp_path_factory, sizes) -> None:
    parts = [np.random.default_rng(size).bytes(size) for size in sizes]
    path = tmp_path_factory.mktemp("flow") / "file"
    assert written(path, parts) == b"".join(parts)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("refused", ["as it is opened", "as it is written"])
def test_where_the_cache_cannot_be_left_out_it_is_used(tmp_path, monkeypatch, refused) -> None:
    create, write, tried = os.open, os.write, []

    def opened(path: Path, flags: int, mode: int) -> int:
        if flags & straight._STRAIGHT and refused == "as it is opened":
            tried.append(path)
            raise OSError(errno.EINVAL, "no")
        return create(path, flags, mode)

    def wrote(descriptor: int, data: memoryview) -> int:
        if refused == "as it is written" and not tried:
            tried.append(descriptor)
            raise OSError(errno.EINVAL, "no")
        return write(descriptor, data)

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "write", wrote)
    parts = [b"x" * 3 * BLOCK, b"yz"]
    assert written(tmp_path / "file", parts) == b"".join(parts)
    assert tried


def test_an_error_of_the_disk_is_raised(tmp_path, monkeypatch) -> None:
    def broken(descriptor: int, data: memoryview) -> int:
        raise OSError(errno.EIO, "broken")

    file = Outflow(tmp_path / "file")
    file.put(bytes(2 * BLOCK))
    monkeypatch.setattr(os, "write", broken)
    with pytest.raises(OSError, match="broken"):
        file.flow()
    file.close()
    file.close()


def test_room_begins_with_a_block_and_keeps_what_it_is_told_to_keep() -> None:
    room = Room()
    room.of(5)[:] = b"first"
    larger = room.of(10 * BLOCK, kept=5)
    assert larger[:5] == b"first"
    assert np.frombuffer(larger, np.uint8).ctypes.data % BLOCK == 0
