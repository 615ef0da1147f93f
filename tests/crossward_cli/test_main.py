"""The program as its users meet it: help, versions, exit codes, errors for people and for machines."""

import json
import os
import re
import subprocess
import sys

import pytest

from crossward.study import example
from crossward.version import __version__
from crossward_cli.extras import EXTRAS
from crossward_cli.main import HELP, load
from forked import ForkedEarly, run

REFUSING = """
import sys
from importlib.abc import MetaPathFinder


class Refusing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {modules!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
        return None


sys.meta_path.insert(0, Refusing())
"""

HEAVY = {"rich", "pydantic", "httpx", "numpy", "scipy", "sklearn", "sqlalchemy", "fastapi", "cryptography", "yaml"}


def test_the_version_is_a_command_and_an_option(program):
    asked = [program(word, kind=subprocess.Popen).stdout.strip() for word in ("version", "--version")]
    assert asked == [__version__, __version__]
    assert json.loads(program("version", "--json").stdout) == {"version": __version__}


def test_without_arguments_it_helps(program):
    assert program(code=2).stdout == program("--help").stdout


@pytest.mark.parametrize("arguments", [("demo", "--branches", "17"), ("audit", "--nonsense"), ("nothing",)])
def test_mistakes_exit_with_2_and_say_why(program, arguments):
    assert program(*arguments, code=2, kind=subprocess.Popen).stderr


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


def test_help_loads_none_of_the_heavy_libraries():
    code = (
        "import atexit, json, sys; sys.argv[0] = 'crossward'\n"
        "atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))\n"
        "from crossward_cli.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--help"], capture_output=True, text=True, timeout=600, check=True
    )
    assert "Usage: crossward [OPTIONS] COMMAND" in done.stdout
    modules = set(json.loads(done.stderr))
    assert "typer" in modules
    assert not HEAVY & modules
    assert not {name for name in modules if name.startswith("crossward_cli.")} - {
        f"crossward_cli.{name}" for name in ("__main__", "extras", "main", "output")
    }


@pytest.mark.parametrize("name", HELP)
def test_the_help_of_a_command_is_its_own(name):
    command = load(name)
    assert command.name == name
    assert HELP[name] == command.help.partition("\n\n")[0].replace("\n", " ")


def test_help_shows_every_command_with_its_help(program):
    help = program("--help").stdout
    for name, words in HELP.items():
        assert re.search(rf"^  {name} +{words.split()[0]}", help, re.MULTILINE)
        assert words in " ".join(help.split())
    assert all(len(line) <= 80 for line in help.splitlines())


def test_a_command_that_is_mistyped_is_guessed(program):
    assert "Did you mean 'study'?" in program("stduy", code=2).stderr


# -- what an installation may leave out -----------------------------------------------------------------------------
@pytest.fixture
def without(tmp_path_factory):
    """How a program is started that does not find some modules, as where an extra is not installed."""

    def variables(*modules, kind=subprocess.Popen):
        folder = tmp_path_factory.mktemp("refusing")
        (folder / "sitecustomize.py").write_text(REFUSING.format(modules=modules))
        path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
        return {"kind": kind, "PYTHONPATH": path}

    return variables


@pytest.fixture
def no_laboratory(without):
    """As in a hospital's image."""
    return without("crossward_lab", kind=ForkedEarly)


@pytest.fixture
def no_services(without):
    """As after `pip install ".[cli]"`."""
    parts = [module for module, extra in EXTRAS.items() if extra in ("services", "plots") and module != "anyio"]
    return without(*parts, kind=ForkedEarly)


@pytest.mark.parametrize(
    ("module", "arguments"),
    [("typer", ()), ("typer", ("--help",)), ("typer", ("study", "list")), ("rich", ("study", "list"))],
)
def test_without_its_own_packages_the_command_line_says_so_in_one_line(program, without, module, arguments):
    missing = without(module)
    said = program(*arguments, code=2, **missing).stderr
    assert said.count("\n") == 1
    assert 'pip install ".[cli]"' in said
    assert json.loads(program(*arguments, "--json", code=2, **missing).stderr)["error"] == "NotInstalled"


@pytest.mark.parametrize(
    "arguments",
    [
        ("coordinator", "init", "--data-dir", "folder"),
        ("source", "serve"),
        ("target", "tokens"),
        ("site", "backup", "file"),
        ("doctor",),
        ("doctor", "coordinator"),
        ("demo",),
    ],
    ids=" ".join,
)
def test_what_runs_a_service_says_which_extra_it_needs(program, no_services, arguments):
    if arguments != ("source", "serve"):  # which knows no --json
        said = json.loads(program(*arguments, "--json", code=2, **no_services).stderr)
        assert said["error"] == "NotInstalled"
        assert 'pip install ".[services]"' in said["fix"]
    said = program(*arguments, code=2, **no_services).stderr
    assert said.count("\n") == 1
    assert 'pip install ".[services]"' in said


def test_a_lead_and_an_auditor_need_no_services(program, no_services, tmp_path):
    (tmp_path / "study.yaml").write_text(program("study", "example", **no_services).stdout)
    program("study", "check", tmp_path / "study.yaml", **no_services)
    program("plan", tmp_path / "study.yaml", "--repeats", "2", "--epsilon", "1", "--workers", "1", **no_services)
    program("tls", f"coordinator={tmp_path}/tls", "--ca", tmp_path / "ca", **no_services)
    program("secret", tmp_path / "secret", **no_services)
    for arguments in (("study", "list"), ("party", "list"), ("ledger", "mirror", "main", tmp_path / "mirror")):
        options = ("--token", "x", "--coordinator", "http://127.0.0.1:1", "--json")
        assert json.loads(program(*arguments, *options, code=2, **no_services).stderr)["error"] == "Unreachable"
    (tmp_path / "broken").write_text("no ledger")
    said = json.loads(program("ledger", "verify", tmp_path / "broken", "--json", code=2, **no_services).stderr)
    assert said["error"] == "ChainBroken"


def test_a_module_that_no_extra_brings_is_a_bug_and_shows_itself(program, without):
    assert "No module named 'yaml'" in program("study", "example", "--json", code=1, **without("yaml")).stderr


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
    assert 'pip install ".[lab]"' in " ".join(said.split())
    said = json.loads(program(*arguments, "--json", code=2, **no_laboratory).stderr)
    assert said["error"] == "NotInstalled"


def test_everything_else_works_without_the_laboratory(program, no_laboratory, tmp_path):
    (tmp_path / "loads.py").write_text("import crossward_lab")
    path = {"PYTHONPATH": no_laboratory["PYTHONPATH"]}
    for kind in (ForkedEarly, subprocess.Popen):
        refused = run([sys.executable, tmp_path / "loads.py"], kind=kind, env=os.environ | path)
        assert "No module named 'crossward_lab'" in refused.stderr
    assert "bench" in program("--help", **no_laboratory).stdout
    (tmp_path / "study.yaml").write_text(program("study", "example", **no_laboratory).stdout)
    program("study", "check", tmp_path / "study.yaml", **no_laboratory)
    for service in ("coordinator", "source", "target"):
        program(service, "init", "--data-dir", tmp_path / service, **no_laboratory)
        assert "--tokens" in program(service, "serve", "--help", **no_laboratory).stdout
    program("doctor", "coordinator", "--data-dir", tmp_path / "coordinator", "--json", **no_laboratory)
