"""Property tests draw from a fixed seed, and a busy machine is no failure.

Here and not beside some of them: a profile counts for whatever is imported after it, so it must come before all tests.
"""

import sys

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "steady", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")

_LISTEN = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"


@pytest.fixture(scope="session")
def heard():
    """A command that hears Ctrl-C as at a terminal: what a shell puts into the background hands down to ignore it."""
    return lambda *command: [sys.executable, "-c", _LISTEN, *map(str, command)]
