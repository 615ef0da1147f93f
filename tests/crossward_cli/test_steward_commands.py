"""What a steward types: files in every form that is meant, and ordinary mistakes said in a line."""

import json

import pytest
import typer.testing

from crossward.client import SiteClient
from crossward.errors import Conflict, CrosswardError, InvalidEpsilon, InvalidSetting, StorageFailed
from crossward_cli.main import commands

RECORD = {"age": 61, "bmi": None, "smoker": "no", "family": True, "glucose": 5.5}


def crossward(*arguments):
    done = typer.testing.CliRunner().invoke(commands, [str(word) for word in arguments])
    if isinstance(done.exception, CrosswardError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def predict(file):
    return crossward("predict", "first-study", file, "--json", "--site-token", "cw_clinic_x")


@pytest.fixture
def asked(monkeypatch):
    """The records that the site was asked about."""
    seen = []
    monkeypatch.setattr(SiteClient, "predict", lambda self, study, records: seen.extend(records) or {})
    return seen


@pytest.mark.parametrize(
    "content",
    [RECORD, [RECORD], {"study": "first-study", "record": RECORD}, {"record": RECORD}, {"records": [RECORD]}],
    ids=["plain", "list", "example", "record", "records"],
)
def test_records_come_in_every_form_that_is_meant(tmp_path, asked, content):
    (tmp_path / "patient.json").write_text(json.dumps(content))
    predict(tmp_path / "patient.json")
    assert asked == [RECORD]


def test_the_example_patient_is_one(tmp_path, asked):
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
        ("a.csv", "age,bmi\n"),
        ("a.csv", "age,bmi\n61,20,too many\n"),
    ],
)
def test_what_holds_no_records_is_refused(tmp_path, asked, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(InvalidSetting, match=r"does not hold records.*\"records\""):
        predict(tmp_path / name)
    assert asked == []


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        (("--epsilon", "nan"), InvalidEpsilon, "finite"),
        (("--epsilon", "inf"), InvalidEpsilon, "finite"),
        (("--epsilon", "0"), InvalidEpsilon, "above 0"),
        (("--epsilon", "1", "--delta", "nan"), InvalidEpsilon, "between 0 and 1"),
        (("--epsilon", "1", "--study", "nofile.yaml"), InvalidSetting, "nofile.yaml cannot be read"),
        (("--epsilon", "1", "--mapping", "nofile.yaml"), InvalidSetting, "nofile.yaml cannot be read"),
    ],
)
def test_data_are_not_added_with_mistaken_options(options, kind, words):
    with pytest.raises(kind, match=words):
        crossward(
            "site", "data", "add", "a", "--csv", "a.csv", "--person", "p", *options, "--site-token", "cw_steward_x"
        )


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        (("--epsilon", "0"), InvalidEpsilon, "above 0"),
        (("--epsilon", "nan"), InvalidEpsilon, "finite"),
        (("--epsilon", "3"), InvalidEpsilon, "Use 2 at most"),
        (("--method", "banana"), InvalidSetting, "'banana'.*simcomb"),
        (("--method", "direct"), InvalidSetting, "'direct'.*simcomb"),
    ],
)
def test_a_demonstration_that_cannot_run_does_not_start(tmp_path, options, kind, words):
    with pytest.raises(kind, match=words):
        crossward("demo", "--dir", tmp_path / "demo", *options)
    assert not (tmp_path / "demo").exists()
    there = ("--tokens", tmp_path, "--records", "patients.csv")
    with pytest.raises(kind, match=words):
        crossward("demo", "study", "main=http://127.0.0.1:1", *there, *options)


def test_a_folder_holds_one_demonstration(tmp_path):
    (tmp_path / "coordinator").mkdir()
    with pytest.raises(Conflict, match=r"already.*another folder, or remove"):
        crossward("demo", "--dir", tmp_path)


@pytest.mark.parametrize(
    "arguments", [("demo", "--dir"), ("study", "example", "--data"), ("demo", "records", "main"), ("secret",)]
)
def test_a_path_that_cannot_be_written_is_said(tmp_path, arguments):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageFailed, match=r"cannot be written|is not there"):
        crossward(*arguments, tmp_path / "file" / "x")


def test_a_secret_makes_no_folder(tmp_path):
    with pytest.raises(StorageFailed, match="nodir is not there"):
        crossward("secret", tmp_path / "nodir" / "x")
    assert not (tmp_path / "nodir").exists()
