"""Every benchmark, by data set: the papers' tables and figures as families of settings, for whatever data they are on.

A data set's module is loaded when its benchmark is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from crossward.errors import NotFound
from crossward_lab.bench.experiments import (
    AVERAGE,
    FEATURE,
    MONTH,
    PRINTED_NOISE,
    YEAR,
    ColdStart,
    OneSite,
    Partners,
    Sites,
    Stacking,
    States,
    Transfer,
)
from crossward_lab.bench.presets.default import DIRECTED
from crossward_lab.bench.settings import DEFAULT, PAPER, Setting

EPSILONS = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0)
"""The papers' 1/2 to 8, and the smaller ones that our rules are for."""

COLD_EPSILONS = (0.01, 0.1, 0.3, 1.0)
MANY_SITES_EPSILONS = (0.025, 0.05, 0.1, 0.15, 0.25)
GROUPS = (1, 2, 5, 10, 20, 50)
ALPHAS = (0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2)
SITES = (2, 5, 10, 20, 40)
PARTNERS = (5, 20, 53)

Preprocessing = tuple[tuple[str, str], ...]


def both(*methods: str) -> dict[str, tuple[str, ...]]:
    """The same methods under both presets."""
    return dict.fromkeys((PAPER, DEFAULT), methods)


def transfer(
    dataset: str,
    name: str,
    paper: tuple[str, str],
    draw: Callable[[int, str], Sites],
    *,
    epsilons: tuple[float, ...] = EPSILONS[2:],
    groups: tuple[int, ...] = GROUPS[:5],
    preprocessing: Preprocessing = (),
    directed: bool = True,
) -> list[Setting]:
    """002 (and 000 Table 2): by epsilon, and by K at epsilon 1."""
    common: dict[str, Any] = {"dataset": dataset, "draw": draw, "preprocessing": preprocessing, "parts": "site"}
    methods = both("Direct", "SourceD", "SimComb", "PST-H (U)", "PST-H (W)")
    if directed:
        methods[DEFAULT] += (f"SimComb{DIRECTED}",)
    return [
        Transfer(name=name, paper=paper[0], methods=methods, epsilons=epsilons, **common),
        Transfer(
            name=f"{name}, K",
            paper=paper[1],
            methods=both("PST-H (U)", "PST-H (W)"),
            epsilons=(1.0,),
            varies="K",
            values=groups,
            twins=False,
            **common,
        ),
    ]


def stacking(
    dataset: str,
    name: str,
    letters: tuple[str, str, str],
    draw: Callable[[int, str], OneSite],
    preprocessing: Preprocessing,
) -> list[Setting]:
    """000 Figures 1 to 3: by epsilon; by K, alpha and combiner at epsilon 1."""
    one: dict[str, Any] = {"dataset": dataset, "draw": draw, "preprocessing": preprocessing, "epsilons": (1.0,)}
    splits = both("PST-F (U)", "PST-F (W)")
    first, second, third = letters
    return [
        Stacking(
            name=name,
            paper=f"000 Figure 1{first}",
            methods=both("Direct", "PST-S", "PST-F (U)", "PST-F (W)"),
            **one | {"epsilons": EPSILONS[1:]},
        ),
        Stacking(
            name=f"{name}, K",
            paper=f"000 Figure 2{second}",
            methods=splits,
            varies="K",
            values=GROUPS,
            twins=False,
            **one,
        ),
        Stacking(
            name=f"{name}, alpha",
            paper=f"000 Figure 2{third}",
            methods={PAPER: ("PST-F (W)",)},
            varies="alpha",
            values=ALPHAS,
            twins=False,
            **one,
        ),
        Stacking(
            name=f"{name}, combiners",
            paper="000 Figure 3",
            methods=splits,
            parts="combiner",
            options=(("K", 5),),
            twins=False,
            **one,
        ),
    ]


def partners(
    dataset: str,
    name: str,
    letters: tuple[str, str, str],
    draw: Callable[[int, str], OneSite],
    Lambda: float,
    sizes: tuple[int, ...],
    preprocessing: Preprocessing = (),
) -> list[Setting]:
    """004 Figure 3: by epsilon; by records per site and by sites at epsilon 0.1.

    The paper's Lambda |f|^2 is (lambda/2)|f|^2 with lambda = 2 Lambda. It is printed, so nothing is tuned.
    """
    common: dict[str, Any] = {
        "dataset": dataset,
        "draw": draw,
        "methods": both(AVERAGE, FEATURE),
        "lambdas": (2 * Lambda,),
        "preprocessing": preprocessing,
    }
    by_epsilon, by_size, by_sites = letters
    varied: dict[str, Any] = {"epsilons": (0.1,), "twins": False}
    return [
        Partners(name=name, paper=f"004 Figure 3{by_epsilon}", epsilons=MANY_SITES_EPSILONS, **common),
        Partners(name=f"{name}, m", paper=f"004 Figure 3{by_size}", varies="m", values=sizes, **common | varied),
        Partners(name=f"{name}, N", paper=f"004 Figure 3{by_sites}", varies="N", values=SITES, **common | varied),
    ]


