"""Every way a branch may learn, side by side: alone, from the main hospital, with stacking, and without privacy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from crossward.learning.defaults import Circumstances, Defaults, Party
from crossward.learning.encoding import Schema
from crossward.learning.model import ReleasedModel
from crossward.planning.methods import Lent, learn
from crossward.privacy.auc import area_under_curve
from crossward.privacy.budget import NON_PRIVATE, Epsilon
from crossward.privacy.noise import SYSTEM, Array, Randomness
from crossward_lab.simulate.hospitals import PREVALENCE, Federation

TEST_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class MethodResult:
    """The AUC of one method for one branch at one epsilon (None: its non-private twin), mean over repeats."""

    branch: str
    records: int
    method: str
    epsilon: float | None
    auc: float


def rules_for(schema: Schema, epsilon: Epsilon, main: int, branches: Sequence[int]) -> Defaults:
    """The public rules for a main hospital and branches that train on so many records, all at one epsilon."""
    targets = tuple(Party(records, epsilon) for records in branches)
    facts = Circumstances.from_schema(schema, sources=(Party(main, epsilon),), targets=targets, prevalence=PREVALENCE)
    return Defaults.of(facts)


def transfer_without_noise(schema: Schema, main: tuple[Array, Array], branch: tuple[Array, Array]) -> ReleasedModel:
    """What a branch's model would be without any noise: what privacy costs is measured against it."""
    rules = rules_for(schema, NON_PRIVATE, len(main[1]), [len(branch[1])])
    source = rules.source(rules.facts.sources[0]).fit(*main)
    return rules.simcomb(rules.facts.targets[0], source).fit(*branch)


def compare(
    federation: Federation,
    epsilons: Sequence[float],
    repeats: int,
    *,
    randomness: Randomness = SYSTEM,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[MethodResult]:
    """AUC on held-out records of each branch, for each method and epsilon and for the twins."""
    main = federation.main.encode(federation.schema)
    sites = [(site.name, *site.encode(federation.schema)) for site in federation.branches]
    trained = [len(y) - len(y) // round(1 / TEST_SHARE) for _, _, y in sites]
    found: dict[tuple[str, int, str, float | None], list[float]] = {}
    runs: list[Epsilon] = [*epsilons, NON_PRIVATE]
    for done, (repeat, epsilon) in enumerate((r, e) for r in range(repeats) for e in runs):
        progress(done, repeats * len(runs))
        rules = rules_for(federation.schema, epsilon, len(main[1]), trained)
        lent = Lent.by(rules, [main], randomness)
        number = epsilon if isinstance(epsilon, float) else None
        for party, (name, X, y) in zip(rules.facts.targets, sites, strict=True):
            order = np.random.default_rng(repeat).permutation(len(y))
            own, held = order[: party.records], order[party.records :]
            for label, model in learn(rules, lent, party, X[own], y[own], randomness):
                auc = area_under_curve(model.margins(X[held]), y[held])
                found.setdefault((name, len(y), label, number), []).append(auc)
    return [MethodResult(*key, float(np.mean(aucs))) for key, aucs in found.items()]
