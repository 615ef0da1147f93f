"""A program that is forked is what it would be if it were started: `Forked` beside `subprocess.Popen`."""

import itertools
import json
import os
import signal
import subprocess
import sys

import pytest

from forked import HASHES, Forked, ForkedEarly, run

KINDS = [subprocess.Popen, Forked, ForkedEarly]
ABOUT = """
import json, os, sys
about = {"words": sys.argv, "here": os.getcwd(), "variables": dict(os.environ), "place": sys.path[0], "name": __name__}
print(json.dumps(about), end="")
print("trouble", file=sys.stderr)
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def program(tmp_path):
    """Makes a program, and what starts it."""

    numbers = itertools.count()

    def write(text):
        file = tmp_path / f"program{next(numbers)}.py"
        file.write_text(text)
        return [sys.executable, file]

    return write


def test_it_has_the_same_words_folder_and_variables_and_ends_alike(program, tmp_path):
    command, given = program(ABOUT), {"PATH": os.environ["PATH"], "CROSSWARD_X": "1", "COLUMNS": "33"}
    started, *forked = (run([*command, 3], kind=kind, env=given, cwd=tmp_path) for kind in KINDS)
    about = json.loads(started.stdout)
    assert about["variables"].items() >= given.items()
    for other in forked:
        told = json.loads(other.stdout)
        told["variables"] |= {name: value for name, value in about["variables"].items() if name == "LC_CTYPE"}
        assert told == about
        assert (other.returncode, other.stderr) == (started.returncode, started.stderr) == (3, "trouble\n")


@pytest.mark.parametrize("kind", KINDS)
def test_a_kill_an_error_and_a_word_as_it_ends_are_told(program, kind):
    waits = program("import sys; print(sys.stdin.readline(), flush=True); sys.stdin.readline()")
    with kind(waits, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdin.write("hello\n")
        process.stdin.flush()
        assert process.stdout.readline() == "hello\n"
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.kill()
        assert process.wait(300) == -signal.SIGKILL
        assert process.poll() == -signal.SIGKILL
    broken = run(program("import atexit; atexit.register(print, 'last'); raise RuntimeError('oh')"), kind=kind)
    assert (broken.returncode, broken.stdout) == (1, "last\n")
    assert "RuntimeError: oh" in broken.stderr
    assert run(program("import sys; sys.exit('no')"), kind=kind).stderr == "no\n"


@pytest.mark.parametrize("kind", KINDS)
def test_its_input_ends_with_whoever_holds_it(program, kind):
    listens = program("import sys; sys.stdin.read()")
    with kind(listens, stdin=subprocess.PIPE) as one, kind(listens, stdin=subprocess.PIPE) as other:
        one.stdin.close()
        assert one.wait(300) == 0  # the other has no end of its pipe
        other.stdin.close()
        assert other.wait(300) == 0


def test_its_hashes_are_others_and_what_is_drawn_differs_each_time(program):
    shows = program("import random, secrets; print(hash('crossward'), random.random(), secrets.token_hex(8))")
    first, second = (run(shows).stdout.split() for _ in range(2))
    hashed = run(shows, kind=subprocess.Popen, env=os.environ | {"PYTHONHASHSEED": HASHES}).stdout.split()
    assert first[0] == second[0] == hashed[0]
    assert first[1] != second[1]
    assert first[2] != second[2]


@pytest.mark.parametrize("command", [["ls"], [sys.executable, "-c", "pass"]])
def test_only_a_program_of_ours_is_forked(command):
    with pytest.raises(ValueError, match="Only a program of ours"):
        Forked(command)
