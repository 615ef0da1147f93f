"""`make test-install` and `make test-pythons`: the wheel in fresh environments, as a stranger installs it.

library    the library's locked packages and the wheel, nothing else: it trains, and says what is left out
pythons    the library's own tests as well

Each on every Python that is declared (or named) and here; what is not here is said.

Both need a package index, so they are no tests of `make test`. Each line says what was found; the first that is wrong
ends it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import which

ROOT = Path(__file__).parents[2]
PROBE = Path(__file__).with_name("probe.py")
PYTHONS = ("python3.11", "python3.12", "python3.13")
MOST_PACKAGES = 25
LIBRARY_TESTS = ("tests/crossward", "--ignore=tests/crossward/client")  # the client's tests start services
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}


def run(*command: object, folder: Path = ROOT, code: int = 0) -> str:
    """Run a command, which must end with this code, and give what it printed."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, env=CLEAN, capture_output=True, text=True, check=False)
    if done.returncode != code:
        sys.exit(f"{' '.join(words)} ended with {done.returncode}, not {code}:\n{done.stdout}{done.stderr}")
    return (done.stdout + done.stderr).strip()


def build_wheel(folder: Path) -> Path:
    """The wheel of this tree."""
    run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def new_environment(python: str, folder: Path, lock: str, wheel: Path) -> Path:
    """A fresh environment with what a lock file names, by hash, and the wheel; gives its Python."""
    run(python, "-m", "venv", folder)
    inside = folder / "bin" / "python"
    pip = (inside, "-m", "pip", "--disable-pip-version-check", "--quiet", "--retries", "10")
    run(*pip, "install", "--require-hashes", "-r", ROOT / "requirements" / lock)
    run(*pip, "install", "--no-deps", wheel)
    return inside


def check_library(interpreter: str, folder: Path, wheel: Path) -> None:
    """The library alone: few packages, all of it can be imported, it trains, and the rest says what it needs."""
    python = new_environment(interpreter, folder / "library", "library.txt", wheel)
    print(run(python, "--version"))
    pip = (python, "-m", "pip", "--disable-pip-version-check")
    names = {line.partition("==")[0] for line in run(*pip, "list", "--format=freeze").splitlines()}
    print(f"packages: {len(names)}, may be {MOST_PACKAGES}: {', '.join(sorted(names))}")
    if len(names) > MOST_PACKAGES:
        sys.exit("These are too many packages.")
    print(f"pip check: {run(*pip, 'check')}")
    print(run(python, "-I", PROBE, folder=folder))
    for command in ((python, "-m", "crossward_cli"), (python.with_name("crossward"),)):
        said = run(*command, "--help", folder=folder, code=2)
        if said.count("\n") or 'pip install ".[cli]"' not in said:
            sys.exit(f"{command[-1]} --help does not say in one line what it needs:\n{said}")
        print(f"{Path(command[-1]).name} --help: {said}")


def find_python(name: str) -> str | None:
    """An interpreter by name that really starts: on the path, or among pyenv's versions, whose shims may not."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [which(name), *map(str, sorted(versions.glob(f"*/bin/{name}")))]
    for python in filter(None, candidates):
        if subprocess.run([python, "-c", "pass"], env=CLEAN, capture_output=True, check=False).returncode == 0:
            return python
    return None


def run_tests(interpreter: str, folder: Path, wheel: Path) -> None:
    """The library's own tests."""
    inside = new_environment(interpreter, folder / "tests", "library-tests.txt", wheel)
    said = run(inside, "-m", "pytest", "-n", "auto", "-q", "-p", "no:cacheprovider", *LIBRARY_TESTS)
    print(f"{run(inside, '--version')}: {said.splitlines()[-1]}", flush=True)


JOBS = {"library": (check_library,), "pythons": (check_library, run_tests)}


def main() -> None:
    """Build the wheel and try it."""
    job, *words = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="crossward-install-") as temporary:
        folder = Path(temporary)
        wheel = build_wheel(folder)
        print(f"wheel: {wheel.name}, {wheel.stat().st_size / 1000:.0f} kB", flush=True)
        pythons = {name: find_python(name) for name in words or PYTHONS}
        for name, python in pythons.items():
            for check in JOBS[job] if python else ():
                check(str(python), folder / Path(name).name, wheel)
        if missing := [name for name, python in pythons.items() if python is None]:
            print(f"not found, and so not tested: {', '.join(missing)}")
        if len(missing) == len(pythons):
            sys.exit("No Python that could be tested was found.")


if __name__ == "__main__":
    main()
