"""What a database refuses is the request's fault, and is answered as such: a clash with 409, a misfit with 422."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Body
from sqlalchemy import Column, Connection, ForeignKey, Integer, MetaData, String, Table, func, insert, select, update

from crossward_service.db.engine import connect, read, write
from crossward_service.http.app import new_app, transaction
from crossward_service.http.serve import address, new_server
from crossward_service.http.settings import ServiceSettings

metadata = MetaData()
houses = Table("houses", metadata, Column("name", String(8), primary_key=True))
wards = Table(
    "wards",
    metadata,
    Column("name", String(8), primary_key=True),
    Column("house", String(8), ForeignKey("houses.name"), nullable=False),
    Column("beds", Integer),
)
WARD = {"name": "north", "house": "main", "beds": 20}

Writing = Annotated[Connection, transaction(lambda request: write(request.app.state.engine))]


def application(engine):
    """A route that writes one ward, and counts the attempt first: a refusal must take that back."""
    app = new_app("Wards", "1", local=False)
    app.state.engine = engine

    @app.post("/wards", status_code=201)
    def add(connection: Writing, ward: Annotated[dict[str, Any], Body()]) -> dict[str, str]:
        connection.execute(update(wards).values(beds=wards.c.beds + 1))
        connection.execute(insert(wards).values(ward))
        return {}

    return app


@pytest.fixture
def database(url):
    engine = connect(url)
    with write(engine) as connection:
        metadata.create_all(connection)
        connection.execute(insert(houses).values(name="main"))
        connection.execute(insert(wards).values(WARD))
    yield engine
    engine.dispose()


@pytest.fixture
def post(database, tmp_path):
    settings = ServiceSettings(data_dir=tmp_path, port=0)
    ready = threading.Event()
    server, listener = new_server(application(database), settings, lambda _: ready.set())
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    assert ready.wait(120)
    with httpx.Client(base_url=address(listener, settings), trust_env=False, timeout=120) as client:

        def send(**ward):
            body = json.dumps(WARD | {"name": "south"} | ward)  # in ASCII, which can spell half a character
            return client.post("/wards", content=body, headers={"Content-Type": "application/json"})

        yield send
    server.should_exit = True
    thread.join()
    listener.close()


def stored(engine):
    with read(engine) as connection:
        return connection.execute(select(func.count(), func.sum(wards.c.beds)).select_from(wards)).one()


CLASHES = {"a name twice": {"name": "north"}, "no such house": {"house": "moon"}, "nothing": {"house": None}}
MISFITS = {"a large number": {"beds": 2**70}, "half a character": {"name": "\ud800"}}
STRICTER = {
    "a long name": {"name": "n" * 9},
    "a zero byte": {"name": "a\0b"},
    "a number beyond the column": {"beds": 2**40},
}
"""PostgreSQL keeps columns to their types; SQLite takes these."""


def check(answer, status, words):
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    problem = answer.json()
    assert words in problem["detail"]
    assert problem["fix"]
    assert not any(word in answer.text for word in ("INSERT", "wards", "sqlite", "psycopg", "n" * 9))


@pytest.mark.parametrize("what", list(CLASHES))
def test_a_clash_with_what_is_stored(database, post, what):
    check(post(**CLASHES[what]), 409, "contradicts what is stored")
    assert stored(database) == (1, 20)


@pytest.mark.parametrize("what", [*MISFITS, *STRICTER])
def test_a_value_that_cannot_be_stored(database, post, what):
    answer = post(**(MISFITS | STRICTER)[what])
    if what in STRICTER and database.dialect.name == "sqlite":
        assert answer.status_code == 201
        return
    check(answer, 422, "cannot be stored")
    assert stored(database) == (1, 20)


def test_of_two_at_once_one_clashes(database, post):
    together = threading.Barrier(2)

    def add(_):
        together.wait()
        return post().status_code

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(add, range(2))) == [201, 409]
    assert stored(database) == (2, 20 + 1 + 20)
