"""Sources that the quorum was reached without: who had paid may finish, and nobody learns from it."""

import pytest

from crossward.errors import (
    NotReserved,
    TaskEnded,
)
from crossward.protocol.tasks import ResultMessage


@pytest.fixture
def behind(world):
    """A source that takes its time, in a study that needs one of two."""
    study = world.begin(sources=["main", "west"], quorum={"sources": 1})
    site = world.sites["west"]
    task = site.next()
    return world, study, site, task


@pytest.mark.parametrize("paid_before", [True, False])
def test_what_was_paid_for_is_taken_after_the_quorum_and_not_used(behind, paid_before):
    """Whether the mirror learned of the charge before the quorum or after it."""
    world, study, site, task = behind
    result = site.result(task)
    if paid_before:
        site.send_lines(site.lines[:3])  # opened, seated and reserved
    world.sites["main"].work()
    assert world.task(study, "west")["state"] == ("leased" if paid_before else "cancelled")
    assert site.heartbeat(task)["cancelled"] is not paid_before
    site.send_lines(site.lines[:3])
    assert site.heartbeat(task)["cancelled"] is False  # it has paid: it may finish
    assert [waited["party"] for waited in world.show(study)["waiting_for"]] == ["branch-1"]
    first = site.publish(result)
    assert site.publish(result) == first
    shown = world.task(study, "west")
    assert (shown["state"], shown["release"]) == ("late", result.release.digest)
    with pytest.raises(TaskEnded):
        site.decline(task)
    target = world.sites["branch-1"].next()
    assert [release.party for release in target.inputs] == ["main"]
    world.sites["branch-1"].publish(world.sites["branch-1"].result(target))
    assert world.show(study)["state"] == "complete"
    text = world.ask("auditor", "GET", f"/studies/{study.id}/certificate", params={"form": "text"}).body.decode()
    assert "west (train-source): late" in text
    assert result.release.digest in text


def test_what_was_not_paid_for_ends_with_the_quorum(behind):
    world, study, site, task = behind
    site.send_lines()
    world.sites["main"].work()
    assert world.task(study, "west")["state"] == "cancelled"
    assert site.heartbeat(task)["cancelled"]
    release, _ = site.train(task)
    world.refuses(site, task.id, NotReserved, ResultMessage(task=task.id, release=release).canonical())


def test_after_the_end_nothing_is_late(behind):
    """The certificate has been signed: it says all that was released."""
    world, study, site, task = behind
    result = site.result(task)
    site.send_lines(site.lines[:3])
    world.sites["main"].work()
    world.sites["branch-1"].work()
    assert world.show(study)["state"] == "complete"
    assert site.heartbeat(task)["cancelled"]
    world.refuses(site, task.id, TaskEnded, result.canonical(), "cancelled")


def test_a_source_that_paid_and_fell_silent_is_given_its_task_again(world_of, url):
    world = world_of(url)
    study = world.begin(sources=["main", "west"], quorum={"sources": 1})
    site = world.sites["west"]
    result = site.result(site.next())
    site.send_lines(site.lines[:3])
    world.sites["main"].work()
    world.expire_leases()
    again = site.next(wait=120)
    assert again.id == result.task
    site.publish(result)
    assert world.task(study, "west")["state"] == "late"
