"""Records for a prediction come in as those for training did; what would stand on a guess is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from crossward.errors import EmptyData, InvalidData
from crossward.learning.encoding import Category, Flag, Number, Schema
from crossward.learning.model import LinearModel, ReleasedModel
from crossward.learning.records import Ball
from crossward.study import study_for
from crossward_site.data.mapping import DataMap
from crossward_site.models.predictions import predict, predict_csv
from crossward_site.models.service import Served

SCHEMA = Schema(
    (
        Number("glucose", 3.5, 7.5, "mmol/L", default=5.5),
        Number("bmi", 16, 34, "kg/m2"),
        Category("smoker", ("never", "current"), default="never"),
        Flag("family", default=False),
    )
)
FEATURES = [
    entry | ({"plausible": [1, 40]} if entry["name"] == "glucose" else {}) for entry in SCHEMA.to_dict()["features"]
]
STUDY = study_for(SCHEMA, method="direct", sources=(), features=FEATURES)
MAPPING = DataMap.from_data(
    {
        "person": "pid",
        "missing": ["NA"],
        "features": {
            "glucose": {"column": "glu", "unit": "mg/dL", "substance": "glucose"},
            "smoker": {"column": "smoke", "recode": {"N": "never", "J": "current"}},
        },
    }
)
OURS = {"glu": 90.08, "bmi": 25, "smoke": "J", "family": "yes"}
THEIRS = {"glucose": 5.0, "bmi": 25, "smoker": "current", "family": True}


@pytest.fixture(scope="module")
def served() -> Any:
    """A study's model, by the mapping of the dataset it was trained on."""
    model = LinearModel(Ball(1.0), np.linspace(-1, 1, len(SCHEMA.columns)), len(SCHEMA.columns))
    known: Any = ReleasedModel(model, None)  # type: ignore[arg-type]  # nothing here asks what made it
    return lambda mapping=MAPPING: Served(STUDY, None, known, None, (), mapping)  # type: ignore[arg-type]


def test_the_sites_words_and_the_studys_say_the_same(served) -> None:
    [ours] = predict(served(), [OURS])
    [theirs] = predict(served(), [THEIRS], "study")
    [alone] = predict(served(None), [THEIRS])
    assert ours.probability == pytest.approx(theirs.probability, abs=1e-12)
    assert theirs == alone
    assert [(remark.feature, remark.what) for remark in ours.remarks] == [("smoker", "recoded")]
    assert theirs.remarks == []


def test_who_asks_in_the_studys_names_is_told_how(served) -> None:
    for ask in (
        lambda: predict(served(), [THEIRS]),
        lambda: predict_csv(served(), "glucose,bmi,smoker,family\n5,25,never,yes\n"),
    ):
        with pytest.raises(InvalidData, match=r"in the study's names.*no column 'glu', 'smoke'.*--study-words"):
            ask()
    assert predict_csv(served(), ",glu,bmi,smoke,family\n1,90,25,J,yes\n")  # a column without a name harms nobody


def test_a_csv_is_read_as_records_are(served) -> None:
    text = "\ufeffpid;smoke;glu;bmi;family\n1;J;90,08;25;yes\n2;;NA;50,5;\n"
    ours, other = predict_csv(served(), text)
    assert ours == predict(served(), [OURS])[0]
    assert [(remark.feature, remark.what, remark.used) for remark in other.remarks] == [
        ("glucose", "missing", 5.5),
        ("bmi", "clipped", 34.0),
        ("smoker", "missing", "never"),
        ("family", "missing", False),
    ]
    with pytest.raises(EmptyData):
        predict_csv(served(), "glu,bmi,smoke,family\n")
    with pytest.raises(InvalidData, match="glu"):
        predict_csv(served(), "gluc,bmi,smoke,family\n1,2,3,4\n")
    with pytest.raises(InvalidData, match=r"Record 2 \(line 3\): 'bmi'"):
        predict_csv(served(), "glu,bmi,smoke,family\n90,25,J,yes\n90,thin,J,yes\n")
    with pytest.raises(InvalidData, match="more than 10,000"):
        predict_csv(served(), "glu,bmi,smoke,family\n" + "90,25,J,yes\n" * 10_001)


