"""What the wheel and the sdist hold: all of the packages and nothing else, and the one builds the other."""

import subprocess
import sys
import tarfile
import tomllib
from email import message_from_bytes
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "crossward": "shared",
    "crossward_service": "shared",
    "crossward_lab": "shared",
    "crossward_cli": "shared",
    "crossward_connector": "services",
    "crossward_coordinator": "services",
    "crossward_site": "services",
    "crossward_source": "services",
    "crossward_target": "services",
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def build(tree, folder, *targets):
    """Build without a network, with what the environment has."""
    words = [word for target in targets for word in ("--target", target)]
    command = [sys.executable, "-m", "hatchling", "build", *words, "--directory", str(folder)]
    subprocess.run(command, cwd=tree, capture_output=True, check=True, timeout=600)
    return folder


def contents(wheel):
    """The files of a wheel, without its list of them."""
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/RECORD")}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build(ROOT, tmp_path_factory.mktemp("dist"), "wheel", "sdist")


@pytest.fixture(scope="module")
def wheel(built):
    (path,) = built.glob("crossward-*-py3-none-any.whl")
    return contents(path)


@pytest.fixture(scope="module")
def about(wheel):
    (name,) = (name for name in wheel if name.endswith(".dist-info/METADATA"))
    return message_from_bytes(wheel[name])


@pytest.fixture(scope="module")
def unpacked(built, tmp_path_factory):
    (path,) = built.glob("crossward-*.tar.gz")
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(path) as archive:
        archive.extractall(folder, filter="data")
    (tree,) = folder.iterdir()
    return tree


def test_the_wheel_holds_every_file_of_the_packages_and_no_other(wheel):
    tree = {
        path.relative_to(ROOT / home).as_posix()
        for package, home in PACKAGES.items()
        for path in (ROOT / home / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in wheel if ".dist-info/" not in name} == tree
    assert {f"{package}/py.typed" for package in PACKAGES} | {"crossward/study/example.yaml"} <= tree
    assert {path.name for home in ("shared", "services") for path in (ROOT / home).iterdir()} == PACKAGES.keys()


def test_the_wheel_says_what_it_is_and_needs(wheel, about):
    assert about["Name"] == "crossward"
    assert about["License-Expression"] == "Apache-2.0"
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel)
    assert about["Requires-Python"] == ">=3.11"
    pythons = {f"Programming Language :: Python :: {version}" for version in ("3.11", "3.12", "3.13")}
    assert pythons <= set(about.get_all("Classifier"))
    assert set(about.get_all("Provides-Extra")) == {"cli", "services", "plots", "lab", "all"}


def test_without_an_extra_only_the_library_is_installed(about):
    needs = [Requirement(text) for text in about.get_all("Requires-Dist")]

    def installed(extra):
        return {one.name for one in needs if one.marker is None or one.marker.evaluate({"extra": extra})}

    library = {Requirement(text).name for text in PROJECT["dependencies"]}
    assert installed("") == library
    assert installed("cli") - {"crossward"} == library | {"typer", "rich"}


def test_the_command_starts_where_its_packages_may_be_missing(wheel):
    (entry_points,) = (text for name, text in wheel.items() if name.endswith("/entry_points.txt"))
    assert b"crossward = crossward_cli.__main__:main" in entry_points


def test_the_sdist_holds_what_one_needs_to_build_and_test_it(unpacked):
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "Makefile", "requirements/library.txt"):
        assert (unpacked / name).is_file()
    for name in ("shared", "services", "tests/install", "docs/adr", "deploy"):
        assert (unpacked / name).is_dir()
    files = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    assert not [name for name in files if name.startswith((".ci", ".git/", ".venv")) or name.endswith(".pyc")]
    assert [name for name in files if name.startswith("deploy/host/")] == ["deploy/host/README"]


def test_the_sdist_builds_the_same_wheel(unpacked, wheel, tmp_path):
    (again,) = build(unpacked, tmp_path, "wheel").glob("*.whl")
    assert contents(again) == wheel
