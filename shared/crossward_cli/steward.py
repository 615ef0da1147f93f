"""What `crossward site`, `predict` and `evaluate` show of a hospital's own service."""

from __future__ import annotations

import csv as csv_files
import json
import math
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from crossward.client import SiteClient
from crossward.client.http import NEVER, HttpClient
from crossward.errors import InvalidSetting, NotReady, Unreachable
from crossward.privacy.budget import check_delta, check_epsilon
from crossward.protocol.ledger.export import export_file
from crossward_cli.waiting import wait_until_well

RECORDS = 'a CSV, or JSON: one record {"age": 61, ...}, a list of them, {"record": ...} or {"records": [...]}'


class _Started(SiteClient):
    """A site that may have been started only a moment ago."""

    def __init__(self, url: str, token: str, *, ca: Path | None) -> None:
        super().__init__(url, token, ca=ca)
        self._ca = ca

    def join(self, coordinator: str, code: str) -> dict[str, Any]:
        """Enrol, once the service answers: a code must not be sent twice."""
        with HttpClient(self.url, ca=self._ca, retry=NEVER) as asked:

            def trouble() -> str:
                try:
                    asked.get("/healthz")
                except (Unreachable, NotReady) as error:
                    return error.cause
                return ""

            wait_until_well(trouble, "Is the address right (--site), and does the service run? See its log.")
        return super().join(coordinator, code)


def at_site(url: str, token: str, ca: Path | None) -> SiteClient:
    """The site, as whoever holds the token."""
    return _Started(url, token, ca=ca)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InvalidSetting(f"{path} cannot be read: {error}", "Give a YAML file.") from None


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML file that holds a mapping."""
    try:
        found = yaml.safe_load(_text(path))
    except yaml.YAMLError as error:
        raise InvalidSetting(f"{path} cannot be read: {error}", "Give a YAML file.") from None
    if not isinstance(found, dict):
        raise InvalidSetting(f"{path} does not hold names and values.", "Give a YAML mapping.")
    return found


def place_of(csv: Path | None, parquet: Path | None, sql: str | None, query: str | None) -> dict[str, Any]:
    """Where the data lie: exactly one of the three."""
    given = [what for what in (csv, parquet, sql) if what is not None]
    if len(given) != 1 or (sql is None) != (query is None):
        raise InvalidSetting(
            "Say where the data lie in one way.", "--csv FILE, --parquet FILE, or --sql URL --query Q."
        )
    if csv is not None:
        return {"kind": "csv", "path": str(csv.absolute())}
    if parquet is not None:
        return {"kind": "parquet", "path": str(parquet.absolute())}
    return {"kind": "sql", "url": sql, "query": query}


def add_dataset(
    client: SiteClient,
    name: str,
    place: dict[str, Any],
    mapping: Path | None,
    person: str,
    study: Path | None,
    *,
    epsilon: float,
    delta: float,
    zcdp: bool,
    records_per_person: int,
    as_json: bool,
) -> None:
    """Connect data and show the local report."""
    check_epsilon(epsilon)
    if delta:
        check_delta(delta)
    mapped = {"person": person} | ({} if mapping is None else read_yaml(mapping))
    made = client.add_dataset(
        name,
        place,
        mapped,
        epsilon=epsilon,
        delta=delta,
        filter="zcdp" if zcdp else "basic",
        records_per_person=records_per_person,
        study=None if study is None else _text(study),
    )
    if as_json:
        print(json.dumps(made, indent=2))
    else:
        line = f"{name}: {made['rows']} rows of {made['persons']} persons, epsilon {made['epsilon']:g} for good."
        print(line + in_two(made))


def in_two(made: dict[str, Any]) -> str:
    """A further line where persons of a dataset just read have a second budget: the steward answers for it."""
    twice = made["report"].get("persons_in_two_datasets", 0)
    return f"\n{twice} people are in two datasets and have both budgets." if twice else ""


def show_status(client: SiteClient, *, as_json: bool) -> None:
    """The site at a glance."""
    seen = client.status()
    if as_json:
        print(json.dumps(seen, indent=2))
        return
    console = Console()
    who = seen["identity"]
    name = f"{who['party']} ({who['role']}) at {who['coordinator']}" if who else "not joined yet"
    colour = "green" if seen["health"] == "well" else "red"
    console.print(f"[bold]{name}[/]: [{colour}]{seen['health']}[/] {seen['stopped'] or seen['trouble']}")
    budgets = Table("dataset", "version", "rows", "epsilon", "spent", "left")
    for data in seen["datasets"]:
        numbers = (f"{data[key]:g}" for key in ("epsilon", "epsilon_spent", "epsilon_left"))
        budgets.add_row(data["name"], str(data["version"]), f"{data['rows']:,}", *numbers)
    console.print(budgets)
    if seen["tasks"]:
        tasks = Table("task", "study", "state", "progress", "why")
        for task in seen["tasks"]:
            tasks.add_row(task["id"], task["study"], task["state"], f"{task['progress']:.0%}", task["cause"] or "")
        console.print(tasks)
    head, waiting = seen["ledger"]["head"], seen["ledger"]["unconfirmed"]
    console.print(f"ledger: {head['sequence']} lines, {waiting} not yet confirmed; outbox: {len(seen['outbox'])}")


def show_keys(client: SiteClient, *, as_json: bool) -> None:
    """The site's own key and those it trusts."""
    found = client.keys()
    if as_json:
        print(json.dumps(found, indent=2))
        return
    own = found["own"]
    print(f"This site signs with key {own['key_id']}: {own['public_key']}" if own else "This site has no key yet.")
    table = Table("party", "key", "public key", "trusted because of")
    for key in found["keys"]:
        table.add_row(key["party"], key["key_id"], key["public_key"], key["origin"])
    Console(width=120).print(table)