def cold_start(dataset: str, name: str, draw: Callable[[int], States]) -> list[Setting]:
    """003 Figures 2, 4 and 6: by epsilon, and by partners at epsilon 0.1."""
    common: dict[str, Any] = {"dataset": dataset, "draw": draw, "lambdas": (), "parts": "site", "twins": False}
    learners = ("DPPSGD", "AMP")
    boosted = tuple(f"boosted {learner}" for learner in learners)
    alone = tuple(f"alone {learner}" for learner in learners)
    return [
        ColdStart(
            name=name,
            paper="003 Figures 2 and 4",
            methods={
                PAPER: (*boosted, f"boosted {PRINTED_NOISE}", *alone),
                DEFAULT: (*boosted, "boosted PLR", *alone, "alone PLR"),
            },
            epsilons=COLD_EPSILONS,
            **common,
        ),
        ColdStart(
            name=f"{name}, baselines",
            paper="003 Figure 4",
            methods={PAPER: (f"alone {MONTH}", f"alone {YEAR}")},
            epsilons=(),
            **common | {"twins": True},
        ),
        ColdStart(
            name=f"{name}, partners",
            paper="003 Figure 6",
            methods={PAPER: boosted, DEFAULT: ("boosted PLR",)},
            epsilons=(0.1,),
            varies="partners",
            values=PARTNERS,
            **common,
        ),
    ]


COMPONENTS = ((PAPER, "private PCA as in the paper, not paid for"), (DEFAULT, "PCA of public records"))


def mnist() -> list[Setting]:
    """000 Figures 1 to 3 with digits 0 and 8; 002 Table 1 and Figure 4; 004 with digits 3 and 7."""
    from crossward_lab.bench.datasets.mnist import one_against_another, to_another_pair  # noqa: PLC0415

    zero_eight = one_against_another((0, 8), (3, 7), 100, 3000, 2000)
    to_nine = to_another_pair((0, 8), (0, 9), (3, 7), 100, (1600, 800))
    three_seven = one_against_another((3, 7), (0, 8, 9), 50, 8678, 3718)
    return [
        *transfer(
            "mnist",
            "0v8->0v9",
            ("002 Table 1, Figure 3a", "002 Figure 4"),
            to_nine,
            epsilons=EPSILONS,
            preprocessing=COMPONENTS,
            directed=False,
        ),
        *stacking("mnist", "0v8", ("a", "a", "c"), zero_eight, COMPONENTS),
        *partners("mnist", "3v7", ("a", "b", "c"), three_seven, 1e-2, (39, 100, 200, 400, 788), COMPONENTS),
    ]


def news20() -> list[Setting]:
    """000 Figures 1 to 3 with newsgroups."""
    from crossward_lab.bench.datasets.news20 import draw  # noqa: PLC0415

    return stacking("news20", "sci-talk", ("b", "b", "d"), draw, COMPONENTS)


def covertype() -> list[Setting]:
    """004 with forests."""
    from crossward_lab.bench.datasets.covertype import draw  # noqa: PLC0415

    return partners("covertype", "1v2", ("d", "e", "f"), draw, 1e-7, (3151, 7000, 14000, 22000, 31509))


def brfss() -> list[Setting]:
    """002 and 000 Table 2 with states for hospitals; 003 with states for partners."""
    from crossward_lab.bench.datasets.brfss import begin, draw  # noqa: PLC0415

    return [
        *transfer("brfss", "Washington->16", ("as 002 Tables 2 and 4", "as 002 Figure 4"), draw),
        *cold_start("brfss", "cold start", begin),
    ]


def ruijin() -> list[Setting]:
    """002 Tables 2 and 4, 000 Table 2, 002 Figure 4, on simulated hospitals."""
    from crossward_lab.bench.datasets.hospitals import draw_ruijin  # noqa: PLC0415

    return transfer("ruijin", "main->16", ("002 Tables 2 and 4, Figure 3b", "002 Figure 4"), draw_ruijin)


CATALOGUE: dict[str, Callable[[], list[Setting]]] = {
    "mnist": mnist,
    "news20": news20,
    "covertype": covertype,
    "brfss": brfss,
    "ruijin": ruijin,
}


@cache
def settings(dataset: str) -> tuple[Setting, ...]:
    """The settings of a data set."""
    if dataset not in CATALOGUE:
        raise NotFound(f"There is no benchmark {dataset!r}.", f"Choose one of {', '.join(CATALOGUE)}.")
    return tuple(CATALOGUE[dataset]())
