"""From one unit to another: study = factor * local + offset.

Mass and substance concentrations convert by molar mass, so those need the substance. Anything not listed is written
in the mapping as factor and offset.
"""

from __future__ import annotations

from typing import NamedTuple

from crossward.errors import InvalidSetting


class Conversion(NamedTuple):
    """study = factor * local + offset."""

    factor: float
    offset: float


_MMOL_PER_MG_DL = {"glucose": 1 / 18.016, "cholesterol": 1 / 38.67, "triglycerides": 1 / 88.57, "urea": 1 / 6.006}
_UMOL_PER_MG_DL = {"creatinine": 88.42, "bilirubin": 17.10, "uric acid": 59.48}

_PLAIN: dict[tuple[str, str], Conversion] = {
    ("cm", "m"): Conversion(0.01, 0.0),
    ("in", "cm"): Conversion(2.54, 0.0),
    ("in", "m"): Conversion(0.0254, 0.0),
    ("ft", "m"): Conversion(0.3048, 0.0),
    ("mm", "cm"): Conversion(0.1, 0.0),
    ("lb", "kg"): Conversion(0.45359237, 0.0),
    ("g", "kg"): Conversion(0.001, 0.0),
    ("mg", "g"): Conversion(0.001, 0.0),
    ("f", "c"): Conversion(5 / 9, -160 / 9),
    ("k", "c"): Conversion(1.0, -273.15),
    ("kpa", "mmhg"): Conversion(7.500617, 0.0),
    ("mmol/mol", "%"): Conversion(0.09148, 2.152),  # HbA1c, IFCC to NGSP
    ("months", "years"): Conversion(1 / 12, 0.0),
    ("days", "years"): Conversion(1 / 365.25, 0.0),
    ("g/l", "g/dl"): Conversion(0.1, 0.0),
    ("umol/l", "mmol/l"): Conversion(0.001, 0.0),
    ("fraction", "%"): Conversion(100.0, 0.0),
}
_SAME = {"µ": "u", "μ": "u", "°": "", "²": "2", "^": "", " ": ""}


def conversion(feature: str, local: str, wanted: str, substance: str = "") -> Conversion:
    """(factor, offset) from the local unit to the study's."""
    one, other = _spelled(local), _spelled(wanted)
    if one == other:
        return Conversion(1.0, 0.0)
    for start, end, inverse in ((one, other, False), (other, one, True)):
        known = _PLAIN.get((start, end)) or _molar(start, end, substance.strip().lower())
        if known is not None:
            factor, offset = known
            return Conversion(1 / factor, -offset / factor) if inverse else known
    raise InvalidSetting(
        f"{feature!r} comes in {local!r}, the study has it in {wanted!r}, and no conversion is known"
        f"{f' for {substance}' if substance else ''}.",
        "Name the substance (glucose, cholesterol, triglycerides, urea, creatinine, bilirubin, uric acid), or give "
        "factor and offset.",
    )


def _spelled(unit: str) -> str:
    text = unit.strip().lower()
    for odd, plain in _SAME.items():
        text = text.replace(odd, plain)
    return text


def _molar(start: str, end: str, substance: str) -> Conversion | None:
    if (start, end) == ("mg/dl", "mmol/l") and substance in _MMOL_PER_MG_DL:
        return Conversion(_MMOL_PER_MG_DL[substance], 0.0)
    if (start, end) == ("mg/dl", "umol/l") and substance in _UMOL_PER_MG_DL:
        return Conversion(_UMOL_PER_MG_DL[substance], 0.0)
    return None
