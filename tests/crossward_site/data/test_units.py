"""From one unit to another, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossward.errors import InvalidSetting
from crossward_site.data.units import conversion


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
