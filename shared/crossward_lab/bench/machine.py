"""What results were made on: the machine, the versions, the commit, the date."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import scipy

import crossward
from crossward.version import __version__
from crossward_lab.bench.store import CODE


def machine() -> dict[str, str]:
    """As plain values."""
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": f"crossward {__version__}, Python {platform.python_version()}, numpy {np.__version__}, "
        f"scipy {scipy.__version__}",
        "commit": commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def commit() -> str:
    """The commit of the code, and whether what results depend on was changed since."""
    here = Path(crossward.__file__).parent
    try:
        name = _git(here, "rev-parse", "--short=12", "HEAD")
        changed = _git(here, "status", "--porcelain", "--", *CODE, "bench")
    except (OSError, subprocess.CalledProcessError):
        return "unknown (not a git checkout)"
    return f"{name} with changes" if changed else name


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown"
