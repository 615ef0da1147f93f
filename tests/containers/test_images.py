"""What is in the images, and what is not: a hospital's has no laboratory, and neither has a shell or a secret."""

from __future__ import annotations

import os
import sys

import engine
import pytest
from federation import PYTHON, ROOT

HOSPITAL = os.environ.get("CROSSWARD_IMAGE", "crossward:latest")
LABORATORY = os.environ.get("CROSSWARD_LAB_IMAGE", "crossward-lab:latest")
PACKAGES = ("crossward", "crossward_service", "crossward_cli", "crossward_coordinator", "crossward_site")
PACKAGES += ("crossward_source", "crossward_target")


@pytest.fixture(autouse=True)
def _engine_is_there():
    if reason := engine.why_not():
        pytest.skip(reason)


def python(image, program, code=0):
    """A program in a fresh container of an image."""
    alone = ("run", "--rm", "--network=none", "--read-only", f"--entrypoint={PYTHON}")
    done = engine.run(*alone, image, "-c", program, check=False)
    assert done.returncode == code, f"{program}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def test_a_hospitals_image_has_no_laboratory():
    assert "No module named 'crossward_lab'" in python(HOSPITAL, "import crossward_lab", code=1)
    walk = "import pathlib, sys; print([str(p) for s in sys.path for p in pathlib.Path(s).rglob('*crossward_lab*')])"
    assert python(HOSPITAL, walk).strip() == "[]"


def test_the_laboratorys_image_has_it():
    python(LABORATORY, "import crossward_lab.demo.records, crossward_lab.simulate.hospitals")


@pytest.mark.parametrize("image", [HOSPITAL, LABORATORY])
def test_both_images_have_the_rest(image):
    python(image, f"import {', '.join(PACKAGES)}, crossward_cli.main")


@pytest.mark.parametrize("image", [HOSPITAL, LABORATORY])
def test_an_image_holds_no_shell_and_no_secret(image):
    engine.call([sys.executable, ROOT / "deploy" / "scan.py", image])


def test_only_the_demonstration_uses_the_laboratory(running):
    """The coordinator and every hospital of docker-compose.yml run what a real one runs."""
    federation, _ = running
    images = {service: engine.inspect(federation.container(service))["Image"] for service in ("study", "main-data")}
    assert set(images.values()) == {engine.inspect(LABORATORY)["Id"]}
    services = ("tls", "coordinator", "main", "branch-1", "branch-2", "branch-3")
    images = {service: engine.inspect(federation.container(service))["Image"] for service in services}
    assert set(images.values()) == {engine.inspect(HOSPITAL)["Id"]}
