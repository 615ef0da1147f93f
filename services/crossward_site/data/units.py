"""From one unit to another: study = factor * local + offset; and the unit that a value out of range looks like.

Units of one kind convert by their sizes. Mass and substance concentrations convert by molar mass, so those need the
substance. Anything not listed is written in the mapping as factor and offset.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crossward.errors import InvalidSetting
from crossward.privacy.noise import Array


class Way(NamedTuple):
    """How a column may be written: in a unit and, where that decides the conversion, of a substance."""

    unit: str
    substance: str = ""


class Conversion(NamedTuple):
    """study = factor * local + offset."""

    factor: float
    offset: float

    def of(self, values: Array) -> Array:
        """The values in the study's unit; what is too large for a float is infinite."""
        if self == (1.0, 0.0):
            return values
        with np.errstate(over="ignore"):
            return self.factor * values + self.offset


# Each kind of quantity by its units' sizes. What people confuse most comes first: that is what a value looks like.
_SIZES: tuple[dict[str, float], ...] = (
    {"mg/dl": 1e-2, "g/l": 1.0, "g/dl": 10.0, "mg/l": 1e-3, "ug/l": 1e-6, "ug/dl": 1e-5, "ng/dl": 1e-8}
    | {"mg/ml": 1.0, "ug/ml": 1e-3, "ng/ml": 1e-6, "pg/ml": 1e-9, "ng/l": 1e-9, "g/ml": 1e3},
    {"mmol/l": 1.0, "umol/l": 1e-3, "nmol/l": 1e-6, "pmol/l": 1e-9, "mol/l": 1e3},
    {"cm": 0.01, "m": 1.0, "in": 0.0254, "ft": 0.3048, "mm": 0.001},
    {"kg": 1.0, "lb": 0.45359237, "g": 1e-3, "mg": 1e-6, "ug": 1e-9, "oz": 0.028349523125, "st": 6.35029318},
    {"mmhg": 1.0, "kpa": 7.500617, "cmhg": 10.0, "cmh2o": 0.735559, "bar": 750.0617},
    {"years": 1.0, "months": 1 / 12, "weeks": 7 / 365.25, "days": 1 / 365.25},
    {"h": 1.0, "min": 1 / 60, "s": 1 / 3600},
    {"%": 1.0, "fraction": 100.0},
    {"l": 1.0, "dl": 0.1, "ml": 1e-3},
    {"10*9/l": 1.0, "10*6/l": 1e-3, "/ul": 1e-3, "10*12/l": 1e3},
    {"iu/l": 1.0, "ukat/l": 60.0, "iu/ml": 1e3, "miu/ml": 1.0, "miu/l": 1e-3},
)
_CURVES: dict[tuple[str, str], Conversion] = {
    ("f", "c"): Conversion(5 / 9, -160 / 9),
    ("k", "c"): Conversion(1.0, -273.15),
    ("k", "f"): Conversion(9 / 5, -459.67),
    ("mmol/mol", "%"): Conversion(0.09148, 2.152),  # HbA1c, IFCC to NGSP
}
_MASS, _SUBSTANCE = _SIZES[0], _SIZES[1]
_GRAMS_PER_MMOL = {
    "glucose": 0.18016,
    "cholesterol": 0.3867,
    "triglycerides": 0.8857,
    "urea": 0.06006,
    "creatinine": 10 / 88.42,
    "bilirubin": 10 / 17.10,
    "uric acid": 10 / 59.48,
}
SUBSTANCES = tuple(_GRAMS_PER_MMOL)
"""Those whose molar mass is known."""

_UREA_NITROGEN = "urea nitrogen"
"""What American laboratories report for urea: less than half of its mass, so urea's conversion is wrong for it."""
_ALIASES = {
    "glucose": ("glucose", "glu", "gluc", "glukose", "glucosa", "blutzucker", "bz"),
    "cholesterol": ("cholesterol", "cholesterin", "chol", "ldl", "ldlc", "hdl", "hdlc", "tc"),
    "triglycerides": ("triglyceride", "triglyzerid", "trig", "tg"),
    "urea": ("urea", "ureum", "harnstoff"),
    _UREA_NITROGEN: ("bun",),
    "creatinine": ("creatinin", "kreatinin", "crea", "krea", "creat", "cr"),
    "bilirubin": ("bilirubin", "bili", "tbil", "dbil"),
    "uric acid": ("uric", "urate", "urat", "harnsäure", "harnsaeure", "ua"),
}
_SURE = 5
"""Aliases of so many letters are known at the beginning of a longer word too."""

