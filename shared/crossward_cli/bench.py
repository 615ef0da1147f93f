"""`crossward bench`: accuracy on the papers' data, a page of results, forecasts beside measurements, speed."""

from __future__ import annotations

import csv as csv_format
import json as json_text
import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement as Width
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from crossward.errors import InvalidSetting, NotFound
from crossward_cli.files import read_text
from crossward_cli.options import Json, Workers
from crossward_cli.output import print_json, progress_bar, say, tell

if TYPE_CHECKING:
    from crossward_lab.bench.engine import Benchmark
    from crossward_lab.bench.measurements import Measurement
    from crossward_lab.bench.settings import Choice
    from crossward_lab.bench.speed import SpeedReport
    from crossward_lab.bench.tables import Grid

group = typer.Typer(help="Measure Crossward: its accuracy on the papers' data, and its speed.", no_args_is_help=True)

DATASETS = {
    "mnist": "Digits: 0 against 8, from there to 0 against 9, and 3 against 7 at ten sites (000, 002, 004).",
    "news20": "Newsgroups, sci against talk (000).",
    "covertype": "Forest cover at ten sites: feature method against average (004).",
    "brfss": "A health survey: Washington to 16 states (as RUIJIN), and every state a partner (003).",
    "ruijin": "The papers' hospitals, simulated at their sizes: main to 16 branches (000, 002).",
}

Repeats = Annotated[int, typer.Option(min=1, help="Random splits to average over.")]
Epsilons = Annotated[list[float] | None, typer.Option("--epsilon", help="Only these, where epsilon varies.")]
Methods = Annotated[list[str] | None, typer.Option("--method", "--methods", help='Only these, as in "PST-H (W)".')]
Settings = Annotated[list[str] | None, typer.Option("--setting", help="Only these, as the tables name them.")]
Presets = Annotated[list[str] | None, typer.Option("--preset", help="Only `paper` or only `default`.")]
Quick = Annotated[bool, typer.Option("--quick", help="Two repeats, two epsilons: seconds, and a rough picture.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Forget what was measured before.")]
Csv = Annotated[Path | None, typer.Option("--csv", help="Write the rows to this file.")]
Plots = Annotated[Path | None, typer.Option("--plots", help="Write the figures (PNG and SVG) into this folder.")]

NO_DATA = 3
"""The exit code where a data set is not here and cannot be fetched."""
INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""

