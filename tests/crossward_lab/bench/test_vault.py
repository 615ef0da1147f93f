"""The bench of the vault, on a small table: every step is done by a served site, and measured."""

from crossward_lab.bench import vault


def test_every_step_is_measured_while_the_site_answers(monkeypatch):
    monkeypatch.setattr(vault, "READS", 1)
    told = []
    report = vault.vault(2_000, 3, 64, told.append)
    read, check, opened, train = report.steps
    assert [step.name for step in report.steps] == ["read", "check", "open", "train"]
    assert told[-3:] == ["check", "open", "train"]
    assert read.times_read == 1.0
    assert all(step.seconds > 0 and step.peak_mb > 0 for step in report.steps)
    assert all(step.slowest_answer > 0 for step in (check, opened, train))
    assert train.times_read == train.seconds / read.seconds
    assert report.describe()["steps"][3]["name"] == "train"
