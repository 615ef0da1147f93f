"""The shape of the coordinator: a folder per feature, HTTP at the edge, and who opens a transaction is visible."""

import ast
from pathlib import Path

import crossward_coordinator

HOME = Path(crossward_coordinator.__file__).parent
FEATURES = ("parties", "studies", "tasks", "releases", "ledger", "certificates", "people")
FILES = {"routes.py", "service.py", "tables.py", "views.py"}
NOTHING_THERE = {
    "releases": {"views.py"},  # a release and its receipt are messages of the protocol
    "certificates": {"views.py"},  # so is a certificate
    "people": {"routes.py", "views.py"},  # tokens are made on the coordinator's own machine
}
EDGE = {"access.py", "app.py", "openapi.py", "routes.py"}
MODULES = {file.relative_to(HOME): ast.parse(file.read_text()) for file in HOME.rglob("*.py")}


def test_every_feature_has_the_same_files():
    folders = {file.parent.name for file in HOME.glob("*/tables.py")}
    assert folders == set(FEATURES)
    for feature in FEATURES:
        assert {file.name for file in (HOME / feature).glob("*.py")} >= FILES - NOTHING_THERE.get(feature, set())


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def test_http_is_known_at_the_edge_alone():
    knowing = {
        file.name for file, tree in MODULES.items() if any(name.startswith("fastapi") for name in imported(tree))
    }
    assert knowing == EDGE


def test_who_has_a_connection_opens_no_transaction():
    """Nor does a database's row leave the module that read it: what it gives back is a value of its own."""
    for file, tree in MODULES.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            types = {ast.unparse(argument.annotation) for argument in arguments if argument.annotation}
            if types & {"Connection", "Writing", "Reading"}:
                called = {ast.unparse(inner.func) for inner in ast.walk(node) if isinstance(inner, ast.Call)}
                assert not called & {"read", "write", "connect"}, (file, node.name)
                assert node.returns is not None
                assert "Row" not in {inner.id for inner in ast.walk(node.returns) if isinstance(inner, ast.Name)}
