"""The top package: its names are seen at once and loaded when they are used."""

import json
import pkgutil
import subprocess
import sys

import pytest

import crossward


def loaded_by(code):
    """The modules that a fresh Python has loaded after this code, and had not before."""
    script = (
        f"import json, sys; before = set(sys.modules); {code}; print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=True)
    return set(json.loads(done.stdout))


def test_importing_it_loads_nothing_else():
    assert loaded_by("import crossward") == {"crossward", "crossward.version"}


def test_looking_at_its_names_loads_nothing_else():
    assert loaded_by("import crossward; dir(crossward)") == {"crossward", "crossward.version"}


def test_the_client_loads_no_mathematics():
    assert not loaded_by("from crossward import Client") & {"numpy", "scipy", "sklearn", "pydantic", "cryptography"}


def test_tab_completion_sees_every_name_and_module():
    modules = {module.name for module in pkgutil.iter_modules(crossward.__path__)}
    assert modules | set(crossward.__all__) <= set(dir(crossward))
    for name in dir(crossward):
        assert getattr(crossward, name) is getattr(crossward, name)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'PrivateLogistic'"):
        _ = crossward.PrivateLogistic
    with pytest.raises(ImportError):
        from crossward import nothing  # noqa: F401, PLC0415
