"""A simulated hospital's records, as a file that its own service reads, and the settings that let it."""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path
from typing import Any

from crossward.errors import InvalidSetting
from crossward_lab.simulate.hospitals import Federation, Hospital

DATASET, PERSON, OUTCOME = "patients", "patient", "diabetes"
MAIN = "main"
ROOT, FILE = "records", "patients.csv"
PLACE = {"kind": "csv", "root": ROOT, "path": FILE}
"""Where a simulated hospital's service finds its records."""


def branch(number: int) -> str:
    """What the branch of this number, from 1, is called."""
    return f"branch-{number}"


def simulated(name: str, seed: int = 0) -> Hospital:
    """The hospital of a name, `main` or `branch-1` to `branch-16`: the same that a whole simulation has."""
    if name == MAIN:
        return Federation.simulate(branches=1, seed=seed).main
    if found := re.fullmatch(r"branch-([1-9]\d?)", name):
        return Federation.simulate(branches=int(found.group(1)), seed=seed).branches[-1]
    raise InvalidSetting(f"There is no simulated hospital {name!r}.", "Ask for main, or branch-1 to branch-16.")


def write_csv(hospital: Hospital, path: Path) -> None:
    """The records in raw units, one line per patient; what is missing is left empty."""
    names = list(hospital.table)
    columns = [hospital.table[name].tolist() for name in names]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([PERSON, *names, OUTCOME])
        for number, row in enumerate(zip(*columns, hospital.labels.tolist(), strict=True)):
            writer.writerow([f"p{number}", *("" if _is_missing(value) else value for value in row)])


def settings_with_root(root: Path) -> str:
    """A settings file that opens one folder of tables to a site, by the name `records`."""
    return f"[data_roots]\n{ROOT} = {json.dumps(str(root.absolute()), ensure_ascii=False)}\n"


def first_record(hospital: Hospital) -> dict[str, Any]:
    """The first patient's values, None where missing."""
    values = {name: column[:1].tolist()[0] for name, column in hospital.table.items()}
    return {name: None if _is_missing(value) else value for name, value in values.items()}


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
