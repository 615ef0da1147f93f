"""A certificate comes with the end of a study, and says what was charged, released or not."""

import pytest

from crossward.errors import Conflict
from crossward.privacy.budget import Cost
from crossward.protocol.certificate import CertifiedCharge, verify_certificate
from crossward.protocol.ledger.lines import ReleaseBody, ReserveBody
from crossward.protocol.tasks import ResultMessage


def test_no_certificate_before_the_end(small):
    study = small.begin()
    with pytest.raises(Conflict, match="sources"):
        small.ask("auditor", "GET", f"/studies/{study.id}/certificate")
    small.ask("lead", "POST", f"/studies/{study.id}/cancel")
    text = small.ask("auditor", "GET", f"/studies/{study.id}/certificate", params={"form": "text"}).body.decode()
    assert "cancelled" in text


def certified(world, study):
    """The certificate, verified, by party; and its text."""
    public_key = world.ask("lead", "GET", "/coordinator").json()["public_key"]
    path = f"/studies/{study.id}/certificate"
    certificate = verify_certificate(world.ask("auditor", "GET", path).body, public_key)
    return {party.party: party for party in certificate.parties}, certificate.text()


@pytest.mark.parametrize("end", ["cancel", "decline", "deadline"])
def test_a_charge_without_a_release_is_certified(small, end):
    study = small.begin(epsilon=0.25)
    site = small.sites["main"]
    task = site.next()
    site.result(task)
    site.send_lines(site.lines[:3])  # opened, seated and reserved; the study ends before the release comes
    if end == "cancel":
        small.ask("lead", "POST", f"/studies/{study.id}/cancel", body={"reason": "Wrong label."})
    elif end == "decline":
        site.decline(task, "steward")
    else:
        small.pass_deadline(study)
        small.until(study, "failed")
    found, text = certified(small, study)
    assert found["main"].release is None
    assert found["main"].charged == CertifiedCharge(line=3, nano_epsilon=250_000_000, atto_delta=0)
    assert "charged    epsilon 0.25 to each person, nothing released (line 3)" in text


def test_a_task_that_was_not_charged_says_nothing_of_charges(small):
    study = small.begin()
    small.sites["main"].decline(small.sites["main"].next(), "steward")
    found, text = certified(small, study)
    assert found["main"].charged is None
    assert "charged " not in text


def test_what_was_charged_for_several_records_of_a_person_is_certified(small):
    study = small.begin(epsilon=0.125)
    site = small.sites["main"]
    task = site.next()
    release, description = site.train(task)
    site.charge(task, description, Cost(2 * description.cost.nano_epsilon))  # two records of a person at most
    site.append(ReleaseBody(task.id, release.digest))
    site.publish(ResultMessage(task=task.id, release=release, lines=tuple(line.text for line in site.lines)))
    small.sites["branch-1"].work()
    found, text = certified(small, study)
    assert (found["main"].release.cost, found["main"].charged.cost) == (Cost(125_000_000), Cost(250_000_000))
    assert "cost       epsilon 0.125, to each record" in text
    assert "charged    epsilon 0.25 to each person, all records of one together (line 3)" in text


@pytest.mark.parametrize("wrong", ["study", "hash"])
def test_a_reservation_for_another_study_is_no_charge_of_this_one(small, wrong):
    """A party may write what it likes into its own ledger; the certificate, and who verifies it, is not misled."""
    study = small.begin()
    site = small.sites["main"]
    task = site.next()
    named = ("other", study.digest) if wrong == "study" else (study.id, "0" * 64)
    site.append(ReserveBody(task.id, *named, (0,), 1, 0, "0" * 64))
    site.send_lines(site.lines)
    site.decline(task, "steward")
    found, _ = certified(small, study)
    assert found["main"].charged is None


def test_a_charge_after_the_certified_head_is_not_told(small):
    study = small.begin(method="sourced", targets=["branch-1", "branch-2"])
    small.sites["main"].work()
    early = small.sites["branch-1"]
    task = early.next()
    early.publish(early.result(task))
    early.append(ReserveBody(task.id, study.id, study.digest, (0,), 1, 0, "0" * 64))
    early.send_lines()
    small.sites["branch-2"].work()
    found, _ = certified(small, study)
    assert found["branch-1"].charged is None
