"""Every benchmark, by data set. A data set's module is loaded when its benchmark is asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from crossward.errors import NotFound
from crossward_lab.bench import families
from crossward_lab.bench.experiments.base import DEFAULT, PAPER, Setting

COMPONENTS = ((PAPER, "private PCA as in the paper, not paid for"), (DEFAULT, "PCA of public records"))


def mnist() -> list[Setting]:
    """000 Figures 1 to 3 with digits 0 and 8; 002 Table 1 and Figure 4; 004 with digits 3 and 7."""
    from crossward_lab.bench.datasets.mnist import one_against_another, to_another_pair  # noqa: PLC0415

    zero_eight = one_against_another((0, 8), (3, 7), 100, 3000, 2000)
    to_nine = to_another_pair((0, 8), (0, 9), (3, 7), 100, (1600, 800))
    three_seven = one_against_another((3, 7), (0, 8, 9), 50, 8678, 3718)
    return [
        *families.transfer(
            "mnist",
            "0v8->0v9",
            ("002 Table 1, Figure 3a", "002 Figure 4"),
            to_nine,
            epsilons=families.EPSILONS,
            preprocessing=COMPONENTS,
            directed=False,
        ),
        *families.stacking("mnist", "0v8", ("a", "a", "c"), zero_eight, COMPONENTS),
        *families.partners("mnist", "3v7", ("a", "b", "c"), three_seven, 1e-2, (39, 100, 200, 400, 788), COMPONENTS),
    ]


def news20() -> list[Setting]:
    """000 Figures 1 to 3 with newsgroups."""
    from crossward_lab.bench.datasets.news20 import draw  # noqa: PLC0415

    return families.stacking("news20", "sci-talk", ("b", "b", "d"), draw, COMPONENTS)


def covertype() -> list[Setting]:
    """004 with forests."""
    from crossward_lab.bench.datasets.covertype import draw  # noqa: PLC0415

    return families.partners("covertype", "1v2", ("d", "e", "f"), draw, 1e-7, (3151, 7000, 14000, 22000, 31509))


def brfss() -> list[Setting]:
    """002 and 000 Table 2 with states for hospitals; 003 with states for partners."""
    from crossward_lab.bench.datasets.brfss import begin, draw  # noqa: PLC0415

    return [
        *families.transfer("brfss", "Washington->16", ("as 002 Tables 2 and 4", "as 002 Figure 4"), draw),
        *families.cold_start("brfss", "cold start", begin),
    ]


def ruijin() -> list[Setting]:
    """002 Tables 2 and 4, 000 Table 2, 002 Figure 4, on simulated hospitals."""
    from crossward_lab.bench.datasets.ruijin import draw  # noqa: PLC0415

    return families.transfer("ruijin", "main->16", ("002 Tables 2 and 4, Figure 3b", "002 Figure 4"), draw)


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
