"""What `crossward plan` would have told the lead of a benchmark's study, beside what the benchmark measured.

The planner sees what a lead would write down: features, importances, record counts, the expected rate of positives and
the AUC that is reported without privacy. Everything else is its own assumption, the same for every study; none was
chosen to fit the sites that are measured (docs/planning.md says what is known of their origin).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from crossward.errors import InvalidSetting
from crossward.learning.encoding import Number, Schema
from crossward.planning import Assumptions, Forecast, Setting, forecast
from crossward.planning.power import Progress
from crossward_lab.simulate.hospitals import BRANCHES, MAIN, PREVALENCE, SCHEMA

DIRECTED = ", directed"
"""Ends the benchmark's name of a method that starts from declared directions."""


@dataclass(frozen=True, slots=True)
class ForecastCheck:
    """A method at an epsilon: the forecast, and the mean that was measured over targets and repeats."""

    forecast: Forecast
    measured: float

    @property
    def within(self) -> bool:
        """Whether the measured mean lies in the band."""
        return self.forecast.auc_low <= self.measured <= self.forecast.auc_high


def brfss() -> tuple[str, Setting]:
    """Washington helps 16 states cut to the sizes of the RUIJIN branches."""
    from crossward_lab.bench.datasets.brfss import PREVALENCE as rate  # noqa: PLC0415
    from crossward_lab.bench.datasets.brfss import SCHEMA as schema  # noqa: PLC0415

    assumed = Assumptions(positive_rate=rate, nonprivate_auc=0.81)
    return "Washington->16", Setting(schema, (MAIN,), BRANCHES, assumed)


def ruijin() -> tuple[str, Setting]:
    """The simulated main hospital helps its 16 branches."""
    assumed = Assumptions(positive_rate=PREVALENCE, nonprivate_auc=0.78)
    return "main->16", Setting(SCHEMA, (MAIN,), BRANCHES, assumed)


def mnist() -> tuple[str, Setting]:
    """0 against 8 helps 0 against 9: a hundred public components, as numbers with their variances for importance."""
    from crossward_lab.bench.datasets.mnist import to_another_pair  # noqa: PLC0415

    importance = to_another_pair((0, 8), (0, 9), (3, 7), 100, (1600, 800))(0, "default").public.importance
    columns = tuple(Number(f"component {k}", -1.0, 1.0, importance=value) for k, value in enumerate(importance))
    assumed = Assumptions(positive_rate=0.5, nonprivate_auc=0.995)
    return "0v8->0v9", Setting(Schema(columns), (2000,), (1000,), assumed)


SETTINGS: dict[str, Callable[[], tuple[str, Setting]]] = {"mnist": mnist, "brfss": brfss, "ruijin": ruijin}


def compare(
    dataset: str,
    measured: Sequence[Mapping[str, Any]],
    *,
    repeats: int = 16,
    workers: int = 1,
    progress: Progress = lambda done, total: None,
) -> list[ForecastCheck]:
    """Forecast every default row of the data set's transfer setting that was measured."""
    if dataset not in SETTINGS:
        raise InvalidSetting(f"{dataset} is no study that one would plan.", f"Compare {', '.join(SETTINGS)}.")
    name, setting = SETTINGS[dataset]()
    means = {
        (row["method"], row["epsilon"]): float(row["auc_mean"])
        for row in measured
        if (row["setting"], row["preset"], row["site"]) == (name, "default", None) and row["epsilon"] is not None
    }
    if not means:
        raise InvalidSetting(f"There is no default row of {name}.", f"Measure it: crossward bench {dataset} --json.")
    epsilons = sorted({epsilon for _, epsilon in means})
    silent = replace(setting, schema=without_directions(setting.schema))
    settings = {"": silent} | ({DIRECTED: setting} if any(setting.schema.directions) else {})
    found: list[ForecastCheck] = []
    for ending, planned in settings.items():
        names = {method for method, _ in means if method.endswith(DIRECTED) == bool(ending)}
        if not names:
            continue
        for row in forecast(planned, epsilons, repeats=repeats, workers=workers, progress=progress):
            told = replace(row, method=row.method + ending)
            if (told.method, told.epsilon) in means:
                found.append(ForecastCheck(told, means[told.method, told.epsilon]))
    return found


def without_directions(schema: Schema) -> Schema:
    """The same features, about whose effects nobody said a word."""
    return Schema(tuple(replace(feature, direction=None) for feature in schema.features))
