"""A paid AUC: of what, within which limits, and charged once before a record is read."""

from __future__ import annotations

import threading
import time

import pytest

from crossward.errors import BudgetExceeded, InvalidSetting, StorageFailed, Unreachable
from crossward.study import wire
from crossward_service.db.engine import read
from crossward_site.data import jobs
from crossward_site.data.jobs import JobRunner
from crossward_site.data.requests import WORKS
from crossward_site.data.service import Vault
from crossward_site.data.tables import JobKind, JobState
from crossward_site.models import jobs as model_jobs
from crossward_site.models import paid_auc
from crossward_site.models.service import Models


def ran(federation, given, **rules):
    """A study, carried as far as it goes."""
    main, branch = federation.hospital("main", "source"), federation.hospital("branch", "target", rows=1500)
    branch.policy(**{"decide": "approve"} | rules)
    federation.start(given)
    main.settle()
    branch.drive()
    return main, branch


def upgrade(monkeypatch) -> None:
    """From here on the code has another version."""
    monkeypatch.setattr(wire, "__version__", "99.0")


def test_a_boosted_model_has_no_paid_auc(federation, study) -> None:
    _, branch = ran(federation, study(method="boosted"))
    with pytest.raises(InvalidSetting, match="nobody paid for"):
        paid_auc.paid_auc(branch.site, branch.runners[-1].coordinator(), Models(branch.site).of("sugar"), 1.0)
    assert branch.lines("reserve") == []


def test_a_model_made_of_releases_has_one(federation, study) -> None:
    _, branch = ran(federation, study(method="sourced"))
    served = Models(branch.site).of("sugar")
    assert 0 <= paid_auc.paid_auc(branch.site, branch.runners[-1].coordinator(), served, 2.0).auc <= 1


@pytest.mark.parametrize(
    ("rules", "words"), [({"epsilon_per_study": 3.0}, "3 per study"), ({"epsilon_lifetime": 3.0}, "3 in all")]
)
def test_a_paid_auc_keeps_to_the_policy(federation, study, rules, words) -> None:
    _, branch = ran(federation, study(method="direct"), **rules)
    served, line = Models(branch.site).of("sugar"), branch.runners[-1].coordinator()
    with pytest.raises(BudgetExceeded, match=words):
        paid_auc.paid_auc(branch.site, line, served, 1.5)
    assert len(branch.lines("reserve")) == 1
    first = paid_auc.paid_auc(branch.site, line, served, 1.0)
    assert paid_auc.paid_auc(branch.site, line, served, 1.0) == first


def test_a_paid_auc_reads_nothing_before_its_charge_and_is_charged_once(federation, study, monkeypatch) -> None:
    _, branch = ran(federation, study(method="direct"), epsilon_lifetime=3.0)
    served, line = Models(branch.site).of("sugar"), branch.runners[-1].coordinator()
    seen = []

    def unreadable(self, *given):
        seen.append(len(federation.mirror("branch")))
        raise StorageFailed("The disk is gone.", "Bring it back.")

    with monkeypatch.context() as patched:
        patched.setattr(Vault, "rows", unreadable)
        with pytest.raises(StorageFailed):
            paid_auc.paid_auc(branch.site, line, served, 1.0)
    assert len(branch.lines("reserve")) == 2
    assert seen == [len(branch.lines())]
    (branch.files / "table.csv").unlink()  # nobody reads it any more
    upgrade(monkeypatch)
    paid_auc.paid_auc(branch.site, line, served, 1.0)
    assert len(branch.lines("reserve")) == 2


def test_a_version_that_comes_before_the_charge_is_the_one_that_is_charged(federation, study, monkeypatch) -> None:
    """By the numbers of the version before, what is charged could never be released."""
    _, branch = ran(federation, study(method="direct"))
    served, line = Models(branch.site).of("sugar"), branch.runners[-1].coordinator()

    def sync(site, coordinator, original=paid_auc.sync):
        monkeypatch.setattr(paid_auc, "sync", original)
        table = branch.files / "table.csv"
        head, *rows = table.read_text().splitlines()
        table.write_text("\n".join([head, *rows, *(f"new-{row}" for row in rows)]))
        Vault(site).refresh("patients")
        return original(site, coordinator)

    monkeypatch.setattr(paid_auc, "sync", sync)
    assert 0 <= paid_auc.paid_auc(branch.site, line, served, 1.0).auc <= 1
    assert len(branch.lines("release")) == len(branch.lines("reserve")) == 2


def test_what_the_mirror_does_not_have_is_told_to_nobody(federation, study, monkeypatch) -> None:
    """Of two copies of a site that drew noise for one charge, one has its line in the mirror: the other tells none."""
    _, branch = ran(federation, study(method="direct"))
    served, line = Models(branch.site).of("sugar"), branch.runners[-1].coordinator()
    sync, store = paid_auc.sync, paid_auc._store

    def unheard(site, coordinator):
        raise Unreachable("The coordinator does not answer.", "Wait.")

    def stored(site, task, document):
        monkeypatch.setattr(paid_auc, "sync", unheard)
        return store(site, task, document)

    monkeypatch.setattr(paid_auc, "_store", stored)
    for _ in range(2):
        with pytest.raises(Unreachable):
            paid_auc.paid_auc(branch.site, line, served, 1.0)
    assert paid_auc.released(branch.site, "sugar") == []
    monkeypatch.setattr(paid_auc, "sync", sync)
    answer = paid_auc.paid_auc(branch.site, line, served, 1.0)
    assert paid_auc.released(branch.site, "sugar") == [answer]
    monkeypatch.setattr(paid_auc, "sync", unheard)
    assert paid_auc.paid_auc(branch.site, line, served, 1.0) == answer  # it was told before
    assert len(branch.lines("reserve")) == len(branch.lines("release")) == 2


