"""A study file: checked without a coordinator, and one to start from."""

import json

from crossward.client import Client
from crossward.methods import METHODS
from crossward.study import example


def test_a_sound_study_shows_its_digest(program, tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text(program("study", "example").stdout)
    assert "sound" in program("study", "check", file).stdout
    checked = json.loads(program("study", "check", "--json", file).stdout)
    assert checked["id"] == "diabetes-2026"
    assert len(checked["digest"]) == 64


def test_a_study_with_faults_names_line_and_field_of_each(program, tmp_path):
    file = tmp_path / "study.yaml"
    text = program("study", "example").stdout
    file.write_text(text.replace("high: 34", "high: 3").replace("sources: [main]", "sources: []"))
    said = program("study", "check", file, code=2).stderr
    assert "line 20" in said
    assert "features[3]" in said
    assert "sources" in said
    assert program("study", "check", tmp_path / "none.yaml", code=2).stderr


def test_a_checked_study_shows_what_auto_chose_and_why(program, tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text(example())
    shown = " ".join(program("study", "check", file).stdout.split())
    for word in ("simcomb, chosen by auto", "12,700 records", "lam_target", "no record was read"):
        assert word in shown


def test_a_checked_study_says_in_words_what_its_method_does(crossward, tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text(example())
    shown = " ".join(crossward("study", "check", file).split())
    assert f"SimComb: {METHODS['simcomb'].explanation}" in shown


def test_an_example_is_yaml_for_people_and_json_for_machines(crossward, tmp_path):
    (tmp_path / "study.json").write_text(crossward("study", "example", "--json"))  # JSON is YAML
    digests = {json.loads(crossward("study", "check", tmp_path / "study.json", "--json"))["digest"]}
    (tmp_path / "study.yaml").write_text(crossward("study", "example"))
    digests.add(json.loads(crossward("study", "check", tmp_path / "study.yaml", "--json"))["digest"])
    assert len(digests) == 1


def test_an_example_with_data_names_its_files(crossward, tmp_path):
    said = json.loads(crossward("study", "example", "--data", tmp_path / "try", "--json"))
    assert sorted(said["files"]) == sorted(path.name for path in (tmp_path / "try").iterdir())


def test_a_study_is_shown_with_whom_it_waits_for(crossward, monkeypatch):
    task = {"party": "main", "kind": "train-source", "state": "ready", "progress": 0.0, "cause": ""}
    waiting = {"party": "main", "party_state": "stopped", "last_seen": "2026-03-01T09:30:00Z"}
    state = {"id": "s1", "state": "sources", "cause": "", "chosen": None, "tasks": [task], "waiting_for": [waiting]}
    monkeypatch.setattr(Client, "study", lambda self, study: state)
    shown = crossward("study", "show", "s1", "--token", "cw_lead_x")
    assert "waiting for main (stopped), last seen 2026-03-01 09:30:00" in shown
