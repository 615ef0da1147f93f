"""`crossward study check`: is this study file sound, and what would it cost whom?"""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from crossward.errors import StorageFailed
from crossward.study import Study, example, study_for
from crossward.study.auto import AUTO


def read_text(path: Path) -> str:
    """The text of a file."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StorageFailed(
            f"{path} cannot be read: {error}.", "Is the path right, and the file UTF-8 text?"
        ) from error


def read_study(path: Path) -> Study:
    """The study of a file; every problem at once, each with its line and field."""
    return Study.from_yaml(read_text(path))


def show_check(path: Path, *, as_json: bool) -> None:
    """Check a study file and show what it stands for."""
    study = read_study(path)
    if as_json:
        print(json.dumps({"id": study.id, "digest": study.digest, "study": json.loads(study.canonical())}, indent=2))
        return
    console = Console()
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    rows = {
        "study": f"{study.id}: {study.title}",
        "method": study.method.name if study.chosen is None else f"{study.method.name}, chosen by auto",
        **_chosen(study),
        "features": f"{len(study.features)}, {len(study.schema.columns)} columns once encoded",
        "sources": ", ".join(study.sources) or "none",
        "targets": ", ".join(study.targets),
        "epsilon": f"source {study.epsilon.source or 'none'}, target {study.epsilon.target or 'none'}",
        "cells": f"level0 {study.cells.level0}, level1 {study.cells.level1}, holdout {study.cells.holdout}",
        "digest": study.digest,
    }
    for name, value in rows.items():
        table.add_row(f"[bold]{name}[/]", value)
    console.print(table)
    console.print("[green]sound[/]: every message about this study will name this digest.", highlight=False)


def _chosen(study: Study) -> dict[str, str]:
    """Why auto chose the method, and the numbers that every party approves with it."""
    if study.chosen is None:
        return {}
    method, encoding = study.method.model_dump(exclude={"name"}), study.encoding
    ball = encoding.model_dump(include={"radius", "intercept", "offset"}, exclude_none=True)
    dropped = [column for column in study.schema.columns if column not in (encoding.columns or {})]
    start = 0 if encoding.start is None else len(encoding.start.columns)
    columns = f"{len(study.schema.columns) - len(dropped)} kept, {start} start from a declared direction"
    return {
        "why": escape(study.chosen.why),
        "settings": escape(", ".join(f"{name} {_written(value)}" for name, value in (method | ball).items())),
        "columns": escape(columns + (f"; left out: {', '.join(dropped)}" if dropped else "")),
    }


def _written(value: object) -> str:
    if isinstance(value, dict) and "power" in value:
        return f"{value['value']:g} at {value['records']:,} records (power {value['power']:g})"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_written(inner)}" for name, inner in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


def write_example(folder: Path) -> None:
    """A study and the records of a simulated main hospital and a branch, to run it on."""
    from crossward_lab.demo.records import OUTCOME, first_record, write_csv, writing  # noqa: PLC0415 - only this command simulates
    from crossward_lab.simulate.hospitals import PREVALENCE, Federation  # noqa: PLC0415

    hospitals = Federation.simulate(branches=1)
    study = study_for(
        hospitals.schema,
        id="first-study",
        title="A branch learns from the main hospital",
        label={"name": OUTCOME, "positive": True, "positive_rate": PREVALENCE},
        method=AUTO,
        records={"main": len(hospitals.main.labels), "branch-1": len(hospitals.branches[0].labels)},
    )
    question = {"study": study.id, "record": first_record(hospitals.branches[0])}
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "study.yaml").write_text(study.to_yaml(), encoding="utf-8")
        for name, hospital in (("main", hospitals.main), ("branch-1", hospitals.branches[0])):
            write_csv(hospital, folder / f"{name}.csv")
        (folder / "patient.json").write_text(json.dumps(question, indent=2), encoding="utf-8")
    print(f"Wrote study.yaml, main.csv, branch-1.csv and patient.json to {folder}. None of the patients is real.")


def show_example() -> None:
    """Print a study to start from."""
    print(example(), end="")
