"""`crossward bench ...`: the arguments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from crossward_cli.groups.options import Json

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
Workers = Annotated[int | None, typer.Option(min=1, help="Processes to use; all cores by default.")]
Csv = Annotated[Path | None, typer.Option("--csv", help="Write the rows to this file.")]
Plots = Annotated[Path | None, typer.Option("--plots", help="Write the figures (PNG and SVG) into this folder.")]


def _command(name: str) -> Callable[..., None]:
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
        from crossward_cli.benchmarks import Asked, show_benchmark

        asked = Asked.of(repeats, epsilon, method, setting, preset, quick=quick, fresh=fresh, workers=workers)
        show_benchmark(name, asked, csv=csv, plots=plots, as_json=json)

    return command


for _name, _help in DATASETS.items():
    group.command(_name, help=_help)(_command(_name))


@group.command()
def report(
    folder: Annotated[Path, typer.Argument(help="Where results.md and results/ are written.")] = Path("docs"),
    repeats: Repeats = 10,
    fresh: Fresh = False,
    workers: Workers = None,
    dataset: Annotated[list[str] | None, typer.Option("--dataset", help="Only these.")] = None,
) -> None:
    """Every benchmark, and the page that says what of the papers held: tables, figures, machine and commit."""
    from crossward_cli.benchmarks import Asked, write_report

    asked = Asked.of(repeats, fresh=fresh, workers=workers)
    write_report(folder, tuple(dataset or DATASETS), asked)


@group.command()
def speed(
    json: Json = False,
    size: Annotated[list[int] | None, typer.Option(help="Record counts; 10^4, 10^5 and 10^6 by default.")] = None,
    features: Annotated[int, typer.Option(min=1)] = 50,
    repeats: Annotated[int, typer.Option(min=1)] = 5,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads for everyone; all cores by default.")] = None,
    peers: Annotated[bool, typer.Option(help="Also run diffprivlib, in an environment of its own.")] = True,
) -> None:
    """How fast is a private fit, beside scikit-learn's and diffprivlib's?"""
    from crossward_cli.bench import show_speed

    show_speed(
        sizes=size or [10_000, 100_000, 1_000_000],
        features=features,
        repeats=repeats,
        threads=threads,
        peers=peers,
        as_json=json,
    )
