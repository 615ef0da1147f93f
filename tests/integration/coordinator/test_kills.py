"""A coordinator that is killed, at any point, has done all of a request or nothing; and goes on where it was."""

import re
from contextlib import suppress
from pathlib import Path

import pytest

import crossward_coordinator
from crossward.errors import Unreachable

POINTS = (
    "study-started",  # tasks are written, not committed
    "lease-granted",  # committed, not answered
    "before-store",  # a result was verified, nothing is written
    "after-store",  # all is written, not committed
    "after-commit",  # committed, not answered
    "aggregate-computed",  # the aggregate exists in memory only
)
"""Where the tests below kill a coordinator."""


def test_there_is_no_point_that_nothing_is_killed_at():
    sources = Path(crossward_coordinator.__file__).parent.rglob("*.py")
    named = [name for file in sources for name in re.findall(r'crash_point\("([^"]+)"\)', file.read_text())]
    assert sorted(named) == sorted(POINTS)


@pytest.mark.parametrize("point", ["before-store", "after-store", "after-commit"])
def test_killed_while_it_takes_a_result(world_of, url, zygote, dies, point):
    """Before the commit nothing has happened; after it, all has. The site sends the same bytes again."""
    world = world_of(url, serve=False)
    with world.serving():
        study = world.begin()
        site = world.sites["main"]
        task = site.next()
        result = site.result(task)
    with zygote.coordinator(world.settings, crash_at=point) as address, dies():
        site.publish(result, url=address)
    with world.serving():
        shown = world.show(study)
        assert shown["state"] == ("targets" if point == "after-commit" else "sources")
        receipt = site.publish(result)
        assert site.publish(result) == receipt
        assert world.ask("auditor", "GET", "/ledger/main/verify").json()["head"]["sequence"] == 4
        world.sites["branch-1"].work()
        assert world.show(study)["state"] == "complete"


def test_killed_while_it_starts_a_study(world_of, url, zygote, dies):
    world = world_of(url, serve=False)
    with world.serving():
        study = world.create()
        world.site("main", "source")
        world.site("branch-1", "target")
    with zygote.coordinator(world.settings, crash_at="study-started") as world.url, dies():
        world.start(study)
    with world.serving():
        assert world.show(study)["state"] == "draft"
        world.start(study)
        world.sites["main"].work()
        world.sites["branch-1"].work()
        assert world.show(study)["state"] == "complete"


def test_killed_after_it_granted_a_lease(world_of, url, zygote, dies):
    """Nobody knows of the lease: the task is given again at once, under the same."""
    world = world_of(url, serve=False)
    with world.serving():
        study = world.begin(method="direct")
        site = world.sites["branch-1"]
    with zygote.coordinator(world.settings, crash_at="lease-granted") as address, dies():
        site.next(url=address)
    with world.serving():
        task = site.next()
        assert task.attempt == 1
        site.publish(site.result(task))
        assert world.show(study)["state"] == "complete"


def test_killed_before_it_stored_the_aggregate(world_of, url, zygote):
    world = world_of(url, serve=False)
    with world.serving():
        study = world.create(method={"name": "feature", "public_set": "survey"})
        world.ask("lead", "PUT", f"/studies/{study.id}/public-set", body=world.public_csv(study, rows=60))
        main, target = world.site("main", "source"), world.site("branch-1", "target")
        world.start(study)
        task = main.next()
        result = main.result(task)
    with zygote.coordinator(world.settings, crash_at="aggregate-computed") as address, suppress(Unreachable):
        main.publish(result, url=address)  # the clock then aggregates and dies, perhaps before the answer is out
    world.expire_leases()
    with world.serving():
        target.work()
        assert world.show(study)["state"] == "complete"


def test_killed_in_the_middle_of_a_long_poll(world_of, sqlite_url, zygote):
    world = world_of(sqlite_url, serve=False)
    with zygote.coordinator(world.settings) as world.url:
        study = world.begin()
        assert world.sites["branch-1"].next(wait=0.1) is None
    with world.serving():
        world.sites["main"].work()
        world.sites["branch-1"].work()
        assert world.show(study)["state"] == "complete"
