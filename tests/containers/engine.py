"""The container engine, by its own command: what a test needs of `docker`, with errors that show the logs."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path

WAIT_SECONDS = 300.0
"""Seconds until something that must happen has happened, on a busy machine."""


def why_not():
    """Why containers cannot run here; empty if they can."""
    if shutil.which("docker") is None or run("info", check=False).returncode:
        return "no container engine answers here: the container tests did not run"
    if not compose_command():
        return "Compose is not installed here: the container tests did not run"
    return ""


def run(*words, check=True, input=None, binary=False, seconds=WAIT_SECONDS):
    """`docker ...`, to its end."""
    return call(["docker", *words], check=check, input=input, binary=binary, seconds=seconds)


def call(command, *, check=True, input=None, binary=False, seconds=WAIT_SECONDS, **options):
    done = subprocess.run(
        [str(word) for word in command],
        input=input,
        stdin=subprocess.DEVNULL if input is None else None,
        capture_output=True,
        text=not binary,
        timeout=seconds,
        check=False,
        **options,
    )
    assert not check or done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done


def compose_command():
    """Compose of either age."""
    if run("compose", "version", check=False).returncode == 0:
        return ["docker", "compose"]
    return ["docker-compose"] if shutil.which("docker-compose") else []


def inspect(thing):
    return json.loads(run("inspect", thing).stdout)[0]


def until(what, check, logs=lambda: "", patience=WAIT_SECONDS, pause=0.1, forgive=()):
    """What a question answers, once it answers at all; fails with `what` and the logs when it never does."""
    end, last = time.monotonic() + patience, None
    while True:
        try:
            if found := check():
                return found
        except forgive as error:
            last = error
        assert time.monotonic() < end, f"Not within {patience:.0f} s: {what}. Last: {last!r}\n{logs()}"
        time.sleep(pause)


def left_behind(project):
    """Containers, volumes and networks of a project."""
    lists = {"containers": ("ps", "-aq"), "volumes": ("volume", "ls", "-q"), "networks": ("network", "ls", "-q")}
    label = f"--filter=label=com.docker.compose.project={project}"
    found = {kind: run(*words, label).stdout.split() for kind, words in lists.items()}
    return {kind: names for kind, names in found.items() if names}


def copied(container, path, into: Path):
    """A file or folder of a container, running or not."""
    run("cp", f"{container}:{path}", into)
    return into