def show_predictions(client: SiteClient, study: str, file: Path, *, as_json: bool) -> None:
    """Predict for the records of a JSON or CSV file."""
    records = _records(file)
    found = client.predict(study, records)
    if as_json:
        print(json.dumps(found, indent=2))
        return
    table = Table("record", f"probability of {found['label']}", "class")
    for number, one in enumerate(found["predictions"], 1):
        table.add_row(str(number), f"{one['probability']:.3f}", str(one["class"]))
    Console().print(table)


def _records(file: Path) -> list[dict[str, Any]]:
    """The records of a CSV, or of JSON in any form that a person may have at hand."""
    found: Any
    try:
        if file.suffix == ".csv":
            with file.open(encoding="utf-8", newline="") as opened:
                found = [{k: v if v != "" else None for k, v in row.items()} for row in csv_files.DictReader(opened)]
        else:
            found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, csv_files.Error) as error:
        raise InvalidSetting(f"{file} cannot be read: {error}", f"Give {RECORDS}.") from None
    if isinstance(found, dict) and isinstance(found.get("records"), list):
        found = found["records"]
    elif isinstance(found, dict):  # `crossward study example` writes {"study", "record"}
        found = [found["record"] if isinstance(found.get("record"), dict) else found]
    if not isinstance(found, list) or not found or not all(_is_record(one) for one in found):
        raise InvalidSetting(f"{file} does not hold records.", f"Give {RECORDS}.")
    return found


def _is_record(found: Any) -> bool:
    """Whether this is names and single values."""
    return (
        isinstance(found, dict)
        and bool(found)
        and all(isinstance(name, str) for name in found)
        and all(
            value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
            for value in found.values()
        )
    )


def show_evaluation(client: SiteClient, study: str, *, as_json: bool) -> None:
    """AUC on the holdout, for the site's own eyes."""
    found = client.evaluation(study)
    if as_json:
        print(json.dumps(found, indent=2))
        return
    low, high = found["interval"]
    print(f"AUC {found['auc']:.3f} (95 %: {low:.3f} to {high:.3f}) on {found['records']:,} records not trained on.")
    print("Not paid for: it stays in the house.")


def export_ledger(client: SiteClient, file: Path) -> None:
    """Write the site's ledger to a file that anyone can verify."""
    head = export_file(client.ledger(), file)
    print(f"{file}: {head.sequence} lines, head {head.sequence}:{head.hash}")
