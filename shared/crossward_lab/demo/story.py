"""A study from file to predictions: each branch alone, then with the main hospital's help."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from crossward.client import Client
from crossward.errors import InvalidEpsilon, InvalidSetting, NotReady, StorageFailed, Unreachable
from crossward.privacy.budget import check_epsilon
from crossward.protocol.ledger.chain import first_difference
from crossward.study import Study, study_for
from crossward.study.auto import AUTO
from crossward.study.methods import METHODS
from crossward_lab.demo.people import POLICY, Desk, People
from crossward_lab.demo.records import OUTCOME
from crossward_lab.simulate.hospitals import PREVALENCE, SCHEMA

ALONE, TOGETHER = "alone", "together"
ENDED = ("complete", "failed", "cancelled")
PATIENCE = 120.0  # seconds without a word from the coordinator

Progress = Callable[[str, float], None]
NonPrivate = Callable[[str, Study], float]
"""The AUC at a target without any noise: known only to whoever simulated the hospitals and sees all their records."""


@dataclass(frozen=True, slots=True)
class Row:
    """A branch hospital afterwards."""

    name: str
    records: int
    auc_direct: float
    auc_transfer: float
    auc_nonprivate: float | None
    epsilon_spent: float
    epsilon_left: float


@dataclass(frozen=True, slots=True)
class Story:
    """What is to be seen when the studies have ended."""

    targets: list[Row]
    source: dict[str, Any]
    ledgers_agree: bool
    prediction: dict[str, Any]
    certificate: str


def check(method: str, epsilon: float) -> None:
    """Refuse, before anything starts, what no study here could be made of."""
    if method != AUTO and (method not in METHODS or not METHODS[method].has_sources):
        raise InvalidSetting(f"{method!r} is no method to learn from another hospital.", "Use auto, simcomb or pst-h.")
    most = POLICY["epsilon_per_study"]
    if check_epsilon(epsilon) > most:
        raise InvalidEpsilon(
            f"No hospital of the demonstration lets a study cost {epsilon:g}.", f"Use {most:g} at most."
        )


def studies(people: People, method: str, epsilon: float) -> tuple[Study, Study]:
    """The two studies: each target on its own, and with transfer from the main hospital."""
    shared: dict[str, Any] = {
        "label": {"name": OUTCOME, "positive": True, "positive_rate": PREVALENCE},
        "epsilon": epsilon,
        "targets": [desk.name for desk in people.targets],
    }
    counts = {desk.name: _budget(desk)["records"] for desk in people.desks}
    own = {desk.name: counts[desk.name] for desk in people.targets}
    alone = study_for(SCHEMA, id=ALONE, title="Each branch on its own", method=AUTO, sources=(), records=own, **shared)
    together = study_for(
        SCHEMA, id=TOGETHER, title="With the main hospital's help", method=method, records=counts, **shared
    )
    return alone, together


def run(
    people: People,
    method: str,
    epsilon: float,
    patient: dict[str, Any],
    progress: Progress,
    nonprivate: NonPrivate | None = None,
) -> Story:
    """Create and run both studies, those that have run already excepted; then look at every site.

    `patient` is a record of the first branch, in raw units, to predict for.
    """
    lead, made = people.lead, studies(people, method, epsilon)
    for study in made:
        if lead.create(study.to_yaml())["state"] == "draft":
            lead.start(study.id)
    _follow_all(lead, made, progress)
    rows = [_row(desk, nonprivate and nonprivate(desk.name, made[0])) for desk in people.targets]
    prediction = people.targets[0].client.predict(TOGETHER, [patient])
    return Story(rows, _budget(people.source), _agree(people), prediction, lead.certificate_text(TOGETHER))


def _follow_all(lead: Client, made: Sequence[Study], progress: Progress) -> None:
    """Wait until every study has ended well; a coordinator that is away for a while is waited for."""
    heard = time.monotonic()
    while True:
        try:
            if all(tuple(_follow(lead, study.id, progress) for study in made)):
                return
            heard = time.monotonic()
        except (Unreachable, StorageFailed):
            if time.monotonic() - heard > PATIENCE:
                raise
        time.sleep(0.2)


def _follow(lead: Client, study: str, progress: Progress) -> bool:
    """Tell how far a study is; True once it has ended well."""
    seen = lead.study(study)
    if seen["state"] in ENDED:
        if seen["state"] != "complete":
            raise NotReady(f"The study {study} is {seen['state']}: {seen['cause']}", "See the services' logs.")
        progress(study, 1.0)
        return True
    parts = len(seen["targets"]) + len(seen["sources"])
    done = sum(1.0 if task["state"] == "done" else task["progress"] for task in seen["tasks"])
    progress(study, min(done / parts, 0.99))
    return False


def _row(desk: Desk, nonprivate: float | None) -> Row:
    budget = _budget(desk)
    return Row(
        desk.name,
        budget["records"],
        desk.client.evaluation(ALONE)["auc"],
        desk.client.evaluation(TOGETHER)["auc"],
        nonprivate,
        budget["epsilon_spent"],
        budget["epsilon_left"],
    )


def _budget(desk: Desk) -> dict[str, Any]:
    (dataset,) = desk.client.status()["datasets"]
    return {"name": desk.name, "records": dataset["rows"]} | {
        key: dataset[key] for key in ("epsilon_spent", "epsilon_left")
    }


def _agree(people: People) -> bool:
    """Whether every site's ledger holds, its mirror holds, and the two are the same, line by line."""
    return all(
        desk.client.verify()["sound"]
        and people.auditor.verify(desk.name)["holds"]
        and first_difference(desk.client.ledger(), people.auditor.ledger(desk.name)) is None
        for desk in people.desks
    )
