"""`crossward bench mnist` and its like: a progress bar while it measures, then a table per setting."""

from __future__ import annotations

import csv as csv_format
import json
import tempfile
from dataclasses import dataclass, fields, replace
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from crossward.errors import InvalidSetting, NotFound
from crossward.privacy.budget import check_epsilon
from crossward_lab.bench.engine import Benchmark, benchmark
from crossward_lab.bench.experiments.base import DEFAULT, PAPER, Choice
from crossward_lab.bench.rows import Row, rows
from crossward_lab.bench.store import Store
from crossward_lab.bench.tables import Grid, grids

NO_DATA = 3
"""The exit code where a data set is not here and cannot be fetched."""
INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""

QUICK = Choice(repeats=2, epsilons=(0.125, 1.0))


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user asked for."""

    choice: Choice
    settings: tuple[str, ...] | None
    fresh: bool
    workers: int | None

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
    ) -> Asked:
        """From the options of a command. --quick gives way to what is asked for by name."""
        if unknown := set(preset or ()) - {PAPER, DEFAULT}:
            raise InvalidSetting(f"There is no preset {', '.join(sorted(unknown))}.", f"Use {PAPER} or {DEFAULT}.")
        epsilons = tuple(map(check_epsilon, epsilon)) if epsilon else QUICK.epsilons if quick else None
        methods = tuple(method) if method else None
        presets = tuple(preset) if preset else (PAPER, DEFAULT)
        choice = Choice(QUICK.repeats if quick else repeats, epsilons, methods, presets)
        return cls(choice, tuple(setting) if setting else None, fresh, workers)


def measure(dataset: str, asked: Asked) -> Benchmark:
    """Measure with a progress bar; without the data, one line says what to do and the exit code is 3."""
    console = Console(stderr=True)
    try:
        store = Store(dataset, fresh=asked.fresh)
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
                asked.choice,
                store,
                only=asked.settings,
                workers=asked.workers,
                progress=lambda done, total: bar.update(task, completed=done, total=total),
            )
        except KeyboardInterrupt as interrupted:
            console.print("Interrupted. What was measured is kept: the same command goes on from there.")
            raise typer.Exit(INTERRUPTED) from interrupted


def show_benchmark(dataset: str, asked: Asked, *, csv: Path | None, plots: Path | None, as_json: bool) -> None:
    """Measure, show, and write what was asked for."""
    if csv is not None:
        require_file(csv)
    if plots is not None:
        require_folder(plots)
    measured = measure(dataset, asked)
    found = rows(measured)
    if csv is not None:
        write_csv(csv, found)
    if plots is not None:
        _draw(plots, found)
    if as_json:
        print(json.dumps([row.describe() for row in found], indent=1))
        return
    console = Console()
    for grid in grids(found):
        for table in tables(grid, console):
            console.print(table)
    console.print(
        "AUC, mean over repeats. Seeded noise.\n"
        "Bold: not told from the best of its column by Wilcoxon's test at 5 % (Holm).\n"
        "paper: as printed but private; lambda is the best in hindsight. default: our rules (docs/adr/0020).\n"
        f"{measured.fresh_runs:,} runs in {measured.seconds:.0f} s; what was measured before is taken from the store.",
        highlight=False,
    )


def require_file(place: Path) -> None:
    """Refuse a file that cannot be written, before hours of work for it; one that is there is left as it is."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        is_new = not place.exists()
        place.open("a").close()
        if is_new:
            place.unlink()
    except OSError as error:
        raise InvalidSetting(f"{place} cannot be written: {error.strerror}.", "Name a file that can be.") from error


def require_folder(folder: Path) -> None:
    """Refuse a folder that nothing can be written into, before hours of work for it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InvalidSetting(
            f"Nothing can be written into {folder}: {error.strerror}.", "Name a folder that can be written into."
        ) from error


def write_csv(place: Path, found: list[Row]) -> None:
    """Rows as a table, a column per field; the options of a setting as one column of JSON."""
    with place.open("w", newline="") as file:
        writer = csv_format.DictWriter(file, fieldnames=[field.name for field in fields(Row)])
        writer.writeheader()
        for line in (row.describe() for row in found):  # what does not apply to a row stays empty
            writer.writerow({k: json.dumps(v) if isinstance(v, dict | tuple) else v for k, v in line.items()})


def _draw(folder: Path, found: list[Row]) -> None:
    from crossward_lab.bench.figures import NoPlotsError, draw_all  # noqa: PLC0415

    try:
        written = draw_all(found, folder)
    except NoPlotsError as missing:
        Console(stderr=True).print(f"no figures: {missing}", highlight=False, soft_wrap=True)
        return
    Console(stderr=True).print(_drawn(len(written), folder), highlight=False, soft_wrap=True)


def _drawn(count: int, folder: Path) -> str:
    return f"{count} {'figure' if count == 1 else 'figures'}, each as PNG and SVG, in {folder}"


def tables(grid: Grid, console: Console) -> list[Table]:
    """A setting in as few tables as the width allows without cutting a word: deviations go first, then columns."""
    count = len(grid.columns)
    for deviations, pieces in [(True, 1), *((False, pieces) for pieces in range(1, count + 1))]:
        ends = [count * piece // pieces for piece in range(pieces + 1)]
        found = [_table(_part(grid, *ends[i : i + 2]), with_deviations=deviations) for i in range(pieces)]
        if all(_width(table, console) <= console.width for table in found):
            break
    return found


def _part(grid: Grid, start: int, end: int) -> Grid:
    lines = tuple(replace(line, cells=line.cells[start:end]) for line in grid.lines)
    kept = tuple(line for line in lines if any(line.cells))  # printed figures of no column here have nothing to say
    return replace(grid, title=grid.title + ", continued" * (start > 0), columns=grid.columns[start:end], lines=kept)


def _width(table: Table, console: Console) -> int:
    """How wide a table is that nothing is cut from."""
    return Measurement.get(console, console.options.update_width(10_000), table).maximum


def _table(grid: Grid, *, with_deviations: bool) -> Table:
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


def write_report(folder: Path, datasets: tuple[str, ...], asked: Asked) -> None:
    """Measure every data set that is here, and write the page; exit code 3 where one was not."""
    from crossward_lab.bench.figures import NoPlotsError, require_matplotlib  # noqa: PLC0415
    from crossward_lab.bench.page import write_page  # noqa: PLC0415

    try:
        require_matplotlib()
    except NoPlotsError as missing:
        raise InvalidSetting("The page has figures, and there is nothing to draw them with.", str(missing)) from missing
    require_folder(folder / "results")
    require_file(folder / "results.md")
    measured, absent = [], False
    for dataset in datasets:
        try:
            measured.append(measure(dataset, asked))
        except typer.Exit as end:
            if end.exit_code != NO_DATA:
                raise
            absent = True
    if measured:
        print(write_page(measured, folder))
    if absent:
        raise typer.Exit(NO_DATA)
