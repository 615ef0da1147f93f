"""How fast are data checked, opened and trained on, beside pyarrow reading the same file? And in how much memory?

    read     pyarrow.parquet.read_table, once in a process of its own, the median of several processes
    check    `data check` of a served site, over HTTP, with its connector in a process of its own
    open     `data open` of the same site: read, sealed, seated, written down
    train    a private logistic regression from the sealed copy: unsealed, encoded, fitted, in a thread of a served site

Peaks are what the kernel counts as resident at most (VmHWM): of the site's process and, beside it, of its connector.
While the site works it is asked for its status again and again; the slowest answer is told.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from crossward.client import SiteClient
from crossward.learning.encoding import Number, Schema
from crossward.protocol.constants import Role
from crossward.study import Study, study_for, work
from crossward_service.http.serve import ready_address
from crossward_site.data.service import Vault
from crossward_site.main import init, serve
from crossward_site.settings import SiteSettings

CHUNK = 1 << 20
READS = 5
LARGE = 2 << 30
"""A file of more bytes is read once, one group of rows after the other: as a whole it may not fit in memory.

`iter_batches` is no help: it keeps all groups that it has come by.
"""
DATASET = "bench"
ASK_SECONDS = 0.05
TRAINED = "trained"


@dataclass(frozen=True, slots=True)
class Step:
    """What one step took. `times_read` is by how much longer than pyarrow's reading it was."""

    name: str
    seconds: float
    times_read: float
    peak_mb: float
    connector_mb: float | None = None
    slowest_answer: float | None = None


@dataclass(frozen=True, slots=True)
class VaultReport:
    """All steps for one table."""

    rows: int
    columns: int
    file_mb: float
    memory_mb: int
    steps: tuple[Step, ...]

    def describe(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def vault(
    rows: int, columns: int, memory_mb: int, tell: Callable[[str], None], folder: Path | None = None
) -> VaultReport:
    """Measure every step on a table of so many rows and columns."""
    gc.freeze()  # who asks must not be held up by collecting its own garbage
    with tempfile.TemporaryDirectory(prefix="crossward-vault-", dir=folder) as name:
        home = Path(name)
        (home / "files").mkdir()
        path = home / "files" / "table.parquet"
        tell(f"writing {rows:,} rows")
        write_table(path, rows, columns)
        with path.open("rb") as file:
            os.fsync(file)  # what is still to be written would be measured with the next step
        tell("reading with pyarrow")
        steps = [_reading(home, columns)]
        settings = SiteSettings(data_dir=home / "site", data_roots={"files": home / "files"}, memory_mb=memory_mb)
        token = str(init(settings))
        (home / "site" / "settings.toml").write_text(
            f'memory_mb = {memory_mb}\n[data_roots]\nfiles = "{home}/files"\n[data_limits]\nseconds = 86400\n'
        )
        place, mapping = {"kind": "parquet", "path": "table.parquet"}, {"person": "pid"}
        text = study(columns).to_yaml()

        def measured(site: _Served, name: str, work: Callable[[], Any]) -> Step:
            tell(name)
            with _watching(site, token) as seen:
                seconds = _timed(work)
            return Step(name, seconds, seconds / steps[0].seconds, seen.site_mb, seen.connector_mb, seen.slowest_answer)

        serving = ("crossward_cli", "site", "serve", "--data-dir", str(home / "site"), "--port", "0")
        with _served(*serving) as site, SiteClient(site.url, token) as client:
            steps.append(measured(site, "check", lambda: client.check_data(place, mapping, study=text)))
            steps.append(measured(site, "open", lambda: client.open_dataset(DATASET, place, mapping, epsilon=1.0)))
        with _served("crossward_lab.bench.vault", "train", str(home), str(columns)) as site:
            steps.append(replace(measured(site, "train", site.train), connector_mb=None))
        return VaultReport(rows, columns, path.stat().st_size / 1e6, memory_mb, tuple(steps))


def write_table(path: Path, rows: int, columns: int) -> None:
    """A table of normal measurements with a person each and a label that two of them decide; seeded."""
    draw, writer = np.random.default_rng(20260101), None
    for start in range(0, rows, CHUNK):
        count = min(CHUNK, rows - start)
        values = draw.normal(size=(columns, count))
        label = (values[0] + values[1 % columns] + draw.normal(size=count) > 0).astype(np.int8)
        named = {f"x{index}": column for index, column in enumerate(values)}
        table = pa.table({"pid": np.arange(start, start + count), "y": label, **named})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def study(columns: int) -> Study:
    """A study that reads all of it."""
    features = tuple(Number(f"x{index}", -4.0, 4.0, "", 0.0) for index in range(columns))
    return study_for(Schema(features), label={"name": "y", "positive": 1}, method="direct", targets=("here",))


def _reading(home: Path, columns: int) -> Step:
    """What pyarrow takes; a large file is read once."""
    large = (home / "files" / "table.parquet").stat().st_size > LARGE
    command, environment = _command("crossward_lab.bench.vault", "read", str(home), str(columns))
    found = [
        json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout)
        for _ in range(1 if large else READS)
    ]
    return Step("read", statistics.median(one["seconds"] for one in found), 1.0, max(one["peak_mb"] for one in found))


