"""What a hostile coordinator, a careless policy or an upgrade could do to a site, and what stops it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import delete

from crossward.errors import BudgetExceeded, Conflict, Forged, InvalidData, InvalidSetting, NotConverged
from crossward.privacy import release as releases
from crossward.privacy.budget import Budget
from crossward.protocol import keys
from crossward.protocol.ledger.lines import ReleaseBody
from crossward.protocol.messages import SignedRelease, TaskMessage
from crossward_service.db.engine import read, write
from crossward_site import approvals, paid_auc, pins, steps, tables, tasks
from crossward_site.coordinator import OfferedKey
from crossward_site.identity import Identity, rotate
from crossward_site.models import Models
from crossward_site.steps import advance
from crossward_site.vault import CsvPlace, DataMap, Vault


def ran(federation, given, **rules):
    """A study, carried as far as it goes."""
    main, branch = federation.hospital("main", "source"), federation.hospital("branch", "target", rows=1500)
    branch.policy(**{"decide": "approve"} | rules)
    federation.start(given)
    main.settle()
    branch.drive()
    return main, branch


def offered(hospital, given, id: str = "t1", **message):
    """A task that the coordinator makes up, after the site's first step."""
    message = TaskMessage.of(given, id=id, kind="train-target", lease_seconds=60, **message)
    with write(hospital.site.engine) as connection:
        task = tasks.take(hospital.site, connection, message)
    return stepped(hospital, task)


def stepped(hospital, task):
    runner = hospital.runners[-1] if hospital.runners else hospital.new_runner()
    return advance(hospital.site, runner.coordinator(), task)


def found(hospital, id: str):
    with read(hospital.site.engine) as connection:
        return tasks.find(connection, id)


# -- 1: paid AUC ----------------------------------------------------------------------------------------------------
def test_a_boosted_model_has_no_paid_auc(federation, study) -> None:
    _, branch = ran(federation, study(method="boosted"))
    with pytest.raises(InvalidSetting, match="nobody paid for"):
        paid_auc.paid_auc(branch.site, branch.runners[-1].coordinator(), Models(branch.site).of("sugar"), 1.0)
    assert branch.lines("reserve") == []


def test_a_model_made_of_releases_has_one(federation, study) -> None:
    _, branch = ran(federation, study(method="sourced"))
    served = Models(branch.site).of("sugar")
    assert 0 <= paid_auc.paid_auc(branch.site, branch.runners[-1].coordinator(), served, 2.0)["auc"] <= 1


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
    table = branch.home / "table.csv"
    good = table.read_text()
    table.write_text(good.replace(",N,", ",X,", 1))
    with pytest.raises(InvalidData):
        paid_auc.paid_auc(branch.site, line, served, 1.0)
    assert len(branch.lines("reserve")) == 2
    table.write_text(good)
    upgrade(monkeypatch)
    paid_auc.paid_auc(branch.site, line, served, 1.0)
    assert len(branch.lines("reserve")) == 2


# -- 2: every task is asked -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["sourced", "average"])
def test_a_task_that_reads_nothing_is_asked_too(federation, study, method) -> None:
    _, branch = ran(federation, study(method=method), decide="ask")
    [asked] = approvals.waiting(branch.site)
    assert (asked["state"], asked["epsilon"], asked["costs"]) == ("waiting", 0.0, [])
    approvals.answer(branch.site, asked["task"], True)
    branch.settle()
    assert federation.study("sugar")["state"] == "complete"


@pytest.mark.parametrize("rules", [{"methods": ("direct",)}, {"studies": ("heart-*",)}, {"leads": ("nobody",)}])
def test_policy_refuses_a_task_that_reads_nothing(federation, study, rules) -> None:
    _, branch = ran(federation, study(method="sourced"), **rules)
    assert [(task.state, task.reason) for task in branch.tasks()] == [("declined", "policy")]


def test_the_coordinators_key_verifies_the_aggregate_only(federation, study) -> None:
    branch = federation.hospital("branch", "target")
    line = branch.new_runner().coordinator()
    with pytest.raises(Forged, match="does not sign models"):
        pins.key_finder(branch.site, line)("coordinator", "any")
    assert pins.key_finder(branch.site, line, aggregate=True)("coordinator", "any") == line.identity.verifier
    with pytest.raises(Forged, match="does not sign aggregates"):
        pins.key_finder(branch.site, line, aggregate=True)("main", "any")


def test_no_source_is_called_coordinator(federation, study) -> None:
    branch = federation.hospital("branch", "target")
    refused = offered(branch, study(method="sourced", sources=("coordinator",)))
    assert (refused.state, refused.reason) == ("declining", "unsupported")
    assert "called 'coordinator'" in refused.cause


