"""The command line as its users meet it: tables, JSON, exit codes, errors."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from crossward.protocol.ledger.export import export_file
from crossward.protocol.ledger.lines import START, Line, OpenBody, ReleaseBody, ReserveBody
from crossward.study import example
from crossward.version import __version__

CROSSWARD = Path(sys.executable).with_name("crossward")
# What would put colours between the words, or break lines elsewhere, wherever they are printed.
SHOWN = ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "TTY_COMPATIBLE", "TERMINAL_WIDTH")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in SHOWN} | {"COLUMNS": "80"}


def run(*arguments):
    return subprocess.run(
        [CROSSWARD, *arguments], env=ENVIRONMENT, capture_output=True, text=True, timeout=600, check=False
    )


def crossward(*arguments, code=0):
    done = run(*arguments)
    assert done.returncode == code, done.stderr
    return done


def test_version():
    assert crossward("version").stdout.strip() == __version__


def test_without_arguments_it_helps():
    done = run()
    assert "demo" in done.stdout + done.stderr
    assert "audit" in done.stdout + done.stderr


def test_simulate_shows_every_method_side_by_side():
    shown = crossward("simulate", "--branches", "1", "--repeats", "1").stdout
    for word in ("Direct", "SimComb", "PST-F", "PST-H", "SourceD", "non-private", "Branch 1", "4,334"):
        assert word in shown


def test_simulate_as_json_repeats_with_a_seed():
    runs = [
        json.loads(crossward("simulate", "--json", "--branches", "1", "--repeats", "1", "--seed", "3").stdout)
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    assert runs[0]["seeded"] is True
    by_method = {(row["method"], row["epsilon"]): row["auc"] for row in runs[0]["rows"]}
    assert by_method["SimComb", None] > 0.7
    assert by_method["SimComb", 1.0] > by_method["Direct", 0.1]


@pytest.mark.parametrize("arguments", [("demo", "--branches", "17"), ("audit", "--nonsense"), ("nothing",)])
def test_mistakes_exit_with_2_and_say_why(arguments):
    assert crossward(*arguments, code=2).stderr


def test_the_audit_speaks_json():
    report = json.loads(crossward("audit", "--quick", "--json", "--seed", "1").stdout)
    assert {"name", "claimed_epsilon", "largest_loss", "verdict"} <= set(report["mechanisms"][0])
    assert all(m["verdict"] == "clear" for m in report["mechanisms"])
    assert all(m["largest_loss"] <= m["claimed_epsilon"] for m in report["mechanisms"])
    assert all(mutant["caught"] for mutant in report["mutants"])
    assert len(report["mechanisms"]) >= 20
    assert len(report["mutants"]) >= 20


def test_a_sound_study_shows_its_digest(tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text(crossward("study", "example").stdout)
    assert "sound" in crossward("study", "check", file).stdout
    checked = json.loads(crossward("study", "check", "--json", file).stdout)
    assert checked["id"] == "diabetes-2026"
    assert len(checked["digest"]) == 64


def test_a_study_with_faults_names_line_and_field_of_each(tmp_path):
    file = tmp_path / "study.yaml"
    text = crossward("study", "example").stdout
    file.write_text(text.replace("high: 34", "high: 3").replace("sources: [main]", "sources: []"))
    said = crossward("study", "check", file, code=2).stderr
    assert "line 19" in said
    assert "features[3]" in said
    assert "sources" in said
    assert crossward("study", "check", tmp_path / "none.yaml", code=2).stderr


def test_an_exported_ledger_is_verified_offline_to_the_byte(tmp_path):
    head, file = START, tmp_path / "ledger.jsonl"
    lines = []
    for body in (
        OpenBody("hearts", 20, "basic", 3 * 10**9),
        ReserveBody("t1", "s", "0" * 64, "hearts", (0, 1, 2), 10**9, 0, "1" * 64),
        ReleaseBody("t1", "2" * 64),
    ):
        lines.append(Line.after(head, body, 1_700_000_000_000))
        head = lines[-1].head
    export_file(lines, file)
    verified = json.loads(crossward("ledger", "verify", "--json", file).stdout)
    assert verified == {"lines": 3, "head": head.hash, "epsilon_spent": {"hearts": 1.0}}
    assert "verified" in crossward("ledger", "verify", file, "--head", f"3:{head.hash}").stdout
    assert "hearts" in crossward("ledger", "show", file).stdout
    bytes_ = bytearray(file.read_bytes())
    bytes_[file.read_bytes().index(b"t1")] ^= 1
    file.write_bytes(bytes_)
    assert "Line 2" in crossward("ledger", "verify", file, code=2).stderr


def test_the_program_starts_without_loading_the_heavy_libraries():
    code = "import sys, crossward_cli.main; print([m for m in ('sklearn', 'scipy', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout.strip() == "[]"


def test_a_plan_needs_the_study_file_and_public_counts_alone(tmp_path):
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
    told = json.loads(crossward("plan", file, *quick, "--auc", "0.6", "--json").stdout)
    assert told["records"] == {"sources": [2000], "targets": [900, 700]}
    assert {row["epsilon"] for row in told["rows"]} == {0.1, 1.0, 4.0}
    assert all(row["auc_low"] <= row["auc_mean"] <= row["auc_high"] for row in told["rows"])
    assert told["recommended"]["method"] == "SimComb"
    assert told["recommended"]["settings"]["method"]["name"] == "simcomb"
    assert told["smallest_epsilon"]["auc"] == 0.6
    assert told["assumptions"]["nonprivate_auc"] == 0.8
    shown = crossward("plan", file, *quick).stdout
    for word in ("Assumed", "Direct", "SimComb", "PST-H (W)", "Recommended: SimComb", "No record was touched"):
        assert word in shown
    drawn = tmp_path / "plan.svg"
    crossward("plan", file, *quick, "--plot", drawn)
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
def test_what_cannot_be_planned_is_said_at_once(tmp_path, options, words):
    file = tmp_path / "study.yaml"
    file.write_text(example())
    assert words in " ".join(crossward("plan", file, *options, code=2).stderr.split())


def test_a_checked_study_shows_what_auto_chose_and_why(tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text(example())
    shown = " ".join(crossward("study", "check", file).stdout.split())
    for word in ("simcomb, chosen by auto", "12,700 records", "lam_target", "no record was read"):
        assert word in shown
