"""The lock files: hashes everywhere, one version of a package, and a library that needs few of them."""

import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from crossward_cli.extras import EXTRAS

ROOT = Path(__file__).parents[2]
FILES = ("library", "library-tests", "runtime", "lab", "dev")
MOST_LOCKED = 23  # with Crossward itself and pip, a fresh environment has two more
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def locked(name):
    """The requirements of a lock file, each with its hashes."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text().replace("\\\n", " ")
    lines = [line.partition(" #")[0] for line in text.splitlines() if not line.lstrip().startswith("#")]
    return [
        (Requirement(re.split(r"\s+--hash", line)[0]), re.findall(r"--hash=sha256:[0-9a-f]{64}", line))
        for line in lines
        if line.strip()
    ]


def names_on(requirements, version):
    """What is installed on Linux by a Python of this version."""
    here = {
        "python_version": version,
        "python_full_version": f"{version}.9",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": "x86_64",
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
        "os_name": "posix",
    }
    return {canonicalize_name(one.name) for one, _ in requirements if one.marker is None or one.marker.evaluate(here)}


@pytest.mark.parametrize("name", [*FILES, "bench-peers"])
def test_every_package_is_pinned_with_hashes(name):
    for requirement, hashes in locked(name):
        assert str(requirement.specifier).startswith("=="), requirement
        assert hashes, requirement


@pytest.mark.parametrize("smaller", FILES[:-1])
def test_what_is_installed_on_top_of_another_has_its_versions(smaller):
    versions = {(one.name, str(one.specifier)) for one, _ in locked(smaller)}
    assert versions <= {(one.name, str(one.specifier)) for one, _ in locked("dev")}


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_the_library_needs_few_packages(version):
    names = names_on(locked("library"), version)
    assert {canonicalize_name(Requirement(one).name) for one in PROJECT["dependencies"]} <= names
    assert len(names) <= MOST_LOCKED, sorted(names)
    assert names < names_on(locked("runtime"), version) < names_on(locked("lab"), version)


def test_the_command_line_knows_which_extra_brings_a_module():
    distributions = {module: map(canonicalize_name, names) for module, names in packages_distributions().items()}
    known = {name: extra for module, extra in EXTRAS.items() for name in distributions.get(module, ())}
    wanted = {
        canonicalize_name(Requirement(text).name): extra
        for extra, texts in PROJECT["optional-dependencies"].items()
        for text in texts
        if not text.startswith("crossward[")
    }
    assert {name: extra for name, extra in known.items() if name != "crossward"} == wanted
    assert set(EXTRAS.values()) == PROJECT["optional-dependencies"].keys() - {"all"}
