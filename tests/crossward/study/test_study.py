import json
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from crossward.errors import InvalidMessage, StudyInvalid
from crossward.learning.encoding import Category, Flag, Number, Schema
from crossward.study import Study, study_for
from crossward.study.sections import read_duration, write_duration

EXAMPLE = Path(__file__).with_name("first_example.yaml").read_text()

EXAMPLE_DIGEST = "9ff12cbbe493b0a1407cb4ea7b73cb203b0f00560bcdfabe290888a7930057a6"


def test_the_example_is_a_study():
    study = Study.from_yaml(EXAMPLE)
    assert study.method.name == "pst-h"
    assert study.schema.columns[:2] == ("Glu0", "HbA1c")
    assert len(study.schema.columns) == 10
    assert study.quorum.deadline == timedelta(hours=2)


def test_its_digest_is_pinned():
    """A change here changes the hash of every study in the field: it needs a new version of the format."""
    assert Study.from_yaml(EXAMPLE).digest == EXAMPLE_DIGEST


def test_one_form_however_it_was_written():
    plain = Study.from_yaml(EXAMPLE)
    data = yaml.safe_load(EXAMPLE)
    shuffled = dict(reversed(data.items()))
    shuffled["epsilon"] = {"target": 1.0, "source": 1.0}
    shuffled["quorum"] = {"deadline": "PT120M"}
    shuffled["groups"] = {"k": 2.0, "kind": "importance", "seed": 0}
    shuffled["title"] = f"  {data['title']} "
    del shuffled["cells"], shuffled["version"], shuffled["encoding"]
    for other in (Study.from_data(shuffled), Study.from_yaml(plain.to_yaml()), Study.from_canonical(plain.canonical())):
        assert other == plain
        assert other.canonical() == plain.canonical()


def test_what_differs_in_meaning_differs_in_digest():
    plain = Study.from_yaml(EXAMPLE)
    for old, new in (
        ("eta: 0", "eta: 0.5"),
        ("high: 34", "high: 35"),
        ("[branch-1, branch-2]", "[branch-2, branch-1]"),
    ):
        assert Study.from_yaml(EXAMPLE.replace(old, new)).digest != plain.digest


def test_a_copy_has_a_digest_of_its_own():
    study = Study.from_yaml(EXAMPLE)
    assert study.digest != study.model_copy(update={"title": "Another"}).digest
    assert study.schema != study.model_copy(update={"features": study.features[:2]}).schema


def test_only_the_canonical_form_is_read_as_such():
    data = Study.from_yaml(EXAMPLE).canonical()
    with pytest.raises(InvalidMessage, match="canonical"):
        Study.from_canonical(json.dumps(json.loads(data)))
    with pytest.raises(InvalidMessage, match="twice"):
        Study.from_canonical(b'{"id":"a","id":"b"}')
    with pytest.raises(InvalidMessage, match="NaN"):
        Study.from_canonical(b'{"id":NaN}')


words = st.text(st.characters(categories=("L", "N", "P", "Zs"), exclude_characters="\x85"), min_size=1, max_size=12)
words = words.map(str.strip).filter(bool).filter(str.isprintable) | st.sampled_from(
    ["no", "yes", "1e-6", "null", "1", "0x1F", "2026-01-01", "1:30", "~", "- a", "a: b", "#x", "é", "\U0001f3e5"]
)
finite = st.floats(-1e300, 1e300)
importance = st.floats(0.001, 1e6)


@st.composite
def schemas(draw):
    names = draw(st.lists(words, min_size=1, max_size=5, unique=True))
    features = []
    for index, name in enumerate(names):
        kind, weight = draw(st.sampled_from(["number", "category", "flag"])), draw(importance)
        if kind == "number":
            low = draw(finite)
            features.append(Number(name, low, low + draw(st.floats(1, 1e5)) * max(1, abs(low)), "u", None, weight))
        elif kind == "category":
            levels = draw(st.lists(words, min_size=2, max_size=4, unique=True))
            features.append(Category(f"{name} {index}", tuple(levels), levels[0], weight))
        else:
            features.append(Flag(name, draw(st.sampled_from([None, True, False])), weight))
    return features


@settings(deadline=None, max_examples=50)
@given(schemas(), words, st.floats(0.01, 100), st.sampled_from(["direct", "pst-f", "pst-h", "simcomb", "sourced"]))
def test_round_trips(features, text, epsilon, method):
    try:
        schema = Schema(tuple(features))
    except ValueError:
        return
    if any(feature.name == "the label" for feature in features):
        return
    study = study_for(
        schema, title=text, purpose=text, method=method, epsilon=epsilon, groups=1, label={"name": "the label"}
    )
    assert study.schema == schema
    assert Study.from_yaml(study.to_yaml()) == study
    assert Study.from_canonical(study.canonical()) == study
    assert Study.from_yaml(study.to_yaml()).digest == study.digest


@given(st.integers(1, 10 * 366 * 86400 - 86400 * 10))
def test_durations_round_trip(seconds):
    length = timedelta(seconds=seconds)
    assert read_duration(write_duration(length)) == length


@pytest.mark.parametrize(
    ("text", "hours"), [("2h", 2), ("PT2H", 2), ("1d12h", 36), ("P1DT12H", 36), ("90m", 1.5), ("1w", 168), ("P1W", 168)]
)
def test_durations(text, hours):
    assert read_duration(text) == timedelta(hours=hours)


@pytest.mark.parametrize("text", ["", "P", "PT", "0h", "-2h", "P1M", "1y", "2 h", "99999999999h", None, 3, "1.5h"])
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match="is not a duration"):
        read_duration(text)


def test_study_for_leaves_out_what_a_method_has_no_use_for():
    schema = Study.from_yaml(EXAMPLE).schema
    alone = study_for(schema, method="direct")
    assert alone.sources == ()
    assert alone.epsilon.source is None
    assert alone.groups is None
    assert alone.quorum.sources == 0
    lent = study_for(schema, method="average", sources=["a", "b"])
    assert lent.epsilon.target is None
    assert lent.quorum.sources == 2
    with pytest.raises(StudyInvalid, match="pst-h"):
        study_for(schema, method="pst-x")


@pytest.mark.parametrize("plausible", [[4, 40], [1, 7], [40, 1], [1], "1-40", [1, float("inf")]])
def test_what_is_plausible_holds_the_range(plausible):
    data = yaml.safe_load(EXAMPLE)
    data["features"][0]["plausible"] = [1, 40]
    assert Study.from_data(data).features[0].plausible == (1.0, 40.0)
    assert Study.from_canonical(Study.from_data(data).canonical()).features[0].plausible == (1.0, 40.0)
    data["features"][0]["plausible"] = plausible
    with pytest.raises(StudyInvalid):
        Study.from_data(data)
