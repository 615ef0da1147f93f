"""Runs the real learners on simulated hospitals, many times, and says what to expect of each method and epsilon.

Every repeat draws a new world, so a band holds what is not known beforehand: effects, sites, sampling and noise. AUCs
are expected over the labels of fresh people of the target, so no luck of a holdout is in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from crossward.errors import OneClass, TooFewRecords
from crossward.learning.aggregation import average
from crossward.learning.defaults import Defaults, Party
from crossward.learning.processes import spread
from crossward.planning.methods import Learned, Lent, learn
from crossward.planning.setting import Setting
from crossward.planning.world import Records, World, expected_auc
from crossward.planning.written import learn_as_written
from crossward.privacy.noise import Randomness, SeededRandomness
from crossward.study import Study

BAND = (5.0, 95.0)
"""A band holds nine of ten outcomes."""

MOST_TARGETS = 4
"""So many targets are simulated: of more, some from the smallest to the largest."""

MOST_FAILED = 0.1
"""Where more of the outcomes are that nothing can be learned, a band of the others would be no forecast."""

TOO_FEW = (TooFewRecords, OneClass)
"""How learners refuse records that are too few: for epsilon, or to hold both classes."""

TESTED = 2_000
"""Fresh people of a target on whom its model is tried."""

AS_WRITTEN = "as written"
"""What tables call the study's own method with its own settings."""

Progress = Callable[[int, int], None]
Found = dict[tuple[str, float], list[float]]


@dataclass(frozen=True, slots=True)
class Forecast:
    """What to expect of a method at an epsilon: the AUC of a target's model, mean and band over worlds and targets."""

    method: str
    epsilon: float
    auc_mean: float
    auc_sd: float
    auc_low: float
    auc_high: float
    repeats: int


@dataclass(frozen=True, slots=True)
class Task:
    """Everything that a repeat needs: the setting, the epsilons, and the study's own methods at them."""

    setting: Setting
    epsilons: tuple[float, ...]
    written: tuple[Study, ...]
    seed: int


def forecast(
    setting: Setting,
    epsilons: Sequence[float],
    *,
    written: Sequence[Study] = (),
    repeats: int = 16,
    seed: int = 0,
    workers: int = 1,
    progress: Progress = lambda done, total: None,
) -> list[Forecast]:
    """A forecast per method and epsilon, and per study in `written`; none where a party has too few records for it."""
    task = Task(setting.simulated, tuple(epsilons), tuple(written), seed)
    total: Found = {}
    with spread(_alone, [(task, number) for number in range(repeats)], min(workers, repeats)) as worlds:
        for done, found in enumerate(worlds, start=1):
            progress(done, repeats)
            for key, aucs in found.items():
                total.setdefault(key, []).extend(aucs)
    enough = (1 - MOST_FAILED) * repeats * len(representative(setting.targets))
    return [_summary(*key, total[key], repeats) for key in sorted(total) if len(total[key]) >= enough]


def representative(sizes: Sequence[int]) -> tuple[int, ...]:
    """At most MOST_TARGETS of the sizes, from the smallest to the largest."""
    ordered = sorted(sizes)
    if len(ordered) <= MOST_TARGETS:
        return tuple(ordered)
    places = np.linspace(0, len(ordered) - 1, MOST_TARGETS).round().astype(int)
    return tuple(ordered[place] for place in places)


def repeat(task: Task, number: int) -> Found:
    """One world: every method's AUC at every target. It depends on the seed and its number alone."""
    setting, rng = task.setting, np.random.default_rng([task.seed, number])
    world = World.draw(setting.schema, setting.assumed, rng)
    # A single source is what targets differ from; of several none is the standard.
    most = max((*setting.sources, *setting.targets))
    sources = [world.site(len(setting.sources) > 1, rng, most).draw(n, rng) for n in setting.sources]
    sites = [(world.site(True, rng, most), n) for n in representative(setting.targets)]
    targets = [(site.draw(n, rng), site.draw(TESTED, rng)) for site, n in sites]
    noise = SeededRandomness(np.random.default_rng([task.seed, number, 1]))
    found: Found = {}
    for epsilon in task.epsilons:
        try:
            rules = setting.rules(epsilon)
        except TooFewRecords:
            continue
        for method, auc in _by_rules(rules, sources, targets, noise):
            found.setdefault((method, epsilon), []).append(auc)
    for study in task.written:
        epsilon = study.epsilon.target or study.epsilon.source or 0.0
        try:
            aucs = list(learn_as_written(study, sources, targets, noise))
        except TOO_FEW:
            continue
        found[AS_WRITTEN, epsilon] = aucs
    return found


def _by_rules(
    rules: Defaults, sources: Sequence[Records], targets: Sequence[tuple[Records, Records]], noise: Randomness
) -> Iterator[tuple[str, float]]:
    """Everyone trains on as many records as the rules reckon with."""
    parties = rules.facts.sources
    try:
        lent = Lent.by(rules, [own.first(party.records) for party, own in zip(parties, sources, strict=True)], noise)
    except TOO_FEW:
        lent = Lent()
    by_size = {party.records: party for party in rules.facts.targets}
    for own, test in targets:
        party = by_size[Setting.trained(len(own.y))]
        for method, model in _learned(rules, lent, party, own, noise).items():
            yield method, expected_auc(model.margins(test.X), test.chance)


def _learned(rules: Defaults, lent: Lent, party: Party, own: Records, noise: Randomness) -> dict[str, Learned]:
    """A target's models. Too few records for one method are too few for the next, but SourceD needs none of them."""
    found: dict[str, Learned] = {}
    try:
        for method, model in learn(rules, lent, party, *own.first(party.records), noise):
            found[method] = model
    except TOO_FEW:
        if lent.whole:
            found["SourceD"] = average(lent.whole, "records")
    return found


def _alone(task: Task, number: int) -> Found:
    """The matrices are small: threads inside numpy would only wait."""
    with threadpool_limits(1):
        return repeat(task, number)


def _summary(method: str, epsilon: float, aucs: Sequence[float], repeats: int) -> Forecast:
    values = np.sort(aucs)  # processes answer in any order, and a sum of floats depends on it
    low, high = np.percentile(values, BAND)
    return Forecast(method, epsilon, float(values.mean()), float(values.std()), float(low), float(high), repeats)
