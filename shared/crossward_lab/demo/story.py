"""A study from file to predictions: each branch alone, then with the main hospital's help."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from crossward.client import Client
from crossward.errors import InvalidEpsilon, InvalidSetting, NotReady, StorageFailed, Unreachable
from crossward.methods import METHODS
from crossward.privacy.budget import check_epsilon
from crossward.protocol.ledger.chain import first_difference
from crossward.protocol.states import StudyState, TaskState
from crossward.study import Study, study_for
from crossward.study.auto import AUTO
from crossward_lab.demo.people import POLICY, Desk, People
from crossward_lab.demo.records import OUTCOME
from crossward_lab.simulate.hospitals import PREVALENCE, SCHEMA

ALONE, TOGETHER = "alone", "together"
STUDY_TITLES = {ALONE: "study 1: each branch alone", TOGETHER: "study 2: with the main hospital"}
FINAL_STATES = (StudyState.COMPLETE, StudyState.FAILED, StudyState.CANCELLED)
LONGEST_SILENCE = 120.0  # seconds without a word from the coordinator

Progress = Callable[[str, float], None]
NonPrivate = Callable[[str, Study], float]
"""The AUC at a target without any noise: known only to whoever simulated the hospitals and sees all their records."""


@dataclass(frozen=True, slots=True)
class SiteBudget:
    """A hospital's records, and what its patients have spent and have left."""

    name: str
    records: int
    epsilon_spent: float
    epsilon_left: float


@dataclass(frozen=True, slots=True)
class BranchResult:
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

    targets: list[BranchResult]
    source: SiteBudget
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
    counts = {desk.name: _budget(desk).records for desk in people.desks}
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
    lead, pair = people.lead, studies(people, method, epsilon)
    for study in pair:
        if lead.create(study.to_yaml())["state"] == StudyState.DRAFT:
            lead.start(study.id)
    _follow_all(lead, pair, progress)
    branches = [_branch_result(desk, nonprivate and nonprivate(desk.name, pair[0])) for desk in people.targets]
    prediction = people.targets[0].client.predict(TOGETHER, [patient])
    return Story(branches, _budget(people.source), _agree(people), prediction, lead.certificate_text(TOGETHER))


def _follow_all(lead: Client, pair: Sequence[Study], progress: Progress) -> None:
    """Wait until every study has ended well; a coordinator that is away for a while is waited for."""
    heard = time.monotonic()
    while True:
        try:
            if all(tuple(_follow(lead, study.id, progress) for study in pair)):
                return
            heard = time.monotonic()
        except (Unreachable, StorageFailed):
            if time.monotonic() - heard > LONGEST_SILENCE:
                raise
        time.sleep(0.2)


def _follow(lead: Client, study: str, progress: Progress) -> bool:
    """Tell how far a study is; True once it has ended well."""
    seen = lead.study(study)
    if seen["state"] in FINAL_STATES:
        if seen["state"] != StudyState.COMPLETE:
            raise NotReady(f"The study {study} is {seen['state']}: {seen['cause']}", "See the services' logs.")
        progress(study, 1.0)
        return True
    parts = len(seen["targets"]) + len(seen["sources"])
    done = sum(1.0 if task["state"] == TaskState.DONE else task["progress"] for task in seen["tasks"])
    progress(study, min(done / parts, 0.99))
    return False


def _branch_result(desk: Desk, nonprivate: float | None) -> BranchResult:
    budget = _budget(desk)
    return BranchResult(
        desk.name,
        budget.records,
        desk.client.evaluation(ALONE)["auc"],
        desk.client.evaluation(TOGETHER)["auc"],
        nonprivate,
        budget.epsilon_spent,
        budget.epsilon_left,
    )


def _budget(desk: Desk) -> SiteBudget:
    status = desk.client.status()
    (dataset,), budget = status["datasets"], status["budget"]
    return SiteBudget(desk.name, dataset["rows"], budget["epsilon_spent"], budget["epsilon_left"])


def _agree(people: People) -> bool:
    """Whether every site's ledger holds, its mirror holds, and the two are the same, line by line."""
    return all(
        desk.client.verify()["sound"]
        and people.auditor.verify(desk.name)["holds"]
        and first_difference(desk.client.ledger(), people.auditor.ledger(desk.name)) is None
        for desk in people.desks
    )
