"""Real servers on loopback, the way a user meets them: fixtures for the tests of services and of the client."""

import threading
from contextlib import ExitStack, contextmanager

import httpx
import pytest

from crossward_service.http.serve import address, new_server
from crossward_service.http.settings import ServiceSettings


@contextmanager
def running(app, **settings):
    given = ServiceSettings(**{"port": 0, "shutdown_seconds": 2, **settings})
    ready = threading.Event()
    server, listener = new_server(app, given, lambda line: ready.set())
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        assert ready.wait(120)
        yield address(listener, given)
    finally:
        server.should_exit = True
        thread.join(120)
        listener.close()
        assert not thread.is_alive()


@pytest.fixture
def serve():
    """Serve an app on a free port until the test ends; gives its address."""
    with ExitStack() as stack:
        yield lambda app, **settings: stack.enter_context(running(app, **settings))


@pytest.fixture(scope="module")
def serve_all():
    """The same, for all tests of a file."""
    with ExitStack() as stack:
        yield lambda app, **settings: stack.enter_context(running(app, **settings))


@pytest.fixture
def http():
    """A plain client that knows nothing of ours."""
    with httpx.Client(trust_env=False, timeout=120) as client:
        yield client