# -- processes -----------------------------------------------------------------------------------------------------
def _read(home: Path) -> None:
    path = home / "files" / "table.parquet"
    if path.stat().st_size > LARGE:
        file = pq.ParquetFile(path)
        for group in range(file.num_row_groups):
            file.read_row_group(group)
    else:
        pq.read_table(path)


def _serve_and_train(home: Path, columns: int) -> None:
    """A site's service that trains once it is told to, and says so on its standard output."""
    settings = SiteSettings.load(data_dir=home / "site", port=0)
    site, wanted = settings.open_site(), study(columns)

    def train() -> None:
        try:
            sys.stdin.readline()
            rows = Vault(site).rows(wanted, Role.TARGET, DATASET, work.trained_levels(wanted, Role.TARGET))
            work.train(wanted, Role.TARGET, rows.X, rows.y, rows.spans)
            print(TRAINED, flush=True)
        except BaseException:
            signal.raise_signal(signal.SIGTERM)  # whoever waits hears of it
            raise

    threading.Thread(target=train, daemon=True).start()
    serve(settings)


def _timed(work: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _command(module: str, *words: str) -> tuple[list[str], dict[str, str]]:
    quiet = {"CROSSWARD_LOG_LEVEL": "ERROR", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return [sys.executable, "-m", module, *words], os.environ | quiet


def _main(step: str, home: Path, columns: int) -> None:
    if step == "train":
        _serve_and_train(home, columns)
    else:
        seconds = _timed(lambda: _read(home))
        print(json.dumps({"seconds": seconds, "peak_mb": _peak(os.getpid())}))


@dataclass(frozen=True, slots=True)
class _Served:
    """A site's service in a process of its own."""

    process: subprocess.Popen[str]
    url: str

    def train(self) -> None:
        """Have it train, and wait until it has."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        if TRAINED not in self.process.stdout.readline():
            raise RuntimeError("The site has not trained; its own words are above.")


@contextmanager
def _served(module: str, *words: str) -> Iterator[_Served]:
    """A site's service, as `crossward site serve` starts it, until it has answered."""
    command, environment = _command(module, *words)
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=environment
    )
    try:
        assert process.stdout is not None
        url = next((address for line in process.stdout if (address := ready_address(line)) is not None), None)
        if url is None:
            raise RuntimeError("The site has not started; its own words are above.")
        yield _Served(process, url)
    finally:
        process.terminate()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


@dataclass(slots=True)
class _Seen:
    site_mb: float = 0.0
    connector_mb: float = 0.0
    slowest_answer: float = 0.0


@contextmanager
def _watching(site: _Served, token: str) -> Iterator[_Seen]:
    """Ask the site again and again how it is, and see how much memory it and its connector take."""
    seen, done, process = _Seen(), threading.Event(), site.process.pid
    with suppress(OSError):
        Path(f"/proc/{process}/clear_refs").write_text("5")  # peaks are counted from here

    def watch() -> None:
        with SiteClient(site.url, token) as client:
            ended = False
            while not ended:  # once at least, however soon the work is done
                begun = time.perf_counter()
                client.status()
                seen.slowest_answer = max(seen.slowest_answer, time.perf_counter() - begun)
                seen.connector_mb = max([seen.connector_mb, *map(_peak, _children(process))])
                ended = done.wait(ASK_SECONDS)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()
        seen.site_mb = _peak(process)


def _peak(process: int) -> float:
    """The most memory that a process had resident, in MB; 0 where it is gone."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0


def _children(process: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            found += [int(child) for child in task.read_text().split()]
    return found


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
