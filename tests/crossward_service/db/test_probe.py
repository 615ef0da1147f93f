"""A database that takes writes, and shows it each time anew."""

import resource
from contextlib import contextmanager

import pytest
from sqlalchemy import MetaData, select

from crossward.errors import StorageFailed
from crossward_service.db.engine import connect, read, write
from crossward_service.db.probe import ROOM_BYTES, check_writes, probe_table


@pytest.fixture
def probe(engine):
    metadata = MetaData()
    table = probe_table(metadata)
    with write(engine) as connection:
        metadata.create_all(connection)
    return table


def count(engine, probe):
    with read(engine) as connection:
        return connection.execute(select(probe.c.count)).scalar_one()


@contextmanager
def largest_file(size):
    """While no file of this process can become larger: no test can fill the disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_every_look_writes_the_one_row(engine, probe):
    for number in range(1, 4):
        check_writes(engine, probe)
        assert count(engine, probe) == number


def test_a_database_that_takes_no_writes_is_refused(engine, probe):
    check_writes(engine, probe)
    if engine.dialect.name == "sqlite":
        with largest_file(0), pytest.raises(StorageFailed, match="disk I/O error"):
            check_writes(engine, probe)
    else:
        reading = connect(engine.url.update_query_dict({"options": "-cdefault_transaction_read_only=on"}))
        with pytest.raises(StorageFailed, match="read-only"):
            check_writes(reading, probe)
        reading.dispose()
    assert count(engine, probe) == 1
    check_writes(engine, probe)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_disk_that_takes_the_row_and_nothing_more_is_refused(engine, probe):
    check_writes(engine, probe)
    with largest_file(ROOM_BYTES - 1), pytest.raises(StorageFailed, match="Nothing more can be written"):
        check_writes(engine, probe)
    assert count(engine, probe) == 2