# -- as a job ----------------------------------------------------------------------------------------------------------
def runner_of(branch) -> JobRunner:
    models, coordinator = Models(branch.site), branch.runners[-1].coordinator
    return JobRunner(branch.site, WORKS | model_jobs.works(models, coordinator))


def look(branch, number: int) -> jobs.Job:
    with read(branch.site.engine) as connection:
        return jobs.find(connection, number)


def killed(*_):
    """A process that ends here: what it has not written down has not happened."""
    raise SystemExit


@pytest.mark.parametrize("point", ["before the rows are read", "before it is written down", "before the job ends"])
def test_a_process_that_dies_over_it_has_paid_once_and_the_next_goes_on(federation, study, monkeypatch, point) -> None:
    _, branch = ran(federation, study(method="direct"))
    number = jobs.ask(branch.site, JobKind.AUC, {"study": "sugar", "epsilon": 1.0}).number
    with monkeypatch.context() as patched:
        match point:
            case "before the rows are read":
                patched.setattr(Vault, "rows", killed)
            case "before it is written down":
                patched.setattr(paid_auc, "_store", killed)
            case _:
                patched.setattr(JobRunner, "_move", _unless_ended(JobRunner._move))
        with pytest.raises(SystemExit):
            runner_of(branch).run_one()
    assert look(branch, number).state is JobState.RUNNING
    assert len(branch.lines("reserve")) == 2
    Vault(branch.site).refresh("patients")  # the version that was charged is the one that is read
    assert runner_of(branch).run_one()
    first = look(branch, number)
    assert first.state is JobState.DONE
    assert len(branch.lines("reserve")) == len(branch.lines("release")) == 2
    again = jobs.ask(branch.site, JobKind.AUC, {"study": "sugar", "epsilon": 1.0}).number
    runner_of(branch).run_one()
    assert look(branch, again).result == first.result
    assert len(branch.lines("reserve")) == len(branch.lines("release")) == 2


def _unless_ended(move):
    def moving(self, connection, number, to, of, **values):
        return killed() if to is JobState.DONE else move(self, connection, number, to, of, **values)

    return moving


def test_what_would_be_refused_is_refused_before_it_is_a_job(federation, study, api) -> None:
    _, branch = ran(federation, study(method="direct"), epsilon_per_study=3.0)
    with api(branch) as client:
        refused = client.post("/v1/studies/sugar/auc", json={"epsilon": 2.5})
        assert (refused.status_code, "3 per study" in refused.json()["detail"]) == (409, True)
        assert client.post("/v1/studies/unknown/auc", json={"epsilon": 1.0}).status_code == 404
        assert client.post("/v1/studies/unknown/evaluation").status_code == 404
        assert client.get("/v1/jobs").json()["jobs"] == []


def test_an_auc_that_was_paid_for_is_told_again_where_other_data_fit_too(federation, study, api, ended) -> None:
    _, branch = ran(federation, study(method="sourced"))
    served, line = Models(branch.site).of("sugar"), branch.runners[-1].coordinator()
    first = paid_auc.paid_auc(branch.site, line, served, 2.0)
    patients = Vault(branch.site).dataset("patients")
    Vault(branch.site).open("more", patients.place, patients.mapping)
    with api(branch) as client:
        refused = client.post("/v1/studies/sugar/auc", json={"epsilon": 1.0})
        assert (refused.status_code, "2 datasets fit" in refused.json()["detail"]) == (422, True)
        again = ended(client, client.post("/v1/studies/sugar/auc", json={"epsilon": 2.0}))
        assert (again["dataset"], again["result"]) == ("patients", first.model_dump(mode="json"))


@pytest.mark.parametrize(("path", "body"), [("evaluation", None), ("auc", {"epsilon": 1.0})])
def test_no_request_waits_for_the_records(federation, study, api, ended, monkeypatch, path, body) -> None:
    """The question is answered while the copy is read, a second time too; and the reading can be cancelled."""
    _, branch = ran(federation, study(method="direct"))
    reading, go_on = threading.Event(), threading.Event()
    rows = Vault.rows

    def slow(self, study, role, name, levels, version, progress):
        reading.set()
        assert go_on.wait(600)
        return rows(self, study, role, name, levels, version, progress)

    monkeypatch.setattr(Vault, "rows", slow)
    monkeypatch.setattr(jobs, "PULSE", 0.0)  # it looks up with every block, however fast it was charged
    with api(branch) as client:
        job = client.post(f"/v1/studies/sugar/{path}", json=body)
        assert job.status_code == 202
        assert reading.wait(600)
        again = client.post(f"/v1/studies/sugar/{path}", json=body)
        assert again.json()["number"] == job.json()["number"]
        assert client.get("/v1/status").status_code == 200
        client.delete(f"/v1/jobs/{job.json()['number']}")
        go_on.set()
        while (seen := client.get(f"/v1/jobs/{job.json()['number']}").json())["state"] == "running":
            time.sleep(0.01)
        assert seen["state"] == "cancelled"
        finished = ended(client, client.post(f"/v1/studies/sugar/{path}", json=body))
        assert 0 <= finished["result"]["auc"] <= 1
        assert len(branch.lines("reserve")) == 1 + (path == "auc")
