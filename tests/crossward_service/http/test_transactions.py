"""One request, one transaction: what was not committed was not answered with 200."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Annotated

import pytest
from fastapi import Depends, Request
from sqlalchemy import Connection, text

from crossward.errors import BudgetExceeded
from crossward_service.db.engine import connect, write
from crossward_service.http.app import new_app, transaction

Writing = Annotated[Connection, transaction(lambda request: write(request.app.state.engine))]


@pytest.fixture
def engine(tmp_path):
    made = connect(f"sqlite:///{tmp_path / 'notes.sqlite3'}")
    with write(made) as connection:
        connection.execute(text("CREATE TABLE parents (id INTEGER PRIMARY KEY)"))
        connection.execute(
            text("CREATE TABLE notes (id INTEGER REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED)")
        )
        connection.execute(text("INSERT INTO parents VALUES (1)"))
    yield made
    made.dispose()


def app_over(engine):
    app = new_app("Notes", "1", local=False)
    app.state.engine = engine

    @app.post("/notes/{parent}")
    def add(parent: int, connection: Writing) -> dict[str, str]:
        connection.execute(text("INSERT INTO notes VALUES (:parent)"), {"parent": parent})
        if parent == 3:
            raise BudgetExceeded("No more.", "Stop.")
        return {"said": "done"}

    return app


def count(engine):
    with write(engine) as connection:
        return connection.execute(text("SELECT count(*) FROM notes")).scalar_one()


def test_a_route_that_returns_commits(serve, http, engine):
    url = serve(app_over(engine))
    assert http.post(url + "/notes/1").status_code == 200
    assert count(engine) == 1


def test_a_commit_that_fails_does_not_answer_200(serve, http, engine):
    """The foreign key is checked at COMMIT: the route itself has nothing to complain about."""
    url = serve(app_over(engine))
    answer = http.post(url + "/notes/2")
    assert answer.status_code == 409
    assert "done" not in answer.text
    assert count(engine) == 0
    assert http.post(url + "/notes/1").status_code == 200


def test_a_route_that_raises_rolls_back(serve, http, engine):
    url = serve(app_over(engine))
    assert http.post(url + "/notes/3").status_code == 409
    assert count(engine) == 0


def test_many_writers_at_once_take_turns(serve, http, engine):
    """More writers than threads: if those that wait for the lock held the threads, none could finish."""
    url = serve(app_over(engine))
    with ThreadPoolExecutor(100) as pool:
        statuses = list(pool.map(lambda _: http.post(url + "/notes/1").status_code, range(100)))
    assert statuses == [200] * 100
    assert count(engine) == 100


def test_the_answer_leaves_after_the_commit(serve, http):
    """A commit that hangs holds the answer back."""
    committed, let = threading.Event(), threading.Event()

    @contextmanager
    def slow(request: Request):
        yield "session"
        assert let.wait(120)
        committed.set()

    app = new_app("Slow", "1", local=False)

    @app.get("/")
    async def read(session: Annotated[str, transaction(slow)]) -> bool:
        return committed.is_set()

    url = serve(app)
    threading.Timer(0.3, let.set).start()
    assert http.get(url + "/").json() is False
    assert committed.is_set()


def test_an_ordinary_dependency_would_have_lied(serve, http, engine):
    """Why the scope matters: the same commit at the end of an ordinary dependency fails after a 200."""
    app = new_app("Liar", "1", local=False)

    def late(request: Request):
        with write(engine) as connection:
            yield connection

    @app.post("/notes/{parent}")
    def add(parent: int, connection: Annotated[Connection, Depends(late)]) -> str:
        connection.execute(text("INSERT INTO notes VALUES (:parent)"), {"parent": parent})
        return "done"

    assert http.post(serve(app) + "/notes/2").status_code == 200
    assert count(engine) == 0