_CHARACTERS = {"µ": "u", "μ": "u", "°": "", "²": "2", "^": "", " ": ""}
_SPELLINGS = {  # UCUM's, and people's
    "[degf]": "f", "degf": "f", "cel": "c", "degc": "c", "mm[hg]": "mmhg", "torr": "mmhg", "cm[h2o]": "cmh2o",
    "[in_i]": "in", "[in_us]": "in", "inch": "in", "inches": "in", '"': "in", "[ft_i]": "ft", "feet": "ft",
    "[lb_av]": "lb", "lbs": "lb", "pounds": "lb", "[oz_av]": "oz", "[stone_av]": "st", "stone": "st",
    "a": "years", "y": "years", "yr": "years", "yrs": "years", "year": "years", "mo": "months", "month": "months",
    "wk": "weeks", "week": "weeks", "d": "days", "day": "days", "hours": "h", "hr": "h", "percent": "%",
    "mcg": "ug", "mcg/l": "ug/l", "mcg/dl": "ug/dl", "mcg/ml": "ug/ml", "mg%": "mg/dl", "gm/dl": "g/dl",
    "1": "fraction", "109/l": "10*9/l", "g/nl": "10*9/l", "/nl": "10*9/l", "10*3/ul": "10*9/l",
    "103/ul": "10*9/l", "106/ul": "10*12/l", "10*6/ul": "10*12/l", "1012/l": "10*12/l", "/pl": "10*12/l",
    "cells/ul": "/ul", "[iu]/l": "iu/l", "u/l": "iu/l", "[iu]/ml": "iu/ml", "m[iu]/l": "miu/l", "uiu/ml": "miu/l",
    "u[iu]/ml": "miu/l", "m[iu]/ml": "miu/ml", "cm[hg]": "cmhg",
}  # fmt: skip
_SHOWN = {
    "mg/dl": "mg/dL", "g/l": "g/L", "g/dl": "g/dL", "mg/l": "mg/L", "ug/l": "ug/L", "ug/dl": "ug/dL", "ng/dl": "ng/dL",
    "mg/ml": "mg/mL", "ug/ml": "ug/mL", "ng/ml": "ng/mL", "pg/ml": "pg/mL", "ng/l": "ng/L", "g/ml": "g/mL",
    "mmol/l": "mmol/L", "umol/l": "umol/L", "nmol/l": "nmol/L", "pmol/l": "pmol/L", "mol/l": "mol/L", "mmhg": "mmHg",
    "kpa": "kPa", "cmhg": "cmHg", "cmh2o": "cmH2O", "f": "°F", "c": "°C", "k": "K", "l": "L", "dl": "dL", "ml": "mL",
    "10*9/l": "10*9/L", "10*6/l": "10*6/L", "/ul": "/uL", "10*12/l": "10*12/L", "iu/l": "IU/L", "ukat/l": "ukat/L",
    "iu/ml": "IU/mL", "miu/ml": "mIU/mL", "miu/l": "mIU/L",
}  # fmt: skip


def conversion(feature: str, local: str, wanted: str, substance: str = "") -> Conversion:
    """(factor, offset) from the local unit to the study's."""
    start, end = spelled(local), spelled(wanted)
    known = _known(start, end, substance.strip().lower())
    if known is None:
        raise InvalidSetting(
            f"{feature!r} comes in {local!r}, the study has it in {wanted!r}, and no conversion is known"
            f"{f' for {substance}' if substance else ''}.",
            f"Name the substance ({', '.join(_GRAMS_PER_MMOL)}), or give factor and offset.",
        )
    return known


def named_substances(*names: str) -> tuple[str, ...]:
    """The substances that names of features or columns tell, by a public list: Glu0, LDL, s_krea, Harnsäure (mg/dL)."""
    words = {word for name in names for word in _words(name)}
    return tuple(
        substance
        for substance, aliases in _ALIASES.items()
        if any(word == alias or (len(alias) >= _SURE and word.startswith(alias)) for word in words for alias in aliases)
    )


def _words(name: str) -> set[str]:
    """The words of a name, cut at marks and digits, and there as well where a capital follows a small letter."""
    return {
        word.casefold()
        for text in (name, re.sub(r"([a-zäöü])([A-ZÄÖÜ])", r"\1 \2", name))
        for word in re.split(r"[\W\d_]+", text)
        if word
    }


def spelled(unit: str) -> str:
    """A unit in the one spelling that is known here; `{notes}` of UCUM are left out."""
    text = re.sub(r"\{[^}]*\}", "", unit.strip().lower())
    for odd, plain in _CHARACTERS.items():
        text = text.replace(odd, plain)
    return _SPELLINGS.get(text, text)


