"""What tests of several folders stand on: a fixed seed, empty databases of each kind, a command that hears Ctrl-C.

Property tests draw from a fixed seed, and a busy machine is no failure. That is said here and not beside some of them:
a profile counts for whatever is imported after it, so it must come before all tests.
"""

import gc
import runpy
import secrets
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "steady", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")

_LISTEN = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"


def pytest_collection_modifyitems(items):
    """What takes longest comes first: in the end no process waits for the one that began last."""
    items.sort(key=lambda item: "tests/simulation/" not in item.nodeid)


def pytest_collection_finish():
    """What was imported stays to the end: to look through it for garbage again and again is a tenth of all the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)


@pytest.fixture(scope="session")
def heard():
    """A command that hears Ctrl-C as at a terminal: what a shell puts into the background hands down to ignore it."""
    return lambda *command: [sys.executable, "-c", _LISTEN, *map(str, command)]


# -- databases --------------------------------------------------------------------------------------------------------
POSTGRES = runpy.run_path(str(Path(__file__).with_name("postgres.py")))
PROGRAMS = POSTGRES["programs"]()


@pytest.fixture(scope="session")
def postgresql():
    """A private PostgreSQL server."""
    if not PROGRAMS:
        pytest.skip("PostgreSQL is not installed")
    with POSTGRES["cluster"](PROGRAMS) as url:
        yield url


@pytest.fixture
def sqlite_url(tmp_path):
    """A SQLite file that is not there yet."""
    return f"sqlite:///{tmp_path}/service.sqlite3"


@pytest.fixture
def postgresql_url(postgresql):
    """An empty schema in PostgreSQL: much cheaper than a database, and as empty."""
    import psycopg  # noqa: PLC0415 - the library's tests run where it is not installed

    name = f"t{secrets.token_hex(6)}"
    with psycopg.connect(postgresql, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{postgresql}&options=-csearch_path%3D{name}"


@pytest.fixture(params=["sqlite", "postgresql"] if PROGRAMS else ["sqlite"])
def url(request):
    """An empty database of each kind."""
    return request.getfixturevalue(f"{request.param}_url")


# -- benchmarks -------------------------------------------------------------------------------------------------------
@pytest.fixture
def row():
    """Makes a benchmark's row with numbers we know: `row("Direct", 0.9, epsilon=0.5)`.

    It has eight repeats around an AUC; repeats of all rows go up and down together, as splits make them do.
    """
    import numpy as np  # noqa: PLC0415 - most tests need no benchmark

    from crossward_lab.bench.measurements import Measurement  # noqa: PLC0415

    def make(method, auc, **about):
        splits = np.array([0.002, -0.001, 0.0, 0.001, -0.002, 0.003, -0.003, 0.0])
        wobble = 0.0003 * np.sin(2 * np.arange(8) + len(method))
        aucs = tuple(float(a) for a in auc + splits + wobble - wobble.mean())
        given = {"dataset": "mnist", "setting": "0v8->0v9", "preset": "default", "epsilon": 1.0} | about
        return Measurement(
            method=method,
            auc_mean=float(np.mean(aucs)),
            auc_sd=float(np.std(aucs, ddof=1)),
            repeats=8,
            error_mean=1 - auc,
            error_sd=0.01,
            paper="a table",
            aucs=aucs,
            **given,
        )

    return make
