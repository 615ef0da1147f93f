"""The peers' own virtual environment, made on demand from a lock file with hashes."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

LOCK = Path("requirements") / "bench-peers.txt"
HOME = Path(".venv-bench")


class NoPeersError(Exception):
    """There is no environment for the peers, and why."""


def peers_python(progress: Callable[[str], None]) -> Path:
    """The interpreter of the peers' environment, made first if need be."""
    root = next(
        (folder for folder in (Path.cwd(), *Path(__file__).resolve().parents) if (folder / LOCK).is_file()), None
    )
    if root is None:
        raise NoPeersError(f"diffprivlib is left out: {LOCK} is not here (run from the repository).")
    digest = hashlib.sha256((root / LOCK).read_bytes()).hexdigest()
    home = root / HOME
    python, mark = home / "bin" / "python", home / "lock.sha256"
    if mark.is_file() and mark.read_text() == digest:
        return python
    progress(f"setting up {HOME} for diffprivlib (once)")
    shutil.rmtree(home, ignore_errors=True)
    install = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    try:
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True, capture_output=True)
        subprocess.run([*install, "--require-hashes", "-r", str(root / LOCK)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        shutil.rmtree(home, ignore_errors=True)
        reason = f"diffprivlib is left out: its environment could not be made ({_last_line(error)})."
        raise NoPeersError(reason) from error
    mark.write_text(digest)
    return python


def _last_line(error: Exception) -> str:
    said = (error.stderr or b"").decode(errors="replace") if isinstance(error, subprocess.CalledProcessError) else ""
    lines = [line for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else str(error)