def _known(start: str, end: str, substance: str) -> Conversion | None:
    if start == end:
        return Conversion(1.0, 0.0)
    if curve := _CURVES.get((start, end)):
        return curve
    if curve := _CURVES.get((end, start)):
        return Conversion(1 / curve.factor, -curve.offset / curve.factor)
    for sizes in (*_SIZES, _grams(_GRAMS_PER_MMOL.get(substance))):
        if start in sizes and end in sizes:
            return Conversion(sizes[start] / sizes[end], 0.0)
    return None


def _grams(per_mmol: float | None) -> dict[str, float]:
    """The sizes of both kinds of concentration of a substance, in g/L."""
    return {} if per_mmol is None else _MASS | {unit: size * per_mmol for unit, size in _SUBSTANCE.items()}


# -- what a value looks like ------------------------------------------------------------------------------------------
# What people take for one another. Any known unit would explain almost any value: nobody gives pg/mL for g/L.
_CONFUSED = (
    ("mg/dl", "mmol/l"), ("mg/dl", "umol/l"), ("umol/l", "mmol/l"), ("mg/dl", "mg/l"), ("g/l", "g/dl"),
    ("mg/dl", "g/l"), ("mg/dl", "g/dl"), ("f", "c"), ("k", "c"), ("mmol/mol", "%"), ("fraction", "%"), ("cm", "m"),
    ("in", "cm"), ("in", "m"), ("ft", "m"), ("mm", "cm"), ("mm", "m"), ("lb", "kg"), ("g", "kg"), ("mg", "g"),
    ("kpa", "mmhg"), ("cmhg", "mmhg"), ("months", "years"), ("days", "years"), ("/ul", "10*9/l"), ("ukat/l", "iu/l"),
    ("miu/l", "iu/l"), ("min", "h"),
)  # fmt: skip


@lru_cache(maxsize=256)
def ways_to(unit: str) -> tuple[tuple[str, Conversion], ...]:
    """Every unit that is taken for this one, with its conversion; one with several substances comes several times."""
    end = spelled(unit)
    return tuple((_SHOWN.get(start, start), way) for start in _confused_with(end) for way in _ways(start, end))


def _confused_with(end: str) -> list[str]:
    return [one if other == end else other for one, other in _CONFUSED if end in (one, other)]


def _ways(start: str, end: str) -> list[Conversion]:
    ways = {_known(start, end, substance) for substance in ("", *_GRAMS_PER_MMOL)}
    return sorted(way for way in ways if way is not None)


def suspicion(value: float, low: float, high: float, unit: str) -> str | None:
    """The unit that a value looks like which lies far outside of its range: 126 in mmol/L from 3.5 to 7.5 is mg/dL.

    Far is farther than the range is wide or, below a range of positive numbers, smaller by more than its ratio. What a
    unit explains it brings into the range. A range that begins at 0 does not say how small its values are: there far is
    ten times as large, and explained is what comes to its upper part.
    """
    return suspicions(np.array([value]), low, high, unit)[0]


def suspicions(values: Array, low: float, high: float, unit: str, local: Array | None = None) -> list[str | None]:
    """For each value the unit that it looks like, None where it does not look like another.

    `local` are the values before they were converted: what they are written in may be the study's unit already.
    """
    found: NDArray[np.object_] = np.full(len(values), None, dtype=object)
    far = np.flatnonzero(_far(values, low, high))
    if len(far) == 0 or not spelled(unit):
        return list(found)
    ways = ways_to(unit) if local is None else ((unit, Conversion(1.0, 0.0)), *ways_to(unit))
    for name, way in ways:
        inside = _explained(way, (values if local is None else local)[far], low, high)
        found[far[inside]] = name
        far = far[~inside]
    return list(found)


def fits(values: Array, low: float, high: float, unit: str) -> dict[Way, tuple[int, int]]:
    """How many of these values each other way to write them would explain, and how many by the range's middle half."""
    end, found = spelled(unit), {}
    for start in _confused_with(end):
        plain = _known(start, end, "")
        for substance in ("",) if plain is not None else SUBSTANCES:
            if way := plain or _known(start, end, substance):
                inside = _explained(way, values, low, high)
                off = np.abs(way.of(values) - (low + high) / 2)
                counts = int(np.count_nonzero(inside)), int(np.count_nonzero(inside & (off <= (high - low) / 4)))
                found[Way(_SHOWN.get(start, start), substance)] = counts
    return found


def _far(values: Array, low: float, high: float) -> NDArray[np.bool_]:
    width = high - low
    below = max(low - width, low * low / high) if low > 0 else low - width
    above = high + width if low > 0 else max(high + width, 10 * high)
    far: NDArray[np.bool_] = (values < below) | (values > above)
    return far


def _explained(way: Conversion, values: Array, low: float, high: float) -> NDArray[np.bool_]:
    converted = way.of(values)
    inside: NDArray[np.bool_] = (converted >= (low if low > 0 else high / 5)) & (converted <= high)
    return inside
