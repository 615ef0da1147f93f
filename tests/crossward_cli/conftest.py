"""The command line, in this process and as a program of its own."""

from __future__ import annotations

import os
import sys

import pytest
from typer.testing import CliRunner

from crossward.errors import CrosswardError
from crossward_cli.main import commands
from forked import Forked, run

# What would put colours between the words, or break lines elsewhere, wherever they are printed.
LOOK_OF_A_TERMINAL = ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "TTY_COMPATIBLE", "TERMINAL_WIDTH")


def _crossward(*arguments):
    done = CliRunner(env={"COLUMNS": "120"}).invoke(commands, [str(word) for word in arguments])
    if isinstance(done.exception, CrosswardError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def crossward():
    """A command in this process: what it printed, or the error that it ended with."""
    return _crossward


def _program(*arguments, code=0, kind=Forked, **variables):
    environment = {name: value for name, value in os.environ.items() if name not in LOOK_OF_A_TERMINAL}
    command = [sys.executable, "-m", "crossward_cli", *arguments]
    done = run(command, kind=kind, env=environment | {"COLUMNS": "80"} | variables)
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture
def program():
    """The command line as a process of its own, which must end with this exit code; `kind` is how it is started."""
    return _program
