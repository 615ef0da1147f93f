"""What the papers conclude, checked on the methods as printed (`paper` preset: private, lambda best in hindsight)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from crossward_lab.bench.claims import (
    HELD,
    NOT_HELD,
    Results,
    Verdict,
    better,
    checked,
    counted,
    eps,
    mean,
    show,
    worse,
)
from crossward_lab.bench.measurements import Measurement
from crossward_lab.bench.settings import PAPER

ONE_SITE = (("mnist", "0v8"), ("news20", "sci-talk"))
TRANSFER = (("mnist", "0v8->0v9"), ("brfss", "Washington->16"), ("ruijin", "main->16"))
MANY = (("mnist", "3v7"), ("covertype", "1v2"))


def _least_lambda(row: Measurement) -> str:
    """The AUC at the smallest lambda that was tried."""
    found = row.by_lambda or {}
    return f"{found[min(found, key=float)]:.3f}".lstrip("0") if found else "-"


def _stacking(results: Results) -> Iterator[Verdict]:
    for dataset, setting in results.measured(ONE_SITE):
        rows = {m: results.row(dataset, setting, m, PAPER, 1.0) for m in ("Direct", "PST-S", "PST-F (U)", "PST-F (W)")}
        numbers = f"{dataset}, ε = 1: " + ", ".join(f"{method} {show(row)}" for method, row in rows.items())
        why = (
            f"With its best λ Direct reaches {mean(rows['Direct'])} on all records, while stacking spends half of "
            "them on level-1. At λ = .001, where noise is largest, PST-F (W) has "
            f"{_least_lambda(rows['PST-F (W)'])} and Direct {_least_lambda(rows['Direct'])}."
        )
        yield counted(
            "000 Figure 1",
            f"{dataset}: cutting records (PST-S) does worse than not cutting (PLR)",
            {"ε = 1": worse(rows["PST-S"], rows["Direct"])},
            numbers,
        )
        yield counted(
            "000 Figure 1",
            f"{dataset}: cutting features, PST-F (U) and PST-F (W), does better than PLR",
            {m: better(rows[m], rows["Direct"]) for m in ("PST-F (U)", "PST-F (W)")},
            numbers,
            why,
        )
        yield counted(
            "000 Figure 1",
            f"{dataset}: importance helps, PST-F (W) does better than PST-F (U)",
            {"ε = 1": better(rows["PST-F (W)"], rows["PST-F (U)"])},
            numbers,
        )


def _groups(results: Results) -> Iterator[Verdict]:
    for dataset, setting in results.measured(ONE_SITE):
        for method in ("PST-F (U)", "PST-F (W)"):
            rows = {
                int(row.options["K"]): row for row in results.of(dataset, f"{setting}, K", preset=PAPER, method=method)
            }
            best = max(rows, key=lambda k: rows[k].auc_mean)
            least, most = rows[min(rows)], rows[max(rows)]
            middle = {"better than one group": better(rows[best], least), "than fifty": better(rows[best], most)}
            yield counted(
                "000 Figure 2",
                f"{dataset}: {method} is best with a middling K",
                middle,
                f"best at K = {best} ({show(rows[best])}); K = {min(rows)}: {show(least)}, "
                f"K = {max(rows)}: {show(most)}",
                "Each group is scaled by its share q, so more groups do not mean less noise; many groups lose what "
                "features tell together.",
            )


def _alpha(results: Results) -> Iterator[Verdict]:
    for dataset, setting in results.measured(ONE_SITE):
        rows = {float(row.options["alpha"]): row for row in results.of(dataset, f"{setting}, alpha", preset=PAPER)}
        right = [row for alpha, row in rows.items() if alpha < 1]
        wrong = [row for alpha, row in rows.items() if alpha > 1]
        low, high = min(r.auc_mean for r in right), max(r.auc_mean for r in right)
        yield counted(
            "000 Figure 2",
            f"{dataset}: importance in the right order (alpha < 1) helps, in the wrong order (alpha > 1) it harms, and "
            "its exact values matter little",
            {
                "right before wrong": min(r.auc_mean for r in right) > max(r.auc_mean for r in wrong),
                "values matter little": high - low < 0.03,
            },
            f"alpha < 1: {low:.3f} to {high:.3f}; alpha > 1: at most {max(r.auc_mean for r in wrong):.3f}",
        )


def _combiners(results: Results) -> Iterator[Verdict]:
    for dataset, setting in results.measured(ONE_SITE):
        name = f"{setting}, combiners"
        rows = {row.combiner: row for row in results.of(dataset, name, preset=PAPER, method="PST-F (W)")}
        single = max((rows[f"C-{k}"] for k in range(5) if f"C-{k}" in rows), key=lambda row: row.auc_mean)
        yield counted(
            "000 Figure 3",
            f"{dataset}: of PST-F (W)'s groups the first is best, and level-1 (C-hl) beats every group and every vote",
            {
                "C-0 first": single.combiner == "C-0",
                "C-hl before the best group": better(rows["C-hl"], single),
                "C-hl before votes": better(rows["C-hl"], rows["C-mv"]) and better(rows["C-hl"], rows["C-wmv"]),
            },
            ", ".join(f"{part} {mean(rows[part])}" for part in sorted(rows, key=str)),
            "With importance as unequal as this the other groups carry next to nothing but noise: level-1 can equal "
            "the first group and hardly beat it.",
        )


def _order(results: Results) -> Iterator[Verdict]:
    for dataset, setting in results.measured(TRANSFER):
        for epsilon in (0.5, 1.0):
            rows = {
                m: results.row(dataset, setting, m, PAPER, epsilon)
                for m in ("PST-H (W)", "PST-H (U)", "SimComb", "Direct")
            }
            names = list(rows)
            pairs = {f"{a} before {b}": better(rows[a], rows[b]) for a, b in pairwise(names)}
            yield counted(
                "002 Tables 1, 2 and 4",
                f"{dataset}, ε = {eps(epsilon)}: PST-H (W), then PST-H (U), then SimComb, then Direct",
                pairs,
                ", ".join(f"{m} {show(row)} (λ = .001: {_least_lambda(row)})" for m, row in rows.items()),
                "Sigmoid scores lie close together, with rare positives all on one side, and level-1 has no intercept: "
                "its noise turns them around. One model with a larger λ has no such step."
                if dataset != "mnist"
                else "A stack learns its groups from half of the target's records and weighs them by noisy level-1 "
                "weights; one model uses all of them.",
            )


def _printed(results: Results) -> Iterator[Verdict]:
    rows = [row for row in results.of("mnist", "0v8->0v9", preset=PAPER) if row.paper_auc is not None]
    above = [row for row in rows if row.auc_mean >= (row.paper_auc or 0) - (row.paper_sd or 0)]
    yield counted(
        "002 Table 1",
        "The printed methods, made private, reach the printed AUCs (each within one deviation, or above)",
        {f"{row.method} at {eps(row.epsilon or 0)}": row in above for row in rows},
        f"{len(above)} of {len(rows)} cells",
        "Below: "
        + ", ".join(f"{r.method} at {eps(r.epsilon or 0)}, {mean(r)} for {r.paper_auc}" for r in rows if r not in above)
        + ".",
    )


def _cold_start(results: Results) -> Iterator[Verdict]:
    base = results.row("brfss", "cold start, baselines", "alone a month, not private", PAPER, None)
    for learner, printed in (("DPPSGD", 9.72), ("AMP", 4.85)):
        rows = {e: results.row("brfss", "cold start", f"boosted {learner}", PAPER, e) for e in (0.01, 1.0)}
        lifts = {e: 100 * (row.auc_mean / base.auc_mean - 1) for e, row in rows.items()}
        single = results.row("brfss", "cold start", f"alone {learner}", PAPER, 0.01)
        why = (
            f"At ε = .01 a private model is noise (alone: {mean(single)}), and boosting fifty of them on a month of "
            "one's own records only finds what those records say."
        )
        if learner == "DPPSGD":
            leaky = results.row("brfss", "cold start", "boosted DPPSGD, printed noise", PAPER, 0.01)
            why += f" With the paper's noise, divided by the batch size and not private, it is {mean(leaky)}."
        yield counted(
            "003 Figure 4",
            f"Boosting partners' {learner} models at ε = .01 lifts a newcomer above its own non-private model "
            f"(+{printed} %)",
            {"ε = .01": better(rows[0.01], base)},
            f"alone, a month, not private {show(base)}; boosted at ε = .01 {show(rows[0.01])} ({lifts[0.01]:+.1f} %), "
            f"at ε = 1 {show(rows[1.0])} ({lifts[1.0]:+.1f} %)",
            why,
        )
    pairs = {
        e: [results.row("brfss", "cold start", f"alone {learner}", PAPER, e) for learner in ("DPPSGD", "AMP")]
        for e in (0.01, 0.1, 1.0)
    }
    yield counted(
        "003 Figure 2",
        "DPPSGD alone does better than AMP alone",
        {f"ε = {e:g}": better(*pair) for e, pair in pairs.items()},
        ", ".join(f"ε = {e:g}: {show(a)} against {show(b)}" for e, (a, b) in pairs.items()),
        "Its noise is here 16 times what the paper adds: the batch size, by which it must not be divided.",
    )


def _feature_method(results: Results) -> Iterator[Verdict]:
    for dataset, setting in results.measured(MANY):
        epsilons = results.epsilons(dataset, setting)
        pairs = {
            e: (
                results.row(dataset, setting, "feature method", PAPER, e),
                results.row(dataset, setting, "average", PAPER, e),
            )
            for e in epsilons
        }
        yield counted(
            "004 Figure 3",
            f"{dataset}: with private sites the feature method does better than the average",
            {f"ε = {e:g}": better(*pair) for e, pair in pairs.items()},
            ", ".join(f"ε = {e:g}: {mean(f)} against {mean(a)}" for e, (f, a) in pairs.items()),
        )


def _alike_sites(results: Results) -> Iterator[Verdict]:
    twin = [results.row("mnist", "3v7", m, PAPER, None) for m in ("feature method", "average")]
    near = abs(twin[0].auc_mean - twin[1].auc_mean) < 0.005
    yield Verdict(
        "004 Figure 1",
        "mnist: without privacy the two are nearly equivalent",
        HELD if near else NOT_HELD,
        f"{show(twin[0])} against {show(twin[1])}",
    )


def _unlike_sites(results: Results) -> Iterator[Verdict]:
    twin = [results.row("covertype", "1v2", m, PAPER, None) for m in ("feature method", "average")]
    yield Verdict(
        "004 Figure 2",
        "covertype: without privacy the feature method does better",
        HELD if better(*twin) and twin[0].auc_mean - twin[1].auc_mean > 0.002 else NOT_HELD,
        f"AUC {show(twin[0])} against {show(twin[1])}, error {twin[0].error_mean:.3f} against {twin[1].error_mean:.3f}",
        "Ten sites with 31,509 alike records each learn nearly the same model: there is nothing to weigh.",
    )


CLAIMS = (
    _stacking,
    _groups,
    _alpha,
    _combiners,
    _order,
    _printed,
    _cold_start,
    _feature_method,
    _alike_sites,
    _unlike_sites,
)


def paper_claims(found: list[Measurement]) -> list[Verdict]:
    """Every conclusion of the papers whose rows were measured."""
    return checked(CLAIMS, found)
