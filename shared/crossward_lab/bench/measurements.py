"""From runs to rows: means and deviations over repeats, the papers' lambda, and which methods are comparable.

Two methods at the same place of a table are compared by Wilcoxon's signed-rank test over repeats (they share splits),
each with the best of that place, corrected by Holm's method; `comparable` is not worse at 5 %. The papers use t-tests;
but noise now and then turns a model around, and a single AUC near 0 among nine near 1 would hide any difference.


The papers' own figures (mean and deviation of the test AUC), as printed in their tables.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from scipy import stats

from crossward_lab.bench.engine import Benchmark, MeasuredSetting
from crossward_lab.bench.settings import Option, Outcome, Setting

Figure = tuple[float, float]

_EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)


def _by_epsilon(table: dict[str, str]) -> dict[tuple[str, float], Figure]:
    found = {}
    for method, cells in table.items():
        numbers = [float(number) for number in cells.split()]
        for epsilon, mean, deviation in zip(_EPSILONS, numbers[::2], numbers[1::2], strict=True):
            found[method, epsilon] = (mean, deviation)
    return found


MNIST_TRANSFER = _by_epsilon(  # 002 Table 1
    {
        "PST-H (W)": ".9007 .0391 .9500 .0204 .9825 .0051 .9895 .0019 .9921 .0017",
        "PST-H (U)": ".7687 .0998 .8459 .0701 .9361 .0214 .9761 .0095 .9964 .0004",
        "SimComb": ".7005 .0613 .8088 .0812 .9642 .0073 .9906 .0018 .9943 .0009",
        "SourceD": ".6527 .0927 .7510 .0854 .8806 .0431 .9401 .0180 .9523 .0088",
        "Direct": ".6467 .0787 .6978 .0651 .8657 .0429 .9632 .0117 .9877 .0039",
    }
)

RUIJIN_FIRST = _by_epsilon(  # 002 Table 2: centre 3, the first branch
    {
        "PST-H (W)": ".7108 .0611 .7469 .0319 .7649 .0255 .7581 .0392 .7564 .0362",
        "PST-H (U)": ".6235 .0732 .6778 .0495 .7107 .0474 .7372 .0337 .7226 .0397",
        "SimComb": ".5570 .1134 .6023 .0854 .6255 .0763 .6416 .0706 .7386 .0311",
        "SourceD": ".6067 .0678 .6298 .0420 .6546 .0330 .6489 .0462 .7349 .0320",
        "Direct": ".5112 .0733 .5476 .0882 .6216 .0815 .6649 .0552 .7231 .0381",
    }
)

_BRANCHES = {  # 002 Table 4 = 000 Table 2, epsilon 1, branches 1 to 16 (centres 3 to 18)
    "PST-H (W)": ".7469 .7360 .7395 .7143 .7664 .7072 .7205 .7529 .7010 .6983 .7357 .7384 .7459 .6614 .6968 .6039",
    "PST-H (U)": ".6778 .7237 .6517 .7081 .6529 .6627 .6817 .6916 .6346 .6437 .6350 .6452 .7177 .6435 .6470 .5667",
    "SimComb": ".6023 .6080 .5279 .5632 .5776 .6012 .5804 .5827 .5468 .5167 .5652 .5469 .5917 .6152 .5583 .5239",
    "SourceD": ".6298 .6151 .5270 .5743 .5592 .6017 .5757 .5362 .5465 .5351 .5625 .5463 .5554 .6068 .5515 .5274",
    "Direct": ".5476 .6203 .6355 .5788 .5327 .6132 .5609 .5842 .5151 .5546 .5531 .5203 .6193 .5634 .5578 .5169",
}
_BRANCH_DEVIATIONS = {
    "PST-H (W)": ".0321 .0317 .0400 .0397 .0388 .0169 .0464 .0417 .0233 .0361 .0462 .0451 .0520 .0942 .0233 .0124",
    "PST-H (U)": ".0495 .0373 .1026 .0329 .0697 .0365 .0336 .0444 .0267 .0499 .0536 .0610 .0647 .0439 .0619 .0362",
    "SimComb": ".0853 .0782 .0623 .0670 .0750 .0307 .0708 .0566 .0665 .0747 .0587 .0893 .0806 .0708 .0652 .0269",
    "SourceD": ".0420 .0661 .0565 .0631 .0690 .0308 .0769 .0768 .0476 .0585 .0582 .0712 .0830 .0916 .0620 .0246",
    "Direct": ".0882 .0556 .0458 .0749 .0575 .0350 .0764 .0450 .0652 .0608 .0659 .0889 .0701 .0259 .0602 .0527",
}
RUIJIN_BRANCHES: dict[tuple[str, int], Figure] = {
    (method, branch): (float(mean), float(deviation))
    for method in _BRANCHES
    for branch, (mean, deviation) in enumerate(
        zip(_BRANCHES[method].split(), _BRANCH_DEVIATIONS[method].split(), strict=True), start=1
    )
}


def published(
    dataset: str, setting: str, method: str, epsilon: float | None, site: str | None
) -> tuple[float | None, float | None]:
    """What a paper prints for this row: mean and deviation, or nothing."""
    nothing = (None, None)
    if epsilon is None:
        return nothing
    if (dataset, setting) == ("mnist", "0v8->0v9"):
        return MNIST_TRANSFER.get((method, epsilon), nothing)
    if (dataset, setting) == ("ruijin", "main->16"):
        if site == "Branch 1" and (method, epsilon) in RUIJIN_FIRST:
            return RUIJIN_FIRST[method, epsilon]
        if epsilon == 1.0 and site is not None:
            return RUIJIN_BRANCHES.get((method, int(site.removeprefix("Branch "))), nothing)
        if epsilon == 1.0 and method in _BRANCHES:
            means = [float(mean) for mean in _BRANCHES[method].split()]
            return sum(means) / len(means), None
    return nothing


LEVEL = 0.05
OF_THE_MEAN = ("aucs", "by_lambda", "tuning", "preprocessing", "paper")
"""What a single site's row leaves to the row of their mean."""
ALWAYS = ("epsilon", "auc_sd", "site")
TUNED = "lambda: best of {} in hindsight, not paid for"


@dataclass(frozen=True, slots=True)
class Measurement:
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


def measurements(benchmark: Benchmark) -> list[Measurement]:
    """Every row of a benchmark."""
    return [row for measured in benchmark.measured for row in _tested(list(_of_setting(measured)))]


HEADLINE = "C-hl"
"""Of several combiners, the one that the method is."""

Trial = tuple[str, str, float | None, tuple[tuple[str, Option], ...]]
"""preset, method, epsilon, and the options without lambda."""


def _of_setting(measured: MeasuredSetting) -> Iterable[Measurement]:
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


def _of_trial(
    setting: Setting, trial: Trial, outcomes: list[Outcome], by_lambda: dict[float, float]
) -> Iterable[Measurement]:
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
        yield Measurement(
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


def _tested(found: list[Measurement]) -> Iterable[Measurement]:
    """Rows with what a test says about them beside the best row of the same place."""
    places: dict[object, list[Measurement]] = defaultdict(list)
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
