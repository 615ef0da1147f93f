"""Nothing that came from a file, a database or a network is run: no module unpickles, evaluates, or imports by data.

The rule is on the text of the modules, so it holds for what is imported when it is used, too. Between a process and
its own children the standard library's `ProcessPoolExecutor` passes what they wrote themselves; who uses it is named.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

MODULES = {
    "pickle",
    "_pickle",
    "pickletools",
    "marshal",
    "shelve",
    "joblib",
    "dill",
    "cloudpickle",
    "jsonpickle",
    "code",
}
"""What turns bytes into anything at all."""

BUILT_IN = {"eval", "exec", "compile", "__import__"}
METHODS = {
    "import_module": "imports by name",
    "run_module": "runs a module by name",
    "run_path": "runs a file",
    "read_pickle": "unpickles",
    "unsafe_load": "makes objects of YAML",
    "full_load": "makes objects of YAML",
    "unsafe_load_all": "makes objects of YAML",
    "full_load_all": "makes objects of YAML",
    "PickleType": "unpickles",
    "load_extension": "loads a library by name",
    "enable_load_extension": "loads a library by name",
    "register_extension_type": "lets Arrow files name types",
}
POOLS = {"ProcessPoolExecutor", "Pool", "Manager", "Listener", "Client"}
"""They pickle what they pass; the last two belong to `multiprocessing`."""

EXCEPTIONS = {
    ("shared/crossward/__init__.py", "import_module: imports by name"),  # one of its own modules, when it is first used
    ("shared/crossward/learning/processes.py", "ProcessPoolExecutor: pickles"),  # simulations of plans and audits
    ("shared/crossward_lab/disasters/campaign.py", "ProcessPoolExecutor: pickles"),  # of the laboratory
}


def breaches(text: str) -> Iterator[str]:
    """What a module does that could run what it reads."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                yield from (f"imports {name.name}" for name in names if name.name.partition(".")[0] in MODULES)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                if module.partition(".")[0] in MODULES:
                    yield f"imports {module}"
                if module.partition(".")[0] in {"multiprocessing", "concurrent"}:
                    yield from (f"{name.name}: pickles" for name in names if name.name in POOLS)
                yield from (f"{name.name}: {METHODS[name.name]}" for name in names if name.name in METHODS)
            case ast.Attribute(value=ast.Name(id="multiprocessing" | "futures"), attr=name) if name in POOLS:
                yield f"{name}: pickles"
            case ast.Call(func=ast.Name(id=name)) if name in BUILT_IN:
                yield f"{name}()"
            case ast.Attribute(attr=name) if name in METHODS:
                yield f"{name}: {METHODS[name]}"
            case ast.Call(func=ast.Attribute(value=ast.Name(id="yaml"), attr="load" | "load_all")):
                yield "yaml.load: say safe_load"
            case ast.Call(func=ast.Attribute(attr="recv"), args=[], keywords=[]):
                yield "recv(): unpickles, say recv_bytes"
            case ast.keyword(arg="allow_pickle", value=value) if not _is_false(value):
                yield "allow_pickle"


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def test_no_module_runs_what_it_reads():
    files = [path for folder in ("shared", "services") for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(files) > 300
    found = {(str(path.relative_to(ROOT)), breach) for path in files for breach in breaches(path.read_text("utf-8"))}
    assert found == EXCEPTIONS


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "import os, pickle as p",
        "from pickle import loads",
        "def f():\n    import marshal",
        "import joblib.numpy_pickle",
        "from joblib import load",
        "import shelve",
        "import _pickle",
        "eval('1')",
        "exec(text)",
        "__import__(name)",
        "from importlib import import_module",
        "importlib.import_module(name)",
        "np.load(file, allow_pickle=True)",
        "np.load(file, allow_pickle=trust)",
        "yaml.load(text, Loader)",
        "yaml.unsafe_load(text)",
        "pd.read_pickle(file)",
        "Column('it', PickleType)\nfrom sqlalchemy import PickleType",
        "sqlalchemy.PickleType()",
        "pipe.recv()",
        "from multiprocessing import Pool",
        "multiprocessing.Manager()",
        "from concurrent.futures import ProcessPoolExecutor",
        "runpy.run_path(name)",
    ],
)
def test_the_rule_sees(text):
    assert list(breaches(text))


@pytest.mark.parametrize(
    "text",
    [
        "import json",
        "from . import pickle_free",
        "re.compile('x')",
        "np.load(file)",
        "np.load(file, allow_pickle=False)",
        "yaml.safe_load(text)",
        "sock.recv(4096)",
        "pipe.recv_bytes()",
        "from concurrent.futures import ThreadPoolExecutor",
        "from crossward.client import Client",
        "model.eval()",
    ],
)
def test_the_rule_lets_pass(text):
    assert not list(breaches(text))
