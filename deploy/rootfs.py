"""Puts the image together: python3 rootfs.py VENV OUT, run by the Dockerfile on any base with a glibc and a Python.

OUT/root gets the virtual environment, the interpreter behind it with its standard library, every shared library that
one of them names (as ldd finds them) and the certificates. What is not listed here is not in the image, so there is no
shell to forget. OUT/owned gets the folders that volumes are mounted on, which belong to the image's user.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

USER = 10001
VOLUMES = {"data": 0o700, "records": 0o700, "tokens": 0o700, "secrets": 0o750}
BUILD_ONLY = {"pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence"}
BUILD_ONLY |= {"hatchling", "editables", "trove_classifiers"}
PACKAGES_LEFT_OUT = re.compile(r"__pycache__|tests?|.*\.(a|c|cc|cpp|h|hpp|pyx|pxd|pxi|pyi)")
# Of pyarrow we read CSV and Parquet from disk: no headers, no servers, no clouds, and each library once.
PYARROW_LEFT_OUT = re.compile(
    r"include|includes|src|.*(flight|gandiva|s3|gcs|azure).*|lib[a-z].*\.so(\.\d+\.\d+\.\d+)?"
)
# The standard library without what installs, draws windows or tests.
STDLIB_LEFT_OUT = {"__pycache__", "dist-packages", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "site-packages"}
STDLIB_LEFT_OUT |= {"sitecustomize.py", "test", "tkinter", "turtledemo", "venv"}
OTHERS = ("/etc/ld.so.cache", "/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/openssl.cnf", "/usr/lib/locale/C.utf8")


def main(venv: Path, out: Path) -> None:
    """Copy, prune, compile."""
    root = out / "root"
    _copy(venv, root, ignore=_ignore)
    for script in (root / venv.relative_to("/") / "bin").iterdir():
        if not script.name.startswith(("crossward", "python")):
            script.unlink()
    stdlib = Path(sysconfig.get_paths()["stdlib"])
    _copy(stdlib, root, ignore=_stdlib_ignore)
    interpreter = Path(sys.executable).resolve()
    _copy(interpreter, root)
    for python in (venv / "bin").glob("python*"):
        _copy_links(python, root)
    for library in _libraries([interpreter, *_shared_objects(root)]):
        _copy(library, root)
    for path in map(Path, OTHERS):
        if path.exists():
            _copy(path.resolve(), root, as_=path)
    _write(root / "etc/passwd", f"root:x:0:0:root:/:\ncrossward:x:{USER}:{USER}:crossward:/data:\n")
    _write(root / "etc/group", f"root:x:0:\ncrossward:x:{USER}:\n")
    _write(root / "etc/nsswitch.conf", "hosts: files dns\n")
    for folder in (root / venv.relative_to("/"), root / stdlib.relative_to("/")):
        compileall.compile_dir(folder, stripdir=root, quiet=2, workers=0,
                               invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)  # fmt: skip
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    for name, mode in VOLUMES.items():
        (out / "owned" / name).mkdir(parents=True)
        (out / "owned" / name).chmod(mode)


def _ignore(folder: str, names: list[str]) -> set[str]:
    left_out = {name for name in names if PACKAGES_LEFT_OUT.fullmatch(name)}
    if folder.endswith("/site-packages"):
        left_out |= {name for name in names if re.split(r"-\d|\.", name)[0] in BUILD_ONLY}
    if folder.endswith("/pyarrow"):
        left_out |= {name for name in names if PYARROW_LEFT_OUT.fullmatch(name)}
    return left_out


def _stdlib_ignore(folder: str, names: list[str]) -> set[str]:
    return {n for n in names if n in STDLIB_LEFT_OUT or n.startswith(("config-3", "libpython"))}


def _shared_objects(root: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(root):
        for name in names:
            if ".so" in name and (path := Path(folder, name)).open("rb").read(4) == b"\x7fELF":
                yield Path("/") / path.relative_to(root)


def _libraries(objects: list[Path]) -> set[Path]:
    """What the loader would load, by the names it looks for."""
    found: set[Path] = set()
    for path in objects:
        listed = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=False).stdout
        found |= {Path(line) for line in re.findall(r"(?:=> |^\s*)(/\S+) \(0x", listed, re.MULTILINE)}
    return {path for path in found if not path.is_relative_to("/opt")}


def _copy(source: Path, root: Path, ignore: object = None, as_: Path | None = None) -> None:
    target = root / (as_ or source).relative_to("/")
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore=ignore)  # type: ignore[arg-type]
    else:
        shutil.copy2(source, target)


def _copy_links(path: Path, root: Path) -> None:
    """A symbolic link and those it leads to, up to the file at their end."""
    while path.is_symlink():
        target = root / path.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.is_symlink():
            target.symlink_to(os.readlink(path))
        path = path.parent / os.readlink(path)
    _copy(path, root)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