def test_no_other_study_takes_a_known_id(federation, study) -> None:
    _, branch = ran(federation, study(method="direct", epsilon=1.0))
    refused = offered(branch, study(method="direct", epsilon=2.0))
    assert (refused.state, refused.reason) == ("declining", "unsupported")
    with write(branch.site.engine) as connection:  # the ledger remembers, even where the tasks are forgotten
        for table in (tables.models, tables.outbox, tables.tasks):
            connection.execute(delete(table))
    assert offered(branch, study(method="direct", epsilon=2.0)).state == "declining"
    assert offered(branch, study(method="direct", epsilon=1.0), "t2").state == "approved"


# -- 3: pins --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("origin", ["steward", "coordinator"])
def test_another_key_of_a_pinned_party_waits_for_the_steward(federation, study, origin) -> None:
    main, branch = federation.hospital("main", "source"), federation.hospital("branch", "target")
    with write(branch.site.engine) as connection:
        old = pins.pin(branch.site, connection, "main", keys.public_text(Identity.load(main.site).key), origin)
    new = rotate(main.site)
    federation.start(study())
    main.settle()
    branch.drive()
    [held] = approvals.waiting(branch.site)
    assert held["state"] == "held"
    assert "that this site trusts" in held["cause"]
    with write(branch.site.engine) as connection:
        pins.pin(branch.site, connection, "main", keys.public_text(new.key))
        pins.unpin(connection, "main", old)
        assert [row["key_id"] for row in pins.pinned(connection)] == [new.key_id]
    approvals.answer(branch.site, held["task"], True)
    branch.settle()
    assert federation.study("sugar")["state"] == "complete"


def test_first_use_pins_the_key_that_signed_and_no_other(federation, study, monkeypatch) -> None:
    main, branch = federation.hospital("main", "source"), federation.hospital("branch", "target")
    line = branch.new_runner().coordinator()
    own, other = Identity.load(main.site), keys.generate()
    offered = [OfferedKey(keys.public_text(key), revoked=None) for key in (other, own.key)]
    monkeypatch.setattr(line, "keys_of", lambda party: offered)
    find = pins.key_finder(branch.site, line)
    find("main", own.key_id)
    with pytest.raises(Forged):
        find("main", keys.key_id(other.public_key()))


# -- 4: limits as the charge is made --------------------------------------------------------------------------------
def second_dataset(hospital, **more) -> None:
    other = hospital.home / "visits.csv"  # of other people
    other.write_text((hospital.home / "table.csv").read_text().replace("\np", "\nq"))
    place = CsvPlace(path=str(other))
    mapping = Vault(hospital.site).dataset("patients").mapping
    Vault(hospital.site).connect("visits", place, DataMap.from_data(mapping.model_dump()), Budget.of(50.0), **more)


def test_what_the_steward_chose_is_measured_too(federation, study) -> None:
    branch = federation.hospital("branch", "target")
    second_dataset(branch, records_per_person=3)
    branch.policy(decide="approve", epsilon_per_study=4.0)
    federation.start(study(method="direct"))
    branch.drive()
    [asked] = approvals.waiting(branch.site)
    assert (asked["epsilon"], asked["epsilon_charged"]) == (2.0, 0.0)
    costs = {cost["dataset"]: (cost["epsilon"], cost["delta"]) for cost in asked["costs"]}
    assert costs == {"patients": (2.0, 0.0), "visits": (6.0, 0.0)}
    approvals.answer(branch.site, asked["task"], True, "visits")
    branch.drive()
    [task] = branch.tasks()
    assert (task.state, task.reason) == ("declined", "policy")
    assert branch.lines("reserve") == []


def test_two_approved_tasks_do_not_pass_a_limit_together(federation, study, monkeypatch) -> None:
    monkeypatch.setattr(steps, "_is_over", lambda *given: False)  # the coordinator never heard of these tasks
    branch = federation.hospital("branch", "target")
    branch.policy(decide="approve", epsilon_lifetime=3.0)
    both = [offered(branch, study(id, method="direct"), id) for id in ("one", "two")]
    assert [task.state for task in both] == ["approved", "approved"]
    after = [stepped(branch, task) for task in both]
    assert [(task.state, task.reason) for task in after] == [("reserved", None), ("declining", "policy")]
    assert len(branch.lines("reserve")) == 1


def test_one_study_in_two_tasks_keeps_to_its_limit(federation, study, monkeypatch) -> None:
    monkeypatch.setattr(steps, "_is_over", lambda *given: False)  # the coordinator never heard of these tasks
    branch = federation.hospital("branch", "target")
    branch.policy(decide="approve", epsilon_per_study=3.0)
    both = [offered(branch, study(method="direct"), id) for id in ("one", "two")]
    assert [stepped(branch, task).state for task in both] == ["reserved", "declining"]


