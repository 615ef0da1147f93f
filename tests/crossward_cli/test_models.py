"""Predictions from the terminal: records in every form that is meant, and ordinary mistakes said in a line."""

import json

import pytest

from crossward.client import SiteClient
from crossward.errors import InvalidSetting

RECORD = {"age": 61, "bmi": None, "smoker": "no", "family": True, "glucose": 5.5}


@pytest.fixture
def predict(crossward):
    """Predicts for the records of a file."""
    return lambda file: crossward("predict", "first-study", file, "--json", "--site-token", "cw_clinic_x")


@pytest.fixture
def asked(monkeypatch):
    """The records that the site was asked about."""
    seen = []
    monkeypatch.setattr(
        SiteClient,
        "predict",
        lambda self, study, records, words: seen.extend([records] if isinstance(records, str) else records) or {},
    )
    return seen


@pytest.mark.parametrize(
    "content",
    [RECORD, [RECORD], {"study": "first-study", "record": RECORD}, {"record": RECORD}, {"records": [RECORD]}],
    ids=["plain", "list", "example", "record", "records"],
)
def test_records_come_in_every_form_that_is_meant(tmp_path, predict, asked, content):
    (tmp_path / "patient.json").write_text(json.dumps(content))
    predict(tmp_path / "patient.json")
    assert asked == [RECORD]


def test_the_example_patient_is_one(crossward, predict, tmp_path, asked):
    crossward("study", "example", "--data", tmp_path / "try")
    predict(tmp_path / "try" / "patient.json")
    assert asked == [json.loads((tmp_path / "try" / "patient.json").read_text())["record"]]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", "3"),
        ("a.json", '"age"'),
        ("a.json", "[]"),
        ("a.json", "{}"),
        ("a.json", "[1, 2]"),
        ("a.json", '{"records": [1]}'),
        ("a.json", '{"record": [{"age": 61}]}'),
        ("a.json", '{"study": "first-study", "patient": {"age": 61}}'),
        ("a.json", '{"age": NaN}'),
    ],
)
def test_what_holds_no_records_is_refused(tmp_path, predict, asked, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(InvalidSetting, match=r"does not hold records.*\"records\""):
        predict(tmp_path / name)
    assert asked == []


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_a_csv_is_left_to_the_site_to_read(tmp_path, predict, asked, encoding):
    (tmp_path / "a.CSV").write_bytes("größe;bmi\n1,7;20\n".encode(encoding))
    predict(tmp_path / "a.CSV")
    assert asked == ["größe;bmi\n1,7;20\n"]


@pytest.mark.parametrize(("mark", "order"), [(b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")])
def test_a_csv_that_a_spreadsheet_saved_as_unicode_is_read_by_its_mark(tmp_path, predict, asked, mark, order):
    (tmp_path / "a.csv").write_bytes(mark + "größe;bmi\n1,7;20\n".encode(order))
    predict(tmp_path / "a.csv")
    assert asked == ["größe;bmi\n1,7;20\n"]
    (tmp_path / "a.csv").write_bytes(mark + b"a")
    with pytest.raises(InvalidSetting, match="cannot be read"):
        predict(tmp_path / "a.csv")
