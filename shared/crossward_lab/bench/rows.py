"""From runs to rows: means and deviations over repeats, the papers' lambda, and which methods are comparable.

Two methods at the same place of a table are compared by Wilcoxon's signed-rank test over repeats (they share splits),
each with the best of that place, corrected by Holm's method; `comparable` is not worse at 5 %. The papers use t-tests;
but noise now and then turns a model around, and a single AUC near 0 among nine near 1 would hide any difference.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from scipy import stats

from crossward_lab.bench.engine import Benchmark, Measured
from crossward_lab.bench.experiments.base import Option, Outcome, Setting
from crossward_lab.bench.published import published

LEVEL = 0.05
OF_THE_MEAN = ("aucs", "by_lambda", "tuning", "preprocessing", "paper")
"""What a single site's row leaves to the row of their mean."""
ALWAYS = ("epsilon", "auc_sd", "site")
TUNED = "lambda: best of {} in hindsight, not paid for"


@dataclass(frozen=True, slots=True)
class Row:
    """One method at one place of a table: what `--json` prints."""

    dataset: str
    setting: str
    method: str
    preset: str
    epsilon: float | None
    auc_mean: float
    auc_sd: float | None
    repeats: int
    error_mean: float
    error_sd: float | None
    site: str | None = None
    combiner: str | None = None
    options: dict[str, Option] = field(default_factory=dict)
    by_lambda: dict[str, float] | None = None
    tuning: str | None = None
    preprocessing: str | None = None
    comparable: bool = True
    p_against_best: float | None = None
    paper_auc: float | None = None
    paper_sd: float | None = None
    paper: str = ""
    aucs: tuple[float, ...] = ()

    def describe(self) -> dict[str, Any]:
        """Plain values for JSON, without what does not apply; epsilon null is the non-private twin."""
        found = {name: value for name, value in asdict(self).items() if value is not None or name in ALWAYS}
        if self.site is not None:
            found = {name: value for name, value in found.items() if name not in OF_THE_MEAN}
        return {name: round(value, 5) if isinstance(value, float) else value for name, value in found.items()}


def rows(benchmark: Benchmark) -> list[Row]:
    """Every row of a benchmark."""
    return [row for measured in benchmark.measured for row in _tested(list(_of_setting(measured)))]


HEADLINE = "C-hl"
"""Of several combiners, the one that the method is."""

Trial = tuple[str, str, float | None, tuple[tuple[str, Option], ...]]
"""preset, method, epsilon, and the options without lambda."""


def _of_setting(measured: Measured) -> Iterable[Row]:
    setting = measured.setting
    trials: dict[Trial, dict[float, list[tuple[int, Outcome]]]] = defaultdict(lambda: defaultdict(list))
    for run, outcome in measured.outcomes:
        options = dict(run.options)
        lam = float(options.pop("lambda", math.nan))
        trial = (run.preset, run.method, run.epsilon, tuple(options.items()))
        trials[trial][lam].append((run.repeat, outcome))
    for trial, by_lambda in trials.items():
        means = {lam: _mean(_result(outcome) for _, outcome in runs) for lam, runs in by_lambda.items()}
        best = max(means, key=lambda lam: means[lam])
        outcomes = [outcome for _, outcome in sorted(by_lambda[best], key=lambda pair: pair[0])]
        yield from _of_trial(setting, trial, outcomes, {} if math.isnan(best) else means)


def _of_trial(setting: Setting, trial: Trial, outcomes: list[Outcome], by_lambda: dict[float, float]) -> Iterable[Row]:
    """The row of a trial's result, and one for each of its parts."""
    preset, method, epsilon, options = trial
    parts: list[str | None] = [part for part in outcomes[0] if part and len(outcomes[0]) > 1]
    if setting.parts != "combiner" or not parts:
        parts = [None, *(parts if setting.varies == "epsilon" else [])]
    for part in parts:
        aucs = [_result(outcome, part) for outcome in outcomes]
        errors = [_result(outcome, part, "error") for outcome in outcomes]
        site, combiner = (part, None) if setting.parts != "combiner" else (None, part)
        mean, deviation = published(setting.dataset, setting.name, method, epsilon, site)
        listed = ", ".join(f"{lam:g}" for lam in by_lambda)
        yield Row(
            dataset=setting.dataset,
            setting=setting.name,
            method=method,
            preset=preset,
            epsilon=epsilon,
            auc_mean=_mean(aucs),
            auc_sd=_deviation(aucs),
            repeats=len(aucs),
            error_mean=_mean(errors),
            error_sd=_deviation(errors),
            site=site,
            combiner=combiner,
            options=dict(options),
            by_lambda={f"{lam:g}": round(auc, 5) for lam, auc in by_lambda.items()} or None,
            tuning=TUNED.format(listed) if len(by_lambda) > 1 else None,
            preprocessing=dict(setting.preprocessing).get(preset),
            paper_auc=mean,
            paper_sd=deviation,
            paper=setting.paper,
            aucs=tuple(round(auc, 6) for auc in aucs),
        )


def _result(outcome: Outcome, part: str | None = None, metric: str = "auc") -> float:
    """A metric of a part; without one of the whole: the level-1 model's, or the mean over sites."""
    if part is not None:
        return outcome[part][metric]
    if HEADLINE in outcome:
        return outcome[HEADLINE][metric]
    return _mean(metrics[metric] for metrics in outcome.values())


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def _tested(found: list[Row]) -> Iterable[Row]:
    """Rows with what a test says about them beside the best row of the same place."""
    places: dict[object, list[Row]] = defaultdict(list)
    for row in found:
        places[row.setting, row.epsilon, row.site, row.combiner, tuple(row.options.items())].append(row)
    for together in places.values():
        best = max(together, key=lambda row: row.auc_mean)
        others = [row for row in together if row is not best]
        adjusted = holm([paired_test(best.aucs, row.aucs) for row in others])
        p_values = dict(zip(map(id, others), adjusted, strict=True))
        for row in together:
            p = p_values.get(id(row))
            yield replace(row, comparable=p is None or p >= LEVEL, p_against_best=p)


def paired_test(first: Iterable[float], second: Iterable[float]) -> float:
    """Two-sided p of Wilcoxon's signed-rank test; 1 where all pairs are equal."""
    differences = np.subtract(tuple(first), tuple(second))
    return float(stats.wilcoxon(differences).pvalue) if np.any(differences) else 1.0


def holm(p_values: list[float]) -> list[float]:
    """p-values for all of several tests together (Holm 1979)."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted


def _deviation(values: list[float]) -> float | None:
    return float(np.std(values, ddof=1)) if len(values) > 1 else None