QUICK_REPEATS, QUICK_EPSILONS = 2, (0.125, 1.0)


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be measured, and how."""

    choice: Choice
    settings: tuple[str, ...] | None = None
    fresh: bool = False
    workers: int | None = None

    @classmethod
    def of(
        cls,
        repeats: int,
        epsilon: list[float] | None = None,
        method: list[str] | None = None,
        setting: list[str] | None = None,
        preset: list[str] | None = None,
        *,
        quick: bool = False,
        fresh: bool = False,
        workers: int | None = None,
    ) -> Order:
        """From the options of a command. --quick gives way to what is asked for by name."""
        from crossward.privacy.budget import check_epsilon
        from crossward_lab.bench.settings import DEFAULT, PAPER, Choice

        if unknown := set(preset or ()) - {PAPER, DEFAULT}:
            raise InvalidSetting(f"There is no preset {', '.join(sorted(unknown))}.", f"Use {PAPER} or {DEFAULT}.")
        epsilons = tuple(map(check_epsilon, epsilon)) if epsilon else QUICK_EPSILONS if quick else None
        methods = tuple(method) if method else None
        presets = tuple(preset) if preset else (PAPER, DEFAULT)
        choice = Choice(QUICK_REPEATS if quick else repeats, epsilons, methods, presets)
        return cls(choice, tuple(setting) if setting else None, fresh, workers)


# -- a data set -----------------------------------------------------------------------------------------------------
def _command(dataset: str) -> Callable[..., None]:
    def command(
        json: Json = False,
        repeats: Repeats = 10,
        epsilon: Epsilons = None,
        method: Methods = None,
        setting: Settings = None,
        preset: Presets = None,
        quick: Quick = False,
        fresh: Fresh = False,
        csv: Csv = None,
        plots: Plots = None,
        workers: Workers = None,
    ) -> None:
        order = Order.of(repeats, epsilon, method, setting, preset, quick=quick, fresh=fresh, workers=workers)
        _show_benchmark(dataset, order, csv=csv, plots=plots, as_json=json)

    return command


for _name, _help in DATASETS.items():
    group.command(_name, help=_help)(_command(_name))


def _show_benchmark(dataset: str, order: Order, *, csv: Path | None, plots: Path | None, as_json: bool) -> None:
    """Measure, show, and write what was asked for."""
    from crossward_lab.bench.measurements import measurements
    from crossward_lab.bench.tables import grids

    if csv is not None:
        require_file(csv)
    if plots is not None:
        require_folder(plots)
    benchmark = measure(dataset, order)
    rows = measurements(benchmark)
    if csv is not None:
        write_csv(csv, rows)
    if plots is not None:
        _draw(plots, rows)
    if as_json:
        print(json_text.dumps([row.describe() for row in rows], indent=1))
        return
    console = Console()
    for grid in grids(rows):
        for table in tables(grid, console):
            console.print(table)
    say(
        "AUC, mean over repeats. Seeded noise.\n"
        "Bold: not told from the best of its column by Wilcoxon's test at 5 % (Holm).\n"
        "paper: as printed but private; lambda is the best in hindsight. default: our rules (docs/adr/0020).\n"
        f"{benchmark.fresh_runs:,} runs in {benchmark.seconds:.0f} s; what was measured before is taken from the store."
    )


def measure(dataset: str, order: Order) -> Benchmark:
    """Measure with a progress bar; without the data, one line says what to do and the exit code is 3."""
    from crossward_lab.bench.engine import benchmark
    from crossward_lab.bench.store import Store

    console = Console(stderr=True)
    try:
        store = Store(dataset, fresh=order.fresh)
    except NotFound as absent:
        console.print(f"[bold red]no data[/] {escape(str(absent))}", highlight=False, soft_wrap=True)
        raise typer.Exit(NO_DATA) from absent
    with Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    ) as bar:
        task = bar.add_task(dataset, total=None)
        try:
            return benchmark(
                dataset,
                order.choice,
                store,
                only=order.settings,
                workers=order.workers,
                progress=lambda done, total: bar.update(task, completed=done, total=total),
            )
        except KeyboardInterrupt as interrupted:
            console.print("Interrupted. What was measured is kept: the same command goes on from there.")
            raise typer.Exit(INTERRUPTED) from interrupted


def require_file(path: Path) -> None:
    """Refuse a file that cannot be written, before hours of work for it; one that is there is left as it is."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists()
        path.open("a").close()
        if is_new:
            path.unlink()
    except OSError as error:
        raise InvalidSetting(f"{path} cannot be written: {error.strerror}.", "Name a file that can be.") from error


