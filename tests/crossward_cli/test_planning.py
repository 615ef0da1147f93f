"""`crossward plan` as a lead meets it: what is shown where something is left out, and mistakes named where they are."""

import json

import pytest
from typer.testing import CliRunner

from crossward.errors import CrosswardError
from crossward.planning.power import Forecast
from crossward.planning.setting import MOST_RECORDS
from crossward.study import example
from crossward_cli.main import commands


def run(*arguments):
    return CliRunner(env={"COLUMNS": "80"}).invoke(commands, [str(argument) for argument in arguments])


def said(result):
    return " ".join(result.stdout.split())


@pytest.fixture
def study(tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text(example())
    return file


@pytest.fixture
def no_simulation(monkeypatch):
    """Everything of a plan but the learning, with the forecasts that a test puts in."""
    found = []
    monkeypatch.setattr("crossward.planning.outlook.forecast", lambda setting, epsilons, **_: found)
    return found


def test_true_counts_are_shown_and_the_smaller_simulation_is_disclosed(study, no_simulation):
    large = ("--records", "main=5000000", "--records", "branch-1=2000000")
    shown = said(run("plan", study, *large))
    assert "sources 5,000,000, at 2 target(s) 4,700 to 2,000,000" in shown
    assert "more than 100,000 records is simulated with 100,000" in shown
    told = json.loads(run("plan", study, *large, "--json").stdout)
    assert told["records"] == {"sources": [5_000_000], "targets": [2_000_000, 4_700]}
    assert told["simulated_records"] == {"sources": [MOST_RECORDS], "targets": [4_700, MOST_RECORDS]}
    assert "is simulated with" not in said(run("plan", study))


def test_cells_without_a_forecast_read_too_few(study, no_simulation):
    no_simulation.append(Forecast("SourceD", 0.5, 0.75, 0.01, 0.74, 0.76, 16))
    shown = run("plan", study, "--epsilon", "0.5", "--epsilon", "0.05", "--auc", "0.7").stdout
    rows = {line.split("  ")[0].strip(): line for line in shown.splitlines()}
    assert rows["Direct"].count("too few") == 3
    assert rows["SourceD"].count("too few") == 2
    assert "0.750" in rows["SourceD"]
    assert "At the study's epsilon 1 a party has too few records" in " ".join(shown.split())
    assert "is not to be expected up to epsilon 1" in " ".join(shown.split())


def test_a_method_of_the_leads_own_leaves_room_for_every_number(study, no_simulation):
    named = study.read_text().replace("method: auto", "method: pst-h\ngroups: {kind: importance, k: 2}")
    study.write_text(named)
    shown = run("plan", study).stdout
    assert "…" not in shown
    assert shown.count("too few ") >= 6 * 7


def test_a_target_of_thirty_records_has_a_plan(study):
    shown = run("plan", study, "--records", "branch-1=30", "--repeats", "2", "--epsilon", "0.05", "--workers", "1")
    assert shown.exit_code == 0
    rows = {line.split("  ")[0].strip(): line for line in shown.stdout.splitlines()}
    assert rows["PST-F (W)"].count("too few") == 1
    assert "too few" not in rows["SimComb"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--plot", "nowhere/plan.png"), "nowhere/plan.png cannot be written"),
        (("--plot", "folder.svg"), "folder.svg cannot be written"),
        (("--records-file", "broken.yaml"), "broken.yaml is neither YAML nor JSON"),
        (("--records", "nobody=3"), "- --records nobody: 'nobody' takes no part"),
        (("--records", "No Body=3"), "- --records No Body: 'No Body' is not an identifier"),
        (("--records", f"main={'9' * 5000}"), "The record count of main is '999"),
        (("--records", "branch-1=1"), "- --records branch-1: 0 records"),
        (("--records-file", "counts.yaml"), "- counts.yaml, nobody: 'nobody' takes no part"),
        (("--auc", "0.3"), "Want one between 0.5 and 0.8"),
    ],
)
def test_mistakes_are_named_where_they_are_before_anything_runs(study, monkeypatch, options, words):
    monkeypatch.chdir(study.parent)
    (study.parent / "broken.yaml").write_text("main: [12702")
    (study.parent / "counts.yaml").write_text("{main: 12702, nobody: 3}")
    (study.parent / "folder.svg").mkdir()
    monkeypatch.setattr("crossward.planning.outlook.forecast", lambda *_, **__: pytest.fail("It was simulated."))
    error = run("plan", study, *options).exception
    assert isinstance(error, CrosswardError)
    assert words in str(error)


def test_a_picture_that_cannot_be_written_after_all_is_no_traceback(study, no_simulation, monkeypatch):
    monkeypatch.setattr("crossward.planning.figure.check_plot", lambda path: None)
    error = run("plan", study, "--plot", study.parent / "nowhere" / "plan.svg").exception
    assert isinstance(error, CrosswardError)


def test_a_plan_needs_the_study_file_and_public_counts_alone(program, tmp_path):
    file, counts = tmp_path / "study.yaml", tmp_path / "counts.json"
    file.write_text(example())
    counts.write_text('{"main": 2000, "branch-1": 900}')
    quick = (
        "--repeats",
        "2",
        "--epsilon",
        "0.1",
        "--epsilon",
        "4",
        "--records-file",
        counts,
        "--records",
        "branch-2=700",
    )
    told = json.loads(program("plan", file, *quick, "--auc", "0.6", "--json").stdout)
    assert told["records"] == {"sources": [2000], "targets": [900, 700]}
    assert {row["epsilon"] for row in told["rows"]} == {0.1, 1.0, 4.0}
    assert all(row["auc_low"] <= row["auc_mean"] <= row["auc_high"] for row in told["rows"])
    assert told["recommended"]["method"] == "SimComb"
    assert told["recommended"]["settings"]["method"]["name"] == "simcomb"
    assert told["smallest_epsilon"]["auc"] == 0.6
    assert told["assumptions"]["nonprivate_auc"] == 0.8
    shown = program("plan", file, *quick).stdout
    for word in ("Assumed", "Direct", "SimComb", "PST-H (W)", "Recommended: SimComb", "No record was touched"):
        assert word in shown
    drawn = tmp_path / "plan.svg"
    program("plan", file, *quick, "--plot", drawn)
    assert "<svg" in drawn.read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--records", "main"), "record count of main"),
        (("--records", "nobody=5"), "takes no part"),
        (("--auc", "0.95"), "cannot be reached"),
        (("--nonprivate-auc", "0.3"), "nonprivate_auc"),
        (("--epsilon", "-1"), "above 0"),
        (("--plot", "plan.pdf"), "neither PNG nor SVG"),
    ],
)
def test_what_cannot_be_planned_is_said_at_once(program, tmp_path, options, words):
    file = tmp_path / "study.yaml"
    file.write_text(example())
    assert words in " ".join(program("plan", file, *options, code=2).stderr.split())
