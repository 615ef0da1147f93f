"""The program as its users meet it: help, versions, exit codes, errors for people and for machines."""

import json
import os
import subprocess
import sys

import pytest

from crossward.study import example
from crossward.version import __version__

WITHOUT_THE_LABORATORY = """
import sys
from importlib.abc import MetaPathFinder


class NoLaboratory(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "crossward_lab":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


sys.meta_path.insert(0, NoLaboratory())
"""


def test_the_version_is_a_command_and_an_option(program):
    assert program("version").stdout.strip() == program("--version").stdout.strip() == __version__
    assert json.loads(program("version", "--json").stdout) == {"version": __version__}


def test_without_arguments_it_helps(program):
    done = program(code=2)
    assert "demo" in done.stdout + done.stderr
    assert "audit" in done.stdout + done.stderr


@pytest.mark.parametrize("arguments", [("demo", "--branches", "17"), ("audit", "--nonsense"), ("nothing",)])
def test_mistakes_exit_with_2_and_say_why(program, arguments):
    assert program(*arguments, code=2).stderr


def test_errors_are_json_for_machines(program, tmp_path):
    said = json.loads(program("study", "check", tmp_path / "none.yaml", "--json", code=2).stderr)
    assert said["error"] == "InvalidSetting"
    assert "none.yaml cannot be read" in said["cause"]
    assert "Is the path right" in said["fix"]
    (tmp_path / "study.yaml").write_text(example().replace("high: 34", "high: 3"))
    said = json.loads(program("study", "check", tmp_path / "study.yaml", "--json", code=2).stderr)
    assert said["error"] == "StudyInvalid"
    assert "features[3]" in said["fix"]


@pytest.mark.parametrize(
    ("arguments", "cause"), [(("study", "list"), "--token"), (("audit", "--nonsense"), "--nonsense"), (("no",), "no")]
)
def test_a_command_line_that_cannot_be_read_is_json_too(program, arguments, cause):
    said = json.loads(program(*arguments, "--json", code=2).stderr)
    assert said.keys() == {"error", "cause", "fix"}
    assert said["error"] == "UsageError"
    assert cause in said["cause"]


def test_the_program_starts_without_loading_the_heavy_libraries():
    code = "import sys, crossward_cli.main; print([m for m in ('sklearn', 'scipy', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture
def no_laboratory(tmp_path):
    """Variables with which a program finds no laboratory, as in a hospital's image."""
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_THE_LABORATORY)
    return {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])}


@pytest.mark.parametrize(
    "arguments",
    [
        ("simulate",),
        ("audit", "--quick"),
        ("demo",),
        ("demo", "records", "main", "records.csv"),
        ("demo", "study", "main=http://127.0.0.1:1", "--tokens", ".", "--records", "records.csv"),
        ("bench", "ruijin"),
        ("bench", "report"),
        ("bench", "forecast", "mnist", "--measured", "rows.json"),
        ("bench", "speed"),
        ("study", "example", "--data", "folder"),
    ],
    ids=" ".join,
)
def test_what_needs_the_laboratory_says_so_where_it_is_left_out(program, no_laboratory, arguments):
    said = program(*arguments, code=2, **no_laboratory).stderr
    assert "Traceback" not in said
    assert "not part of this installation" in " ".join(said.split())
    assert 'pip install "crossward[lab]"' in " ".join(said.split())
    said = json.loads(program(*arguments, "--json", code=2, **no_laboratory).stderr)
    assert said["error"] == "NotInstalled"


def test_everything_else_works_without_the_laboratory(program, no_laboratory, tmp_path):
    loaded = [sys.executable, "-c", "import crossward_lab"]
    refused = subprocess.run(loaded, env=os.environ | no_laboratory, capture_output=True, text=True, check=False)
    assert "No module named 'crossward_lab'" in refused.stderr
    assert "bench" in program("--help", **no_laboratory).stdout
    (tmp_path / "study.yaml").write_text(program("study", "example", **no_laboratory).stdout)
    program("study", "check", tmp_path / "study.yaml", **no_laboratory)
    for service in ("coordinator", "source", "target"):
        program(service, "init", "--data-dir", tmp_path / service, **no_laboratory)
        assert "--tokens" in program(service, "serve", "--help", **no_laboratory).stdout
    program("doctor", "coordinator", "--data-dir", tmp_path / "coordinator", "--json", **no_laboratory)
