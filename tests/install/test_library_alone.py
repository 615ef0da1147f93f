"""The library with its own packages and no others: `make test-install` shows the same in a fresh environment."""

import json
import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROBE = Path(__file__).with_name("probe.py")
REFUSING = """
import json, runpy, sys
from importlib.abc import MetaPathFinder

allowed = set(json.loads(sys.argv[1]))


class OnlyAllowed(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in allowed and not name.startswith("_sysconfigdata"):  # which is Python's own
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, OnlyAllowed())
runpy.run_path(sys.argv[2], run_name="__main__")
"""


@pytest.fixture(scope="module")
def allowed():
    """The modules of Python, of the library, and of what its lock file names."""
    text = (ROOT / "requirements" / "library.txt").read_text()
    locked = {canonicalize_name(name) for name in re.findall(r"^([\w.-]+)==", text, re.MULTILINE)}
    distributions = packages_distributions()
    modules = {name for name, homes in distributions.items() if locked & set(map(canonicalize_name, homes))}
    return sorted({*sys.stdlib_module_names, "crossward"} | modules)


def run(code, allowed, script):
    command = [sys.executable, "-c", code, json.dumps(allowed), str(script)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def test_every_module_is_imported_and_an_estimator_trains(allowed):
    done = run(REFUSING, allowed, PROBE)
    assert done.returncode == 0, done.stderr
    assert "imported:" in done.stdout
    assert "trained:" in done.stdout


def test_the_test_would_notice_a_package_of_an_extra(allowed, tmp_path):
    (tmp_path / "probe.py").write_text("import rich.console")
    done = run(REFUSING, allowed, tmp_path / "probe.py")
    assert "No module named 'rich'" in done.stderr
