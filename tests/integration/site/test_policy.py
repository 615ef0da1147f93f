"""Policy and steward over a real federation: every task is asked, and what is charged is measured once more."""

from __future__ import annotations

import pytest

from crossward.errors import Conflict, NotConverged
from crossward_site.approvals import service as approvals
from crossward_site.data.places import FilePlace
from crossward_site.data.service import Vault
from crossward_site.tasks import steps


def ran(federation, given, **rules):
    """A study, carried as far as it goes."""
    main, branch = federation.hospital("main", "source"), federation.hospital("branch", "target", rows=1500)
    branch.policy(**{"decide": "approve"} | rules)
    federation.start(given)
    main.settle()
    branch.drive()
    return main, branch


@pytest.mark.parametrize("method", ["sourced", "average"])
def test_a_task_that_reads_nothing_is_asked_too(federation, study, method) -> None:
    _, branch = ran(federation, study(method=method), decide="ask")
    [asked] = approvals.waiting(branch.site)
    assert (asked.state, asked.epsilon, asked.costs) == ("waiting", 0.0, [])
    approvals.answer(branch.site, asked.task, True)
    branch.settle()
    assert federation.study("sugar")["state"] == "complete"


@pytest.mark.parametrize("rules", [{"methods": ("direct",)}, {"studies": ("heart-*",)}, {"leads": ("nobody",)}])
def test_policy_refuses_a_task_that_reads_nothing(federation, study, rules) -> None:
    _, branch = ran(federation, study(method="sourced"), **rules)
    assert [(task.state, task.reason) for task in branch.tasks()] == [("declined", "policy")]


def second_dataset(hospital, **more) -> None:
    other = hospital.files / "visits.csv"  # of other people
    other.write_text((hospital.files / "table.csv").read_text().replace("\np", "\nq"))
    vault = Vault(hospital.site)
    vault.open("visits", FilePlace(kind="csv", path="visits.csv"), vault.dataset("patients").mapping, **more)


def test_what_the_steward_chose_is_measured_too(federation, study) -> None:
    branch = federation.hospital("branch", "target")
    second_dataset(branch, records_per_person=3)
    branch.policy(decide="approve", epsilon_per_study=4.0)
    federation.start(study(method="direct"))
    branch.drive()
    [asked] = approvals.waiting(branch.site)
    assert (asked.epsilon, asked.epsilon_charged) == (2.0, 0.0)
    costs = {cost.dataset: (cost.epsilon, cost.delta) for cost in asked.costs}
    assert costs == {"patients": (2.0, 0.0), "visits": (6.0, 0.0)}
    approvals.answer(branch.site, asked.task, True, "visits")
    branch.drive()
    [task] = branch.tasks()
    assert (task.state, task.reason) == ("declined", "policy")
    assert branch.lines("reserve") == []


def test_what_was_charged_for_one_dataset_is_trained_on_no_other(federation, study, monkeypatch) -> None:
    branch = federation.hospital("branch", "target")
    for _ in range(2):
        Vault(branch.site).refresh("patients")
    federation.start(study(method="direct"))

    def stop(*given):
        raise NotConverged("The solver found no step.")

    with monkeypatch.context() as patched:
        patched.setattr(steps, "train", stop)
        branch.drive()
    second_dataset(branch, records_per_person=3)  # its first version
    [held] = approvals.waiting(branch.site)
    assert [(cost.dataset, cost.epsilon) for cost in held.costs] == [("patients", 0.0), ("visits", 0.0)]
    with pytest.raises(Conflict, match="charged for patients"):
        approvals.answer(branch.site, held.task, True, "visits")
    approvals.answer(branch.site, held.task, True)
    branch.settle()
    [task] = branch.tasks()
    assert (task.state, task.dataset, task.version) == ("settled", "patients", 3)


def test_two_approved_tasks_do_not_pass_a_limit_together(federation, study, monkeypatch) -> None:
    monkeypatch.setattr(steps, "_is_over", lambda *given: False)  # the coordinator never heard of these tasks
    branch = federation.hospital("branch", "target")
    branch.policy(decide="approve", epsilon_lifetime=3.0)
    both = [branch.offered(study(id, method="direct"), id) for id in ("one", "two")]
    assert [task.state for task in both] == ["approved", "approved"]
    after = [branch.stepped(task) for task in both]
    assert [(task.state, task.reason) for task in after] == [("reserved", None), ("declining", "policy")]
    assert len(branch.lines("reserve")) == 1


def test_one_study_in_two_tasks_keeps_to_its_limit(federation, study, monkeypatch) -> None:
    monkeypatch.setattr(steps, "_is_over", lambda *given: False)  # the coordinator never heard of these tasks
    branch = federation.hospital("branch", "target")
    branch.policy(decide="approve", epsilon_per_study=3.0)
    both = [branch.offered(study(method="direct"), id) for id in ("one", "two")]
    assert [branch.stepped(task).state for task in both] == ["reserved", "declining"]


def test_the_task_names_the_studys_lead(federation, study) -> None:
    branch = federation.hospital("branch", "target", decide="ask")
    federation.start(study(method="direct"))
    branch.drive()
    lead = federation.study("sugar")["lead"]
    assert lead
    assert [item.lead for item in approvals.waiting(branch.site)] == [lead]


def test_only_listed_leads_get_anything(federation, study) -> None:
    branch = federation.hospital("branch", "target")
    branch.policy(decide="approve", leads=("dr-*",))
    assert branch.offered(study("one", method="direct"), "one", lead="dr-may").state == "approved"
    for id, lead in (("two", "mallory"), ("three", "")):
        refused = branch.offered(study(id, method="direct"), id, lead=lead)
        assert (refused.state, refused.reason) == ("declining", "policy")
        assert "lead" in refused.cause


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"epsilon_per_study": 1.0}, "epsilon 1 per study"),
        ({"epsilon_lifetime": 1.0}, "epsilon 1 in all"),
        ({"minimum_rows": 5000}, "at least 5000 rows"),
        ({"methods": ("pst-h",)}, "does not run"),
        ({"studies": ("heart-*",)}, "not on the site's list"),
    ],
)
def test_policy_refuses(federation, study, rules, words) -> None:
    branch = federation.hospital("branch", "target")
    branch.policy(decide="approve", **rules)
    federation.start(study(method="direct"))
    branch.settle()
    [task] = federation.study("sugar")["tasks"]
    assert task["state"] == "declined"
    assert words in task["cause"]
    assert branch.lines("reserve") == []
