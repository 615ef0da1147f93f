"""BRFSS 2022, a telephone survey of adults in the United States: 54 states and territories as hospitals.

They are real people, real sites, and differ as sites do. The label is whether one was ever told to have diabetes.


The BRFSS survey as a diabetes study would declare it: features, ranges, importances, directions and prevalence.

Written down from textbook knowledge of type 2 diabetes, without a look at how any answer goes with the label: age,
obesity and poor health weigh most; then kidney, heart and vessel disease, ethnicity, inactivity, and the care that
people with it are advised to take (check-ups, vaccination against pneumonia). Ordered answers are numbers, since their
order is known. Importances are judgements on a scale of ten.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyarrow import csv

from crossward.learning.encoding import Category, Feature, Flag, Number, Schema
from crossward_lab.bench.datasets.files import places
from crossward_lab.bench.datasets.hospitals import SiteRecords, split
from crossward_lab.bench.experiments import Sites, Start, States
from crossward_lab.bench.public import Public
from crossward_lab.simulate.hospitals import BRANCHES

LABEL, POSITIVE = "HadDiabetes", "Yes"

PREVALENCE = 0.12
"""About one adult in eight in the United States has been told of diabetes."""

ORDERED: dict[str, tuple[tuple[str, ...], ...]] = {
    "GeneralHealth": (("Excellent",), ("Very good",), ("Good",), ("Fair",), ("Poor",)),
    "LastCheckupTime": (
        ("Within past year (anytime less than 12 months ago)",),
        ("Within past 2 years (1 year but less than 2 years ago)",),
        ("Within past 5 years (2 years but less than 5 years ago)",),
        ("5 or more years ago",),
    ),
    "RemovedTeeth": (("None of them",), ("1 to 5",), ("6 or more, but not all",), ("All",)),
    "SmokerStatus": (
        ("Never smoked",),
        ("Former smoker",),
        ("Current smoker - now smokes some days", "Current smoker - now smokes every day"),
    ),
}
"""Answers in their order: the number of an answer is its place."""

SET_BY: dict[str, tuple[str, ...]] = {
    "ECigaretteUsage": ("Use them every day", "Use them some days"),
    "TetanusLast10Tdap": (
        "Yes, received Tdap",
        "Yes, received tetanus shot but not sure what type",
        "Yes, received tetanus shot, but not Tdap",
    ),
    "CovidPos": ("Yes", "Tested positive using home test without a health professional"),
    "Sex": ("Male",),
}
"""Answers that set a flag, where it is not "Yes" alone."""

RACES = (
    "White only, Non-Hispanic",
    "Black only, Non-Hispanic",
    "Hispanic",
    "Multiracial, Non-Hispanic",
    "Other race only, Non-Hispanic",
)

FEATURES: tuple[Feature, ...] = (
    Number("AgeCategory", 0, 12, "five years from 18", importance=10, direction="up"),
    Number("BMI", 18, 42, "kg/m2", importance=10, direction="up"),
    Number("GeneralHealth", 0, 4, "excellent to poor", importance=9, direction="up"),
    Number("WeightInKilograms", 45, 130, "kg", importance=6, direction="up"),
    Category("RaceEthnicityCategory", RACES, importance=4),
    Flag("HadKidneyDisease", importance=5, direction="up"),
    Flag("PneumoVaxEver", importance=5, direction="up"),
    Flag("DifficultyWalking", importance=5, direction="up"),
    Flag("PhysicalActivities", importance=4, direction="down"),
    Flag("AlcoholDrinkers", importance=4, direction="down"),
    Flag("HadAngina", importance=4, direction="up"),
    Flag("HadHeartAttack", importance=4, direction="up"),
    Number("LastCheckupTime", 0, 3, "years, in four steps", importance=4, direction="down"),
    Number("RemovedTeeth", 0, 3, "none to all", importance=3, direction="up"),
    Flag("Sex", importance=3, direction="up"),
    Flag("HadStroke", importance=3, direction="up"),
    Flag("BlindOrVisionDifficulty", importance=3, direction="up"),
    Flag("FluVaxLast12", importance=3, direction="up"),
    Flag("HadArthritis", importance=2, direction="up"),
    Number("PhysicalHealthDays", 0, 30, "days of the last 30", importance=2, direction="up"),
    Number("SmokerStatus", 0, 2, "never to current", importance=1),
    Flag("ChestScan", importance=2, direction="up"),
    Flag("HadCOPD", importance=1, direction="up"),
    Flag("DifficultyDressingBathing", importance=1, direction="up"),
    Flag("DifficultyErrands", importance=1, direction="up"),
    Flag("HadDepressiveDisorder", importance=1),
    Flag("DeafOrHardOfHearing", importance=1, direction="up"),
    Number("SleepHours", 4, 10, "hours", importance=1),
    Number("HeightInMeters", 1.5, 1.95, "m", importance=1),
    Flag("HIVTesting", importance=1),
    Flag("DifficultyConcentrating", importance=0.5),
    Flag("HadAsthma", importance=0.5),
    Number("MentalHealthDays", 0, 30, "days of the last 30", importance=0.5),
    Flag("HadSkinCancer", importance=0.5),
    Flag("ECigaretteUsage", importance=0.5),
    Flag("TetanusLast10Tdap", importance=0.5),
    Flag("HighRiskLastYear", importance=0.5),
    Flag("CovidPos", importance=0.5),
)

SCHEMA = Schema(FEATURES)


def read_table(survey: Mapping[str, NDArray[Any]], codebook: Mapping[str, Sequence[str]]) -> dict[str, NDArray[Any]]:
    """The survey's columns, whose words are places in the codebook's lists, as the schema takes them."""
    table: dict[str, NDArray[Any]] = {}
    for feature in FEATURES:
        column, words = np.asarray(survey[feature.name]), codebook.get(feature.name)
        if words is None or feature.name == "AgeCategory":  # numbers; age groups are listed in their order already
            table[feature.name] = column
        elif isinstance(feature, Number):
            places = {word: place for place, alike in enumerate(ORDERED[feature.name]) for word in alike}
            table[feature.name] = np.array([places[word] for word in words])[column]
        elif isinstance(feature, Flag):
            table[feature.name] = np.isin(column, [words.index(w) for w in SET_BY.get(feature.name, ("Yes",))])
        else:
            table[feature.name] = np.array(words)[column]
    return table


def read_labels(survey: Mapping[str, NDArray[Any]], codebook: Mapping[str, Sequence[str]]) -> NDArray[np.float64]:
    """+1 for people who have been told that they have diabetes, -1 for all others."""
    return np.where(np.asarray(survey[LABEL]) == list(codebook[LABEL]).index(POSITIVE), 1.0, -1.0)


SOURCE = "Washington"
MONTH, FEWEST = 1 / 12, 120
"""003: a partner that has just begun has a month of records, the others a year. At epsilon 0.01 it takes a hundred."""


@cache
def _states() -> dict[str, SiteRecords]:
    """Every state's encoded records, the largest first."""
    survey_file, codebook_file = places("brfss")
    codebook = json.loads(codebook_file.read_text())
    with gzip.open(survey_file) as lines:
        table = csv.read_csv(lines)
    survey = {name: table[name].to_numpy() for name in table.column_names}
    X, y = SCHEMA.encode(read_table(survey, codebook)), read_labels(survey, codebook)
    found = {}
    for number in np.argsort(-np.bincount(survey["State"]), kind="stable"):
        here = survey["State"] == number
        name = codebook["State"][number]
        found[name] = (name, X[here], y[here])
    return found


@cache
def public() -> Public:
    """What the schema declares."""
    return Public.of_schema(SCHEMA, PREVALENCE)


@lru_cache(maxsize=2)
def draw(repeat: int, preset: str) -> Sites:
    """Washington and the 16 next largest states, cut to the sizes of RUIJIN."""
    states = _states()
    targets = [site for name, site in states.items() if name != SOURCE][: len(BRANCHES)]
    return split(public(), states[SOURCE], targets, repeat, by_rank=True)


@lru_cache(maxsize=1)
def begin(repeat: int) -> States:
    """003: every state a partner with a year's records, of which a beginner has seen a month."""
    found = []
    for i, (name, X, y) in enumerate(_states().values()):
        order = np.random.default_rng([repeat, 2, i]).permutation(len(y))
        cut = round(0.8 * len(y))
        train, test = order[:cut], order[cut:]
        cold = train[: max(FEWEST, round(MONTH * cut))]
        found.append(Start(name, X[train], y[train], X[cold], y[cold], X[test], y[test]))
    return States(public(), tuple(found))
