"""A study starts when everyone can take part, and is cancelled once."""

import pytest

from crossward.errors import Conflict, NotFound


def test_a_study_starts_when_everyone_can_take_part(world):
    study = world.create(sources=["main", "west"], targets=["branch-1"])
    world.site("main", "target")
    world.site("branch-1", "target")
    with pytest.raises(Conflict) as caught:
        world.start(study)
    assert "main is a target, not a source" in caught.value.cause
    assert "west is not enrolled" in caught.value.cause
    assert "branch-1" not in caught.value.cause
    world.ask("operator", "DELETE", "/parties/branch-1")
    with pytest.raises(Conflict, match="branch-1 is revoked"):
        world.start(study)
    assert world.show(study)["state"] == "draft"
    with pytest.raises(NotFound):
        world.ask("lead", "POST", "/studies/nothing/start")


def test_to_start_again_changes_nothing(world):
    study = world.begin()
    world.sites["main"].work()
    before = world.show(study)
    world.start(study)
    assert world.show(study) == before


def test_a_study_is_cancelled_once(world):
    study = world.begin()
    task = world.sites["main"].next()
    shown = world.ask("lead", "POST", f"/studies/{study.id}/cancel", body={"reason": "Wrong label."}).json()
    assert (shown["state"], shown["cause"]) == ("cancelled", "Wrong label.")
    assert [task["state"] for task in shown["tasks"]] == ["cancelled"]
    pulse = world.sites["main"].heartbeat(task)
    assert (pulse["cancelled"], pulse["cause"]) == (True, "Wrong label.")
    assert world.sites["main"].decline(task).status == 204
    world.ask("lead", "POST", f"/studies/{study.id}/cancel")
    assert world.show(study)["events"] == shown["events"]
    with pytest.raises(Conflict, match="cancelled"):
        world.start(study)


def test_what_has_ended_cannot_be_cancelled(small):
    study = small.begin(method="direct")
    small.sites["branch-1"].work()
    with pytest.raises(Conflict, match="complete"):
        small.ask("lead", "POST", f"/studies/{study.id}/cancel")
