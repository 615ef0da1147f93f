"""How fast is a private fit? In one run, on the same records, with the same number of threads:

    crossward            PLR(...).fit: checks, norms, noise, solve, release; and PLR-FS with five groups
    diffprivlib          its private LogisticRegression, version 0.6.6 with scikit-learn 1.7
    lbfgs                scikit-learn's LogisticRegression, not private: it solves less of a problem than we do
    newton-cholesky      the same with its other fast solver

Records have norm at most one already, and nobody fits an intercept. All minimise

    sum_i log(1 + exp(-y_i w.x_i)) + (n lambda/2)|w|^2,

the private ones with their own noise; C is 1/(n lambda) for both peers. Each stops at its own default tolerance, and
the report gives the norm of the gradient of this sum where it stopped, so that nobody is fast by stopping early unseen.
The five problems of PLR-FS are on a fifth of the columns each; their row gives the largest of five gradients.

There is a process per environment, holding the records in memory. Each measured fit follows an unmeasured one of the
same kind, so that all find caches and threads as they leave them. Repeats are interleaved, so that a busy machine slows
all alike; times are medians, ratios medians of the repeats' ratios. Memory is the peak that Python allocates during a
fit, arrays included, beyond the records. The floor is what reading the records alone costs: the time of one X @ w,
times the solver's passes and one more for checks.


The peers' own virtual environment, made on demand from a lock file with hashes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crossward.errors import InvalidSetting
from crossward_lab.bench import speed_worker

LAMBDA = 1e-3
EPSILON = 1.0
GROUPS = 5
SEED = 20260101


@dataclass(frozen=True, slots=True)
class Method:
    """A way to fit, and where it runs."""

    name: str
    private: bool
    groups: int = 1
    peer: bool = False

    @property
    def label(self) -> str:
        """How reports name it."""
        return self.name if self.groups == 1 else f"{self.name}, {self.groups} groups"


OURS = Method("crossward", private=True)
OURS_IN_GROUPS = Method("crossward", private=True, groups=GROUPS)
DIFFPRIVLIB = Method("diffprivlib", private=True, peer=True)
SCIKIT_LEARN = (Method("lbfgs", private=False), Method("newton-cholesky", private=False))


@dataclass(frozen=True, slots=True)
class SpeedRow:
    """One method at one size: the median time, the gradient it stopped at, its memory as a share of the records'."""

    n: int
    method: str
    private: bool
    groups: int
    seconds: float
    fastest: float
    slowest: float
    gradient: float
    memory: float
    passes: int | None
    times_ours: float
    """How many times our time with one group this takes; above 1 is slower than ours."""
    floor: float | None
    """Seconds to read the records as often as this method does; None where that is not known."""


