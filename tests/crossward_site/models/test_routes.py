"""What a clinic may send: a body full of mistakes is refused by the first, not by millions of words."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from crossward.values import MOST_COLUMNS
from crossward_site.models.routes import Question


@pytest.mark.parametrize(
    "wrong",
    [
        {"records": [{"glucose": [], "age": []}] * 5_000},
        {"record": {f"f{k}": [] for k in range(MOST_COLUMNS + 1)}},
        {"records": [{"glucose": 5}, {f"f{k}": [] for k in range(MOST_COLUMNS + 1)}]},
    ],
)
def test_a_body_full_of_mistakes_is_refused_by_the_first(wrong) -> None:
    with pytest.raises(ValidationError) as refusal:
        Question.model_validate({"study": "sugar", **wrong})
    assert refusal.value.error_count() <= 10
