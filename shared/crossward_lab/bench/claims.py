"""Looking up what was measured, and comparing it: paired over repeats, at 5 %.

What our defaults are meant to reach: goals that were set before the rules were written, and comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from crossward_lab.bench.measurements import LEVEL, Measurement, paired_test
from crossward_lab.bench.settings import DEFAULT, PAPER, Option
from crossward_lab.bench.tables import heading

HELD, IN_PART, NOT_HELD = "held", "in part", "did not hold"


class NotMeasuredError(Exception):
    """A claim is about rows that are not there: only part of the benchmarks was run."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A statement, whether it held, the numbers that say so, and why where it did not."""

    source: str
    statement: str
    outcome: str
    numbers: str
    why: str = ""


class Results:
    """Rows by what they are about."""

    def __init__(self, found: Iterable[Measurement]) -> None:
        self.rows = list(found)

    def row(
        self,
        dataset: str,
        setting: str,
        method: str,
        preset: str,
        epsilon: float | None,
        *,
        combiner: str | None = None,
        site: str | None = None,
        **options: Option,
    ) -> Measurement:
        """The one row about this."""
        wanted = (dataset, setting, method, preset, epsilon, combiner, site)
        for row in self.rows:
            here = (row.dataset, row.setting, row.method, row.preset, row.epsilon, row.combiner, row.site)
            if here == wanted and options.items() <= row.options.items():
                return row
        raise NotMeasuredError(f"{wanted} {options}")

    def of(self, dataset: str, setting: str, **wanted: object) -> list[Measurement]:
        """All result rows of a setting with these values."""
        found = [
            row
            for row in self.rows
            if (row.dataset, row.setting) == (dataset, setting)
            and all(getattr(row, name) == value for name, value in ({"site": None} | wanted).items())
        ]
        if not found:
            raise NotMeasuredError(f"{dataset} {setting}")
        return found

    def measured(self, places: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Those of several settings that were measured."""
        found = {(row.dataset, row.setting) for row in self.rows}
        return [place for place in places if place in found]

    def epsilons(self, dataset: str, setting: str) -> list[float]:
        """The epsilons that both presets were measured at."""
        both = [
            {row.epsilon for row in self.of(dataset, setting, preset=preset) if row.epsilon is not None}
            for preset in (PAPER, DEFAULT)
        ]
        return sorted(both[0] & both[1])


def better(first: Measurement, second: Measurement) -> bool:
    """Whether the first is better, beyond chance."""
    return first.auc_mean > second.auc_mean and paired_test(first.aucs, second.aucs) < LEVEL


def worse(first: Measurement, second: Measurement) -> bool:
    """Whether the first is worse, beyond chance."""
    return better(second, first)


def counted(source: str, statement: str, checks: dict[str, bool], numbers: str, why: str = "") -> Verdict:
    """A verdict on several checks: held if all did, in part if some did."""
    held = [name for name, right in checks.items() if right]
    if len(held) == len(checks):
        return Verdict(source, statement, HELD, numbers)
    outcome = IN_PART if held else NOT_HELD
    missed = ", ".join(name for name in checks if name not in held)
    return Verdict(source, statement, outcome, f"{numbers} (not: {missed})" if held else numbers, why)


def checked(claims: Iterable[Callable[[Results], Iterator[Verdict]]], found: list[Measurement]) -> list[Verdict]:
    """The verdicts of all claims whose rows are there."""
    results, verdicts = Results(found), []
    for claim in claims:
        try:
            verdicts += list(claim(results))
        except NotMeasuredError:
            continue
    return verdicts


def show(row: Measurement) -> str:
    """.983 ±.004."""
    spread = "" if row.auc_sd is None else f" ±{row.auc_sd:.3f}".replace("±0", "±")
    return f"{row.auc_mean:.3f}".lstrip("0") + spread


def mean(row: Measurement) -> str:
    """.983."""
    return f"{row.auc_mean:.3f}".lstrip("0")


def eps(epsilon: float) -> str:
    """1/32."""
    return heading(epsilon, "epsilon")


RECOMMENDED = "SimComb"
"""What our rules recommend where there is a source."""

MNIST_GOALS = {1 / 32: 0.90, 1 / 16: 0.95, 1 / 8: 0.98, 1 / 4: 0.989, 1.0: 0.992}
BRFSS_GOALS = {1 / 4: 0.78, 1.0: 0.805}
TRANSFER = (("mnist", "0v8->0v9"), ("brfss", "Washington->16"), ("ruijin", "main->16"))
STACKING = (("mnist", "0v8"), ("news20", "sci-talk"))


def _goals(dataset: str, setting: str, goals: dict[float, float], results: Results) -> Verdict:
    rows = {e: results.row(dataset, setting, RECOMMENDED, DEFAULT, e) for e in goals}
    twin = results.row(dataset, setting, RECOMMENDED, DEFAULT, None)
    return counted(
        "goal",
        f"{dataset}: {RECOMMENDED} by our rules reaches "
        + ", ".join(f"{goal:g} at ε = {eps(e)}" for e, goal in goals.items()),
        {f"ε = {eps(e)}": row.auc_mean >= goals[e] for e, row in rows.items()},
        ", ".join(f"{eps(e)}: {show(row)}" for e, row in rows.items()) + f"; non-private {mean(twin)}",
        f"The same method without noise has {mean(twin)}: what is missing beyond that is noise, and its source's.",
    )


def _reach_on_digits(results: Results) -> Iterator[Verdict]:
    yield _goals("mnist", "0v8->0v9", MNIST_GOALS, results)


def _reach_on_states(results: Results) -> Iterator[Verdict]:
    yield _goals("brfss", "Washington->16", BRFSS_GOALS, results)


def _no_harm(results: Results) -> Iterator[Verdict]:
    for dataset, setting in results.measured(TRANSFER[1:]):
        rows = [row for row in results.rows if (row.dataset, row.setting, row.epsilon) == (dataset, setting, 1.0)]
        own = {row.site: row for row in rows if (row.method, row.preset) == ("Direct", DEFAULT) and row.site}
        helped = {row.site: row for row in rows if (row.method, row.preset) == (RECOMMENDED, DEFAULT) and row.site}
        gains = {site: helped[site].auc_mean - own[site].auc_mean for site in own}
        if gains:
            least = min(gains, key=lambda site: gains[site])
            yield counted(
                "goal",
                f"{dataset}, ε = 1: no target does worse with the source than alone by more than .01",
                {str(site): gain >= -0.01 for site, gain in gains.items()},
                f"from {min(gains.values()):+.3f} ({least}) to {max(gains.values()):+.3f}, "
                f"mean {sum(gains.values()) / len(gains):+.3f}",
                "These sites differ from the source by more than noise hides.",
            )


def _printed(results: Results) -> Iterator[Verdict]:
    printed: dict[float, float] = {}
    for row in results.of("mnist", "0v8->0v9", preset=PAPER):
        if row.paper_auc is not None and row.epsilon is not None:
            printed[row.epsilon] = max(printed.get(row.epsilon, 0.0), row.paper_auc)
    ours = {
        row.epsilon: row.auc_mean
        for row in results.of("mnist", "0v8->0v9", preset=DEFAULT, method=RECOMMENDED)
        if row.epsilon is not None
    }
    first = {e: min((o for o in ours if ours[o] >= auc), default=None) for e, auc in printed.items()}
    yield counted(
        "goal",
        "mnist: the best printed AUC at each ε is reached at a fraction of that ε",
        {f"ε = {eps(e)}": o is not None and o < e for e, o in first.items()},
        "; ".join(
            f"{auc:.4f} printed at {eps(e)}, here at "
            + (f"{eps(o)} ({e / o:.0f} times less)" if (o := first[e]) is not None else "no ε up to 8")
            for e, auc in sorted(printed.items())
        ),
        "The public components of other digits cost a little accuracy that no budget brings back.",
    )


def _same_method(results: Results) -> Iterator[Verdict]:
    for places, method in ((TRANSFER, "PST-H (W)"), (STACKING, "PST-F (W)")):
        for dataset, setting in results.measured(places):
            pairs = {
                e: (
                    results.row(dataset, setting, method, DEFAULT, e),
                    results.row(dataset, setting, method, PAPER, e),
                )
                for e in results.epsilons(dataset, setting)
                if e <= 2
            }
            yield counted(
                "goal",
                f"{dataset}: {method} with our scores and settings beats {method} as printed, at every ε up to 2",
                {f"ε = {eps(e)}": better(ours, theirs) for e, (ours, theirs) in pairs.items()},
                ", ".join(f"{eps(e)}: {mean(ours)} against {mean(theirs)}" for e, (ours, theirs) in pairs.items()),
                "Where both are near the non-private limit, the papers' λ in hindsight and private components leave "
                "nothing to win.",
            )


def _level_one(results: Results) -> Iterator[Verdict]:
    for dataset, setting in results.measured(STACKING):
        checks, numbers = {}, []
        for method in ("PST-F (U)", "PST-F (W)"):
            rows = {
                row.combiner: row for row in results.of(dataset, f"{setting}, combiners", preset=DEFAULT, method=method)
            }
            groups = [row for part, row in rows.items() if part and part[2:].isdigit()]
            best = max(groups, key=lambda row: row.auc_mean)
            checks[method] = not worse(rows["C-hl"], best)
            numbers.append(f"{method}: C-hl {show(rows['C-hl'])}, best group {best.combiner} {show(best)}")
        yield counted(
            "goal",
            f"{dataset}: level-1 (C-hl) at least equals the best single group",
            checks,
            "; ".join(numbers),
            "Five groups by force: the later ones carry noise that level-1, itself noisy, cannot quite ignore.",
        )


CLAIMS = (_reach_on_digits, _reach_on_states, _printed, _no_harm, _same_method, _level_one)


def our_claims(found: list[Measurement]) -> list[Verdict]:
    """Every goal whose rows were measured."""
    return checked(CLAIMS, found)