# -- 5: records after the charge ------------------------------------------------------------------------------------
def test_no_record_is_read_before_the_charge_is_durable_and_mirrored(federation, study, monkeypatch) -> None:
    branch = federation.hospital("branch", "target")
    seen = []

    def rows(self, *given, original=Vault.rows):
        seen.append([line.kind for line in federation.mirror("branch")])
        return original(self, *given)

    monkeypatch.setattr(Vault, "rows", rows)
    federation.start(study(method="direct"))
    branch.settle()
    assert seen == [["open", "reserve"]]


def test_not_converged_is_held_and_stays_visible_when_cancelled(federation, study, monkeypatch) -> None:
    branch = federation.hospital("branch", "target")

    def stop(*given):
        raise NotConverged("The solver found no step.")

    monkeypatch.setattr(steps, "train", stop)
    federation.start(study(method="direct"))
    branch.drive()
    [held] = approvals.waiting(branch.site)
    assert held["state"] == "held"
    assert "no step" in held["cause"]
    federation.call("lead", "POST", "/v1/studies/sugar/cancel", {"reason": "enough"})
    branch.runners[-1].beat(branch.tasks()[0])
    [ended] = approvals.waiting(branch.site)
    assert ended["state"] == "cancelled"
    assert "no step" in ended["cause"]
    with pytest.raises(Conflict):
        approvals.answer(branch.site, held["task"], True)
    approvals.answer(branch.site, held["task"], False)
    assert approvals.waiting(branch.site) == []
    assert branch.tasks()[0].state == "cancelled"


# -- 6: reservations ------------------------------------------------------------------------------------------------
def upgrade(monkeypatch) -> None:
    """From here on the code has another version."""
    made = releases.Release.describe
    monkeypatch.setattr(releases.Release, "describe", lambda release: made(release) | {"version": "99.0"})


@pytest.mark.parametrize("method", ["direct", "pst-f"])
def test_an_upgrade_after_the_charge_wastes_nothing(federation, study, monkeypatch, method) -> None:
    branch = federation.hospital("branch", "target")
    federation.start(study(method=method))
    branch.drive_until("reserved")
    upgrade(monkeypatch)
    branch.settle()
    assert [line.kind for line in branch.lines()] == ["open", "reserve", "release"]


def test_a_release_whose_bytes_are_lost_is_held(federation, study) -> None:
    branch = federation.hospital("branch", "target")
    federation.start(study(method="direct"))
    branch.drive_until("reserved")
    [task] = branch.tasks()
    with write(branch.site.engine) as connection:
        branch.site.append(connection, ReleaseBody(task.id, "0" * 64))
    held = stepped(branch, task)
    assert held.state == "held"
    assert "does not have its bytes" in held.cause


def test_no_task_stands_on_an_aucs_charge(federation, study) -> None:
    branch = federation.hospital("branch", "target")
    given = study(method="direct")
    refused = offered(branch, given, "auc:2000000000:x")
    assert (refused.state, refused.reason) == ("declining", "unsupported")
    with write(branch.site.engine) as connection:  # nor one that was cancelled, and goes on as if it were charged
        tasks.move(connection, refused, "reserved", 1.0)
    assert stepped(branch, replace(refused, state="reserved")).state == "declining"


# -- 7: leads -------------------------------------------------------------------------------------------------------
def test_the_task_names_the_studys_lead(federation, study) -> None:
    branch = federation.hospital("branch", "target", decide="ask")
    federation.start(study(method="direct"))
    branch.drive()
    lead = federation.study("sugar")["lead"]
    assert lead
    assert [item["lead"] for item in approvals.waiting(branch.site)] == [lead]


def test_only_listed_leads_get_anything(federation, study) -> None:
    branch = federation.hospital("branch", "target")
    branch.policy(decide="approve", leads=("dr-*",))
    assert offered(branch, study("one", method="direct"), "one", lead="dr-may").state == "approved"
    for id, lead in (("two", "mallory"), ("three", "")):
        refused = offered(branch, study(id, method="direct"), id, lead=lead)
        assert (refused.state, refused.reason) == ("declining", "policy")
        assert "lead" in refused.cause


def test_a_forged_release_is_refused_whoever_the_key_is(federation, study) -> None:
    """A false signature under the right key's name is the coordinator's fault, and is said."""
    main, branch = federation.hospital("main", "source"), federation.hospital("branch", "target")
    federation.start(study())
    main.settle()
    runner = branch.new_runner()
    assert runner.take()
    [task] = branch.tasks()
    release, own = task.message.inputs[0], Identity.load(main.site)
    false = SignedRelease.sign(release.content(), keys.generate(), party="main", key_id=own.key_id)
    refused = offered(branch, task.study, "other", inputs=(false,))
    assert (refused.state, refused.reason) == ("declining", "unfit-inputs")
