"""docs/results.md: what was measured, in tables and figures, what of the papers it bears out, and on which machine."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import scipy

from crossward.version import __version__
from crossward_lab.bench.claims import Verdict, our_claims
from crossward_lab.bench.engine import Benchmark
from crossward_lab.bench.figures import draw_all, file_name
from crossward_lab.bench.measurements import Measurement, measurements
from crossward_lab.bench.paper_claims import paper_claims
from crossward_lab.bench.store import CODE, ROOT
from crossward_lab.bench.tables import Grid, grids


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
    try:
        name = _git("rev-parse", "--short=12", "HEAD")
        changed = _git("status", "--porcelain", "--", *CODE, "crossward_lab/bench")
    except (OSError, subprocess.CalledProcessError):
        return "unknown (not a git checkout)"
    return f"{name} with changes" if changed else name


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown"


ABOUT = {
    "mnist": "MNIST. 000: digits 0 and 8, 3,000 records to train on; 002: from 0 against 8 (1,600) to 0 against 9\n"
    "(800), 100 components; 004: 3 against 7, ten sites, 50 components.",
    "news20": "20 Newsgroups, sci.* against talk.*: 4,321 documents to train on, 643 later ones to test on,\n"
    "100 components.",
    "covertype": "Covertype, spruce against lodgepole pine: 346,598 records for ten sites and an aggregator. The\n"
    "declared importances were revised once after a first result ([0020](adr/0020-benchmarks.md)): `default` is not\n"
    "blind here.",
    "brfss": "BRFSS 2022, the CDC's survey: was one ever told to have diabetes? Washington and 16 states at the sizes\n"
    "of RUIJIN's hospitals; then all 54 states and territories as partners of a newcomer, as in 003. Real people,\n"
    "real sites.",
    "ruijin": "RUIJIN's records are private. These hospitals are simulated at their sizes (`crossward simulate`), so\n"
    "the printed figures stand beside them for orientation only.",
}

PREAMBLE = """\
# Results

Written by `crossward bench report` (`make results`); do not edit. Every number is the mean test AUC over {repeats}
random splits, with its standard deviation. Noise and splits are seeded: the same code and data give the same numbers.

- **paper**: the methods as the papers print them: K = 5, half of the records for level-1, sigmoid scores without
  intercept, unscaled columns. Changed only where the printed form is not private
  ([0002](adr/0002-corrections-to-the-papers.md)): the noise and its ε, and the norm that records are divided by, which
  is the largest the public knows of. The papers tune λ on the private records; here it is the *best of several in
  hindsight*, which nobody could have known. Principal components are those of the private records, as in the papers,
  and not paid for. Both flatter this preset.
- **default**: our rules (`crossward.learning.defaults`). λ, radius, importance, K and level-1 follow from public
  numbers alone: record counts, ε, declared importance and prevalence. Components are those of other, public records.
  Nothing is tuned per run; what was decided after a look at results is listed in [0020](adr/0020-benchmarks.md).
- **published**: what the paper prints.
- Bold: not told from the best of its column by Wilcoxon's test over splits at 5 % (Holm). Not the same as equal; a
  column of one has no test and no bold.
- ε is what each site pays, once, for one method. ∞ and "non-private": the same method without noise.

More about the choices: [0020](adr/0020-benchmarks.md).

## What a smaller budget costs

![AUC over the privacy budget on all data](results/budget.svg)

To the left is more privacy. Our line is the method that the rules recommend (transfer with one model; alone where there
is no source); the dashed line is, at each ε, the best of the papers' methods with its λ in hindsight.
"""


def write_page(benchmarks: list[Benchmark], folder: Path) -> Path:
    """The page, its figures and the rows behind them as JSON."""
    from crossward_lab.bench.drawing import draw_budget  # noqa: PLC0415

    found = {measured.dataset: measurements(measured) for measured in benchmarks}
    everything = [row for some in found.values() for row in some]
    results = folder / "results"
    results.mkdir(parents=True, exist_ok=True)
    figures = {dataset: draw_all(some, results) for dataset, some in found.items()}
    draw_budget(everything, results / "budget")
    for dataset, some in found.items():
        lines = ",\n".join(json.dumps(row.describe(), separators=(",", ":")) for row in some)
        (results / f"{dataset}.json").write_text(f"[\n{lines}\n]\n")
    page = folder / "results.md"
    page.write_text("\n".join(_page(benchmarks, found, figures)) + "\n")
    return page


def _page(
    benchmarks: list[Benchmark], found: dict[str, list[Measurement]], figures: dict[str, list[Path]]
) -> Iterator[str]:
    everything = [row for some in found.values() for row in some]
    yield PREAMBLE.format(repeats=max((row.repeats for row in everything), default=0))
    yield "## What we set out to reach\n"
    yield from _verdicts(our_claims(everything))
    yield "## What of the papers held\n"
    yield "Checked on their own methods (`paper`). A better AUC means better by Wilcoxon's paired test at 5 %.\n"
    yield from _verdicts(paper_claims(everything))
    for dataset, some in found.items():
        yield f"## {dataset}\n\n{ABOUT[dataset]}\n"
        drawn = {place.stem for place in figures[dataset]}
        for grid in grids(some):
            yield f"### {grid.title} ({grid.paper})\n"
            for name in (file_name(dataset, grid.setting), f"{file_name(dataset, grid.setting)}-sites"):
                if name in drawn:
                    yield f"![{grid.title}](results/{name}.svg)\n"
            yield from _table(grid)
    yield "## How it was made\n"
    for name, value in machine().items():
        yield f"- {name}: {value}"
    yield "".join(
        f"\n- {b.dataset}: {sum(len(m.outcomes) for m in b.measured):,} runs"
        + (f", {b.fresh_runs:,} of them new in {b.seconds:.0f} s" if b.fresh_runs else ", all measured before")
        for b in benchmarks
    )
    yield "\nThe rows behind every table: " + ", ".join(f"[{d}.json](results/{d}.json)" for d in found) + "."


def _verdicts(verdicts: list[Verdict]) -> Iterator[str]:
    yield "| | statement | measured | why |\n|---|---|---|---|"
    for verdict in verdicts:
        source = "" if verdict.source == "goal" else f" ({verdict.source})"
        yield f"| **{verdict.outcome}** | {verdict.statement}{source} | {verdict.numbers} | {verdict.why} |"
    yield ""


def _table(grid: Grid) -> Iterator[str]:
    first = "ε" if grid.varies == "epsilon" else grid.varies
    yield f"| {first} | | " + " | ".join(grid.columns) + " |"
    yield "|---|---|" + "---:|" * len(grid.columns)
    for line in grid.lines:
        cells = []
        for cell in line.cells:
            text = cell.text(deviation=True) if cell else ""
            cells.append(f"**{text}**" if cell and cell.bold else text)
        yield f"| {line.method} | {line.preset} | " + " | ".join(cells) + " |"
    yield ""
