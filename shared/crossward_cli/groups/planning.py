"""`crossward plan`: what to expect of a study, before anyone is asked for a record."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crossward_cli.groups.options import Json


def plan(
    file: Annotated[Path, typer.Argument(help="A study file (YAML).")],
    records: Annotated[
        list[str] | None,
        typer.Option("--records", help="A party's public record count, main=12702; more with --records again."),
    ] = None,
    records_file: Annotated[
        Path | None, typer.Option("--records-file", help="Counts by party, as YAML or JSON: {main: 12702}.")
    ] = None,
    auc: Annotated[float | None, typer.Option(help="Also find the smallest epsilon that reaches this AUC.")] = None,
    epsilon: Annotated[list[float] | None, typer.Option(help="Epsilons to try, instead of 0.05 to 4.")] = None,
    nonprivate_auc: Annotated[
        float, typer.Option(help="Assumed: what a model without noise reaches, as published ones do.")
    ] = 0.80,
    positive_rate: Annotated[
        float | None, typer.Option(help="Assumed: the share of positives; the study's own, or 0.15.")
    ] = None,
    shift: Annotated[float, typer.Option(help="Assumed: how far sites' effects lie apart, 0 to 3.")] = 0.3,
    correlation: Annotated[float, typer.Option(help="Assumed: how far features go together, 0 to 0.8.")] = 0.18,
    repeats: Annotated[int, typer.Option(min=2, max=1000, help="Simulated worlds.")] = 16,
    seed: Annotated[int, typer.Option(min=0, help="Which worlds; the same seed gives the same plan.")] = 0,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes to use; all cores by default.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it into this file, PNG or SVG.")] = None,
    json: Json = False,
) -> None:
    """A power analysis: the AUC to expect of each method and epsilon, from the study file and public counts alone."""
    from crossward_cli.plan import Asked, show_plan

    show_plan(
        file,
        Asked(
            records=tuple(records or ()),
            records_file=records_file,
            auc=auc,
            epsilons=tuple(epsilon or ()),
            nonprivate_auc=nonprivate_auc,
            positive_rate=positive_rate,
            shift=shift,
            correlation=correlation,
            repeats=repeats,
            seed=seed,
            workers=workers,
        ),
        plot,
        as_json=json,
    )


def forecast(
    dataset: Annotated[str, typer.Argument(help="mnist, brfss or ruijin.")],
    measured: Annotated[Path, typer.Option(help="The rows that `crossward bench DATASET --json` printed.")],
    repeats: Annotated[int, typer.Option(min=2, max=1000, help="Simulated worlds.")] = 16,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes to use; all cores by default.")] = None,
    json: Json = False,
) -> None:
    """What `crossward plan` would have told the lead, beside what a benchmark measured."""
    from crossward_cli.forecast import show_forecast

    show_forecast(dataset, measured, repeats, workers, as_json=json)
