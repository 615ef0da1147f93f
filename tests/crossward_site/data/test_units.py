"""From one unit to another, and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossward.errors import InvalidSetting
from crossward_site.data.units import Way, conversion, fits, named_substances, suspicion, suspicions


@pytest.mark.parametrize(
    ("local", "wanted", "substance", "value", "expected"),
    [
        ("mg/dL", "mmol/L", "glucose", 90.0, 4.9956),
        ("mmol/L", "mg/dL", "cholesterol", 5.0, 193.35),
        ("mg/dL", "µmol/L", "creatinine", 1.0, 88.42),
        ("°F", "°C", "", 212.0, 100.0),
        ("°C", "°F", "", 37.0, 98.6),
        ("lb", "kg", "", 220.0, 99.790),
        ("mmol/mol", "%", "", 48.0, 6.543),
        ("in", "cm", "", 70.0, 177.8),
        ("kg/m²", "kg/m2", "", 25.0, 25.0),
    ],
)
def test_units(local, wanted, substance, value, expected) -> None:
    factor, offset = conversion("x", local, wanted, substance)
    assert factor * value + offset == pytest.approx(expected, rel=1e-3)


@given(st.sampled_from([("mg/dL", "mmol/L", "glucose"), ("°F", "°C", ""), ("mmol/mol", "%", ""), ("cm", "m", "")]))
def test_units_go_both_ways(units) -> None:
    local, wanted, substance = units
    one, other = conversion("x", local, wanted, substance), conversion("x", wanted, local, substance)
    assert other[0] * (one[0] * 7.0 + one[1]) + other[1] == pytest.approx(7.0)


def test_a_substance_that_matters_is_asked_for() -> None:
    with pytest.raises(InvalidSetting, match="Name the substance"):
        conversion("glucose", "mg/dL", "mmol/L")


@pytest.mark.parametrize(
    ("unit", "other"),
    [
        ("mm[Hg]", "mmHg"),
        ("[degF]", "°F"),
        ("Cel", "C"),
        ("[in_i]", "in"),
        ("[lb_av]", "lb"),
        ("umol/L", "µmol/L"),
        ("mg/dL{fasting}", "mg/dl"),
        ("a", "years"),
    ],
)
def test_spellings_of_ucum(unit, other) -> None:
    assert conversion("x", unit, other) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("local", "wanted", "factor"),
    [("mg/L", "mg/dL", 0.1), ("g/L", "g/dL", 0.1), ("kPa", "mmHg", 7.500617), ("mm", "m", 0.001), ("in", "m", 0.0254)],
)
def test_units_of_one_kind_convert_by_size(local, wanted, factor) -> None:
    assert conversion("x", local, wanted) == pytest.approx((factor, 0.0))


@pytest.mark.parametrize(
    ("value", "low", "high", "unit", "looks"),
    [
        (126.0, 3.5, 7.5, "mmol/L", "mg/dL"),
        (5.5, 60.0, 140.0, "mg/dL", "mmol/L"),
        (88.0, 0.4, 2.0, "mg/dL", "umol/L"),
        (98.6, 35.0, 42.0, "Cel", "°F"),
        (48.0, 4.5, 7.0, "%", "mmol/mol"),
        (175.0, 1.4, 2.1, "m", "cm"),
        (16.0, 80.0, 200.0, "mmHg", "kPa"),
        (140.0, 11.0, 18.0, "g/dL", "g/L"),
        (9.0, 3.5, 7.5, "mmol/L", None),  # ill, but in its unit
        (1000.0, 3.5, 7.5, "mmol/L", None),
        (350.0, 0.0, 100.0, "mg/L", None),  # nobody takes ug/L for mg/L
        (9.0, 0.0, 2.0, "mg/dL", None),  # where a range begins at 0, dividing by anything would do
        (126.0, 3.5, 7.5, "", None),
        (1e308, 3.5, 7.5, "mmol/L", None),
    ],
)
def test_the_unit_that_a_value_looks_like(value, low, high, unit, looks) -> None:
    assert suspicion(value, low, high, unit) == looks
    assert suspicions(np.array([value, (low + high) / 2]), low, high, unit) == [looks, None]


def test_how_many_values_another_unit_explains_and_how_many_by_the_middle() -> None:
    found = fits(np.array([90.0, 126.0, 1.0]), 3.5, 7.5, "mmol/L")
    assert found[Way("mg/dL", "glucose")] == (2, 1)
    pressure = fits(np.array([13.2, 12.5]), 90.0, 170.0, "mmHg")
    assert (pressure[Way("kPa")], pressure[Way("cmHg")]) == ((2, 0), (2, 2))


@pytest.mark.parametrize(
    ("name", "substances"),
    [
        ("Glu0", ["glucose"]),
        ("LDL", ["cholesterol"]),
        ("urate", ["uric acid"]),
        ("Harnsäure_mg", ["uric acid"]),
        ("sHarnstoff", ["urea"]),
        ("BUN", ["urea nitrogen"]),
        ("KREA", ["creatinine"]),
        ("TriglyceridesFasting", ["triglycerides"]),
        ("Blutzucker nüchtern", ["glucose"]),
        ("CRP", []),
        ("glutamate", []),
        ("HbA1c", []),
        ("glucose_or_urea", ["glucose", "urea"]),
    ],
)
def test_names_tell_substances(name, substances) -> None:
    assert list(named_substances("x", name)) == substances