@dataclass(frozen=True, slots=True)
class SpeedReport:
    """What a run found, and how it was made."""

    rows: tuple[SpeedRow, ...]
    features: int
    repeats: int
    threads: int
    lam: float
    epsilon: float
    notes: tuple[str, ...]

    def describe(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        return asdict(self)


def speed(
    sizes: Sequence[int],
    features: int = 50,
    repeats: int = 5,
    threads: int | None = None,
    peers: bool = True,
    progress: Callable[[str], None] = lambda line: None,
) -> SpeedReport:
    """Time every method at every size. `peers`: diffprivlib too, in an environment of its own."""
    if not sizes or min(sizes) < 100 or features < GROUPS or repeats < 1:
        raise InvalidSetting(
            f"Sizes {list(sizes)}, {features} features, {repeats} repeats cannot be measured.",
            f"Give sizes of at least 100, at least {GROUPS} features and 1 repeat.",
        )
    threads = threads or os.cpu_count() or 1
    python, notes = None, []
    if peers:
        try:
            python = peers_python(progress)
        except NoPeersError as reason:
            notes.append(str(reason))
            progress(str(reason))
    methods = [OURS, OURS_IN_GROUPS, *SCIKIT_LEARN] + ([DIFFPRIVLIB] if python else [])
    rows: list[SpeedRow] = []
    with ExitStack() as stack:
        workers = {False: stack.enter_context(_worker(Path(sys.executable), threads))}
        if python:
            workers[True] = stack.enter_context(_worker(python, threads))
        for n in sizes:
            rows += _at_size(n, features, repeats, methods, workers, progress)
    return SpeedReport(tuple(rows), features, repeats, threads, LAMBDA, EPSILON, tuple(notes))


Ask = Callable[[dict[str, Any]], dict[str, Any]]


def _at_size(
    n: int,
    features: int,
    repeats: int,
    methods: list[Method],
    workers: dict[bool, Ask],
    progress: Callable[[str], None],
) -> Iterator[SpeedRow]:
    with tempfile.TemporaryDirectory() as folder:
        _write_records(Path(folder), n, features)
        for ask in workers.values():
            ask({"load": folder})
    settings = {"lam": LAMBDA, "epsilon": EPSILON}
    found = {}
    for method in methods:
        progress(f"n = {n:,}: {method.label}: memory and gradient")
        found[method] = workers[method.peer]({"examine": method.name, "groups": method.groups} | settings)
    seconds: dict[Method, list[float]] = {method: [] for method in methods}
    reads = []
    for repeat in range(repeats):
        progress(f"n = {n:,}: repeat {repeat + 1} of {repeats}")
        reads.append(workers[False]({})["seconds"])
        for method in methods:
            reply = workers[method.peer]({"fit": method.name, "groups": method.groups} | settings)
            seconds[method].append(reply["seconds"])
    for method in methods:
        passes = found[method].get("passes")
        yield SpeedRow(
            n=n,
            method=method.label,
            private=method.private,
            groups=method.groups,
            seconds=statistics.median(seconds[method]),
            fastest=min(seconds[method]),
            slowest=max(seconds[method]),
            gradient=found[method]["gradient"],
            memory=found[method]["memory"],
            passes=passes,
            times_ours=statistics.median(t / o for t, o in zip(seconds[method], seconds[OURS], strict=True)),
            floor=None if passes is None else (passes + 1) * min(reads),
        )


def _write_records(folder: Path, n: int, features: int) -> None:
    """Records on the unit sphere and labels of a logistic model with margins of about 2."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n, features))
    X /= np.linalg.norm(X, axis=1)[:, None]
    margins = X @ rng.standard_normal(features) * 2
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", np.where(margins + rng.logistic(size=n) > 0, 1.0, -1.0))


@contextmanager
def _worker(python: Path, threads: int) -> Iterator[Ask]:
    """A process that fits, with its libraries held to `threads` threads."""
    held = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    process = subprocess.Popen(
        [str(python), speed_worker.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | held,
    )
    questions, answers = process.stdin, process.stdout
    assert questions is not None
    assert answers is not None

    def ask(request: dict[str, Any]) -> dict[str, Any]:
        print(json.dumps(request), file=questions, flush=True)
        line = answers.readline()
        if not line:
            raise RuntimeError(f"The process for {request} ended with code {process.wait()}.")
        reply: dict[str, Any] = json.loads(line)
        return reply

    try:
        yield ask
    finally:
        questions.close()
        answers.close()
        process.wait()


PEERS_LOCK = Path("requirements") / "bench-peers.txt"
PEERS_HOME = Path(".venv-bench")


class NoPeersError(Exception):
    """There is no environment for the peers, and why."""


def peers_python(progress: Callable[[str], None]) -> Path:
    """The interpreter of the peers' environment, made first if need be."""
    root = next(
        (folder for folder in (Path.cwd(), *Path(__file__).resolve().parents) if (folder / PEERS_LOCK).is_file()), None
    )
    if root is None:
        raise NoPeersError(f"diffprivlib is left out: {PEERS_LOCK} is not here (run from the repository).")
    digest = hashlib.sha256((root / PEERS_LOCK).read_bytes()).hexdigest()
    home = root / PEERS_HOME
    python, mark = home / "bin" / "python", home / "lock.sha256"
    if mark.is_file() and mark.read_text() == digest:
        return python
    progress(f"setting up {PEERS_HOME} for diffprivlib (once)")
    shutil.rmtree(home, ignore_errors=True)
    install = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    try:
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True, capture_output=True)
        subprocess.run([*install, "--require-hashes", "-r", str(root / PEERS_LOCK)], check=True, capture_output=True)
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