def test_a_csv_with_many_columns_and_records_is_read(served) -> None:
    more = ",".join(f"more{k}" for k in range(60))
    text = f"glu,bmi,smoke,family,{more}\n" + ("90.08,25,J,yes," + ",".join(['"1,5"'] * 60) + "\n") * 5000
    predictions = predict_csv(served(), text)
    assert len(predictions) == 5000
    assert predictions[-1] == predict(served(), [OURS])[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('"' + "x" * 4_000_000 + '",b\n1,2\n', "longer than 1,048,576 bytes|within 1,048,576 bytes"),
        ("glu,bmi,smoke,family\n" + "9" * 2_000_000 + ",25,J,yes\n", "longer than 1,048,576 bytes"),
        ("glu,bmi,smoke,family\n90,25," + "J" * 70_000 + ",yes\n", "A cell of the column 'smoke' is longer"),
        (",".join(f"c{k}" for k in range(10_001)) + "\n", "columns; 10,000 are the limit"),
        ("sep=;\n" * 2000, "no column"),
        ('"\n' * 500_000, "no column|name"),
        ("g\0l\0u\0,\0b\0m\0i\0\n\0" * 100, "cannot be shown"),
    ],
)
def test_a_csv_that_would_take_long_is_refused(served, text: str, words: str) -> None:
    with pytest.raises(InvalidData, match=words):
        predict_csv(served(), text)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"glu": 7.0}, r"Record 2: 'glucose' \(column 'glu'\) looks like mmol/L, where mg/dL is meant"),
        ({"glu": 900}, r"Record 2: 'glucose' .*not plausible: beyond 1 to 40 mmol/L"),
        ({"glu": "high"}, r"Record 2: 'glucose' .*is not a number"),
        ({"glu": "90,5"}, r"Record 2: 'glucose' .*is not a number"),
        ({"bmi": None}, "Record 2: 'bmi' is missing, and the study has no default"),
        ({"bmi": "NA"}, "Record 2: 'bmi' is missing"),
        ({"smoke": "pipe"}, r"Record 2: 'smoker' \(column 'smoke'\) is not one of the values"),
        ({"family": "perhaps"}, "Record 2: 'family' is not one of the values"),
    ],
)
def test_what_would_stand_on_a_guess_is_refused(served, change, words) -> None:
    with pytest.raises(InvalidData, match=words) as caught:
        predict(served(), [OURS, OURS | change])
    for value in change.values():
        assert not isinstance(value, str) or value == "NA" or value not in str(caught.value)


def test_126_where_mmol_are_meant_looks_like_mg(served) -> None:
    with pytest.raises(InvalidData, match="Record 1: 'glucose' looks like mg/dL, where mmol/L is meant"):
        predict(served(), [THEIRS | {"glucose": 126}], "study")


def test_a_misspelt_column_is_named(served) -> None:
    wrong = {("GLU" if name == "glu" else name): value for name, value in OURS.items()}
    with pytest.raises(InvalidData, match=r"Record 2 has no column 'glu'.*Did you mean 'GLU'"):
        predict(served(), [OURS, wrong])
    with pytest.raises(InvalidData, match="'glu'"):
        predict(served(), [THEIRS])
    with pytest.raises(EmptyData):
        predict(served(), [])


def test_all_refusals_are_told_up_to_a_few(served) -> None:
    with pytest.raises(InvalidData, match=r"Record 1: 'bmi'.*Record 5: 'bmi'.*And 2 more"):
        predict(served(), [OURS | {"bmi": None}] * 7)


def test_clipping_says_to_which_bound(served) -> None:
    low, high = predict(served(), [OURS | {"bmi": 10}, OURS | {"bmi": "60"}])
    assert [(remark.what, remark.used) for remark in low.remarks if remark.feature == "bmi"] == [("clipped", 16.0)]
    assert [(remark.what, remark.used) for remark in high.remarks if remark.feature == "bmi"] == [("clipped", 34.0)]