def require_folder(folder: Path) -> None:
    """Refuse a folder that nothing can be written into, before hours of work for it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InvalidSetting(
            f"Nothing can be written into {folder}: {error.strerror}.", "Name a folder that can be written into."
        ) from error


def write_csv(path: Path, rows: list[Measurement]) -> None:
    """Rows as a table, a column per field; the options of a setting as one column of JSON."""
    from crossward_lab.bench.measurements import Measurement

    with path.open("w", newline="") as file:
        writer = csv_format.DictWriter(file, fieldnames=[field.name for field in fields(Measurement)])
        writer.writeheader()
        for values in (row.describe() for row in rows):  # what does not apply to a row stays empty
            writer.writerow({k: json_text.dumps(v) if isinstance(v, dict | tuple) else v for k, v in values.items()})


def _draw(folder: Path, rows: list[Measurement]) -> None:
    from crossward_lab.bench.figures import NoPlotsError, draw_all

    try:
        files = draw_all(rows, folder)
    except NoPlotsError as missing:
        Console(stderr=True).print(f"no figures: {missing}", highlight=False, soft_wrap=True)
        return
    Console(stderr=True).print(_count_of(len(files), folder), highlight=False, soft_wrap=True)


def _count_of(figures: int, folder: Path) -> str:
    return f"{figures} {'figure' if figures == 1 else 'figures'}, each as PNG and SVG, in {folder}"


def tables(grid: Grid, console: Console) -> list[Table]:
    """A setting in as few tables as the width allows without cutting a word: deviations go first, then columns."""
    count = len(grid.columns)
    for deviations, pieces in [(True, 1), *((False, pieces) for pieces in range(1, count + 1))]:
        ends = [count * piece // pieces for piece in range(pieces + 1)]
        parts = [_grid_table(_part(grid, *ends[i : i + 2]), with_deviations=deviations) for i in range(pieces)]
        if all(_width(table, console) <= console.width for table in parts):
            break
    return parts


def _part(grid: Grid, start: int, end: int) -> Grid:
    lines = tuple(replace(line, cells=line.cells[start:end]) for line in grid.lines)
    kept = tuple(line for line in lines if any(line.cells))  # printed figures of no column here have nothing to say
    return replace(grid, title=grid.title + ", continued" * (start > 0), columns=grid.columns[start:end], lines=kept)


def _width(table: Table, console: Console) -> int:
    """How wide a table is that nothing is cut from."""
    return Width.get(console, console.options.update_width(10_000), table).maximum


def _grid_table(grid: Grid, *, with_deviations: bool) -> Table:
    from crossward_lab.bench.settings import DEFAULT

    table = Table(title=f"{grid.title}  [dim]({grid.paper})[/]", title_justify="left")
    table.add_column("method", no_wrap=True)
    table.add_column("preset", no_wrap=True)
    for heading in grid.columns:
        table.add_column(heading, justify="right", no_wrap=True)
    last = None
    for line in grid.lines:
        if line.preset == DEFAULT != last and last is not None:
            table.add_section()
        cells = [cell.text(deviation=with_deviations) if cell else "" for cell in line.cells]
        bold = [
            f"[bold]{text}[/]" if cell and cell.bold else text for text, cell in zip(cells, line.cells, strict=True)
        ]
        table.add_row(line.method, line.preset, *bold)
        last = line.preset
    return table


# -- the page of results --------------------------------------------------------------------------------------------
@group.command()
def report(
    folder: Annotated[Path, typer.Argument(help="Where results.md and results/ are written.")] = Path("docs"),
    repeats: Repeats = 10,
    fresh: Fresh = False,
    workers: Workers = None,
    dataset: Annotated[list[str] | None, typer.Option("--dataset", help="Only these.")] = None,
    json: Json = False,
) -> None:
    """Every benchmark, and the page that says what of the papers held: tables, figures, machine and commit."""
    order = Order.of(repeats, fresh=fresh, workers=workers)
    from crossward_lab.bench.figures import NoPlotsError, require_matplotlib
    from crossward_lab.bench.page import write_page

    try:
        require_matplotlib()
    except NoPlotsError as missing:
        raise InvalidSetting("The page has figures, and there is nothing to draw them with.", str(missing)) from missing
    require_folder(folder / "results")
    require_file(folder / "results.md")
    benchmarks, absent = [], []
    for name in dataset or DATASETS:
        try:
            benchmarks.append(measure(name, order))
        except typer.Exit as end:
            if end.exit_code != NO_DATA:
                raise
            absent.append(name)
    if benchmarks:
        page = str(write_page(benchmarks, folder))
        tell({"page": page, "absent": absent}, page, as_json=json)
    if absent:
        raise typer.Exit(NO_DATA)


# -- forecasts ------------------------------------------------------------------------------------------------------
@group.command()
def forecast(
    dataset: Annotated[str, typer.Argument(help="mnist, brfss or ruijin.")],
    measured: Annotated[Path, typer.Option(help="The rows that `crossward bench DATASET --json` printed.")],
    repeats: Annotated[int, typer.Option(min=2, max=1000, help="Simulated worlds.")] = 16,
    workers: Workers = None,
    json: Json = False,
) -> None:
    """What `crossward plan` would have told the lead, beside what a benchmark measured."""
    from crossward_lab.bench.forecasts import compare

    try:
        rows = json_text.loads(read_text(measured))
    except ValueError:
        raise InvalidSetting(f"{measured} is not JSON.", f"Make it: crossward bench {dataset} --json.") from None
    with progress_bar() as bar:
        task = bar.add_task("simulating hospitals", total=repeats)
        checks = compare(
            dataset,
            rows,
            repeats=repeats,
            workers=workers or os.cpu_count() or 1,
            progress=lambda done, total: bar.update(task, completed=done),
        )
    if json:
        print_json([asdict(one.forecast) | {"measured": one.measured, "within": one.within} for one in checks])
        return
    table = Table("method", "epsilon", "expected", "band", "measured", "", box=SIMPLE_HEAD)
    for one in checks:
        expected = one.forecast
        verdict = "[green]within[/]" if one.within else "[yellow]above[/]"
        verdict = "[red]below[/]" if one.measured < expected.auc_low else verdict
        band = f"{expected.auc_low:.3f} to {expected.auc_high:.3f}"
        auc = f"{expected.auc_mean:.3f}"
        table.add_row(expected.method, f"{expected.epsilon:g}", auc, band, f"{one.measured:.3f}", verdict)
    Console().print(table)
    right = sum(one.within for one in checks)
    say(f"{right} of {len(checks)} measured means lie within the band of the forecast.")


# -- speed ----------------------------------------------------------------------------------------------------------
@group.command("speed")
def show_speed(
    json: Json = False,
    size: Annotated[list[int] | None, typer.Option(help="Record counts; 10^4, 10^5 and 10^6 by default.")] = None,
    features: Annotated[int, typer.Option(min=1)] = 50,
    repeats: Annotated[int, typer.Option(min=1)] = 5,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads for everyone; all cores by default.")] = None,
    peers: Annotated[bool, typer.Option(help="Also run diffprivlib, in an environment of its own.")] = True,
) -> None:
    """How fast is a private fit, beside scikit-learn's and diffprivlib's?"""
    from crossward_lab.bench.speed import speed

    sizes = size or [10_000, 100_000, 1_000_000]
    with Console(stderr=True).status("starting") as status:
        report = speed(sizes, features, repeats, threads, peers, status.update)
    if json:
        print_json(report.describe())
    else:
        _show_speed(report, Console())


def _show_speed(report: SpeedReport, console: Console) -> None:
    table = Table(
        title=f"d = {report.features}, {report.threads} threads, median of {report.repeats} interleaved repeats",
        title_justify="left",
    )
    table.add_column("n", justify="right")
    table.add_column("fit")
    for heading in ("seconds", "x ours", "gradient", "memory/X", "floor"):
        table.add_column(heading, justify="right")
    last = None
    for row in report.rows:
        if last not in (None, row.n):
            table.add_section()
        table.add_row(
            f"{row.n:,}" if row.n != last else "",
            row.method + (" (private)" if row.private else ""),
            f"{row.seconds:.4f}",
            f"{row.times_ours:.2f}",
            f"{row.gradient:.1e}",
            f"{row.memory:.3f}",
            "" if row.floor is None else f"{row.floor:.4f}",
        )
        last = row.n
    console.print(table)
    console.print(
        "x ours: times the private fit with one group. gradient: norm where it stopped, of the sum over records.\n"
        "memory/X: peak beyond the records, as a share of them. floor: seconds to read them as often as we do.",
        highlight=False,
    )
    for note in report.notes:
        console.print(note, highlight=False)


# -- the vault ------------------------------------------------------------------------------------------------------
@group.command("vault")
def show_vault(
    rows: Annotated[int, typer.Option(min=1000)] = 1_000_000,
    columns: Annotated[int, typer.Option(min=2, max=1000)] = 50,
    memory_mb: Annotated[int, typer.Option(min=16, help="What training may hold in memory at once.")] = 512,
    folder: Annotated[Path | None, typer.Option(help="Where there is room for the table, thrice.")] = None,
    json: Json = False,
) -> None:
    """How fast are data checked, opened and trained on, beside pyarrow reading the file? And in how much memory?"""
    from crossward_lab.bench.vault import vault

    with Console(stderr=True).status("starting") as status:
        report = vault(rows, columns, memory_mb, status.update, folder)
    if json:
        print_json(report.describe())
        return
    title = f"{report.rows:,} x {report.columns} from Parquet ({report.file_mb:,.0f} MB)"
    table = Table(title=title, title_justify="left")
    table.add_column("step")
    for heading in ("seconds", "x read", "peak MB", "connector MB", "slowest answer, s"):
        table.add_column(heading, justify="right")
    for step in report.steps:
        connector = "" if step.connector_mb is None else f"{step.connector_mb:,.0f}"
        answer = "" if step.slowest_answer is None else f"{step.slowest_answer:.3f}"
        table.add_row(
            step.name, f"{step.seconds:.2f}", f"{step.times_read:.1f}", f"{step.peak_mb:,.0f}", connector, answer
        )
    Console().print(table)
    say("x read: times what pyarrow takes to read the file. Answers: /v1/status of the site, asked while it works.")


# -- start-up -------------------------------------------------------------------------------------------------------
@group.command("startup")
def show_startup(json: Json = False, repeats: Annotated[int, typer.Option(min=1, help="Starts of each.")] = 7) -> None:
    """How soon do the library and the command line answer, beside what they stand on?"""
    from crossward_lab.bench.startup import startup

    with Console(stderr=True).status("starting") as status:
        report = startup(repeats, lambda line: status.update(escape(line)))
    if json:
        print_json(report.describe())
        return
    table = Table(title=f"A fresh process, median of {report.repeats} interleaved repeats", title_justify="left")
    for heading in ("starts", "seconds", "fastest", "x peer", "peer"):
        table.add_column(heading, justify="left" if heading in ("starts", "peer") else "right")
    for row in report.rows:
        times = "" if row.times_peer is None else f"{row.times_peer:.2f}"
        table.add_row(row.name, f"{row.seconds:.3f}", f"{row.fastest:.3f}", times, row.peer)
    Console().print(table)
