"""A task is one party's while its lease lasts; heartbeats keep it, and a lease that ends gives it again."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select

from crossward.errors import Conflict, InvalidMessage
from crossward.protocol.tasks import HeartbeatMessage
from crossward_coordinator.tasks.tables import tasks
from crossward_service.db.engine import connect, read


def leased(world):
    """The one task that there is, as it is stored."""
    engine = connect(world.settings["database_url"])
    with read(engine) as connection:
        found = connection.execute(select(tasks)).one()
    engine.dispose()
    return found


def test_two_workers_never_lease_a_task_twice(world):
    study = world.begin()
    before = world.show(study)["events"]
    urls = [world.url, world.serve()]
    site = world.sites["main"]
    for url in urls:
        site.call("GET", "/v1/parties", url=url)
    together = threading.Barrier(6)

    def take(number):
        together.wait()
        return site.next(url=urls[number % 2])

    with ThreadPoolExecutor(6) as pool:
        given = list(pool.map(take, range(6)))
    assert {(task.id, task.attempt) for task in given if task} == {(given[0].id, 1)}
    assert world.show(study)["events"] == before + 1
    site.heartbeat(given[0])
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(take, range(6))) == [None] * 6


def test_a_task_whose_answer_was_lost_is_given_again_at_once(world):
    world.begin(method="direct")
    site = world.sites["branch-1"]
    lost = site.next()
    before = leased(world)
    assert site.next() == lost
    assert leased(world) == before  # the same lease, no longer than before
    site.heartbeat(lost)
    assert site.next() is None


def test_a_task_that_is_never_taken_in_keeps_no_other_back(world):
    """Its lease ends however often it is asked for; then the others have their turn."""
    for name in ("one", "two"):
        world.begin(id=name, method="direct")
    site = world.sites["branch-1"]
    first = site.next()
    for _ in range(3):
        assert site.next() == first
    world.expire_leases()
    other = site.take(wait=120)
    assert other.id != first.id
    again = site.next(wait=120)
    assert (again.id, again.attempt) == (first.id, 2)


def test_a_lease_expires_and_the_task_is_given_again(world_of, url):
    world = world_of(url)
    study = world.begin(method="direct")
    site = world.sites["branch-1"]
    first = site.take()
    assert site.next() is None
    world.expire_leases()
    second = site.next(wait=120)
    assert (second.id, second.attempt) == (first.id, 2)
    with pytest.raises(Conflict):
        site.heartbeat(first)
    site.publish(site.result(first))  # a result is welcome as long as the task is open
    assert world.show(study)["state"] == "complete"


def test_heartbeats_keep_a_lease(world_of, sqlite_url):
    """Also one that has expired and that nobody else has taken: the clock may have noticed already, or not."""
    world = world_of(sqlite_url, backoff_seconds=3600)
    world.begin(method="direct")
    site = world.sites["branch-1"]
    task = site.next()
    for _ in range(3):
        world.expire_leases()
        assert not site.heartbeat(task)["cancelled"]
        kept = leased(world)
        assert (kept.state, kept.attempt) == ("leased", 1)
        assert kept.lease_until >= world.settings["lease_seconds"]
    assert site.next() is None


def test_after_so_many_attempts_a_task_has_failed(world_of, url):
    world = world_of(url, attempts=2)
    study = world.begin(method="direct")
    site = world.sites["branch-1"]
    for attempt in (1, 2):
        assert site.next(wait=120).attempt == attempt
        world.expire_leases()
    shown = world.until(study, "failed")
    assert "2 leases ended without a result" in shown["cause"]


def test_heartbeats_of_another_attempt(about):
    world, site, task, _ = about
    assert site.heartbeat(task, 0.35) == {
        "task": task.id,
        "state": "leased",
        "cancelled": False,
        "cause": "",
        "lease_seconds": world.settings["lease_seconds"],
    }
    shown = world.ask("lead", "GET", "/studies/demo").json()["tasks"][0]
    assert shown["progress"] == 0.35
    with pytest.raises(Conflict, match="Attempt 1"):
        site.heartbeat(task, attempt=2)
    with pytest.raises(InvalidMessage, match="another task"):
        site.call("POST", "/v1/tasks/other/heartbeat", body=HeartbeatMessage(task="x", progress=0.5).canonical())


def test_heartbeats_write_few_events(small):
    study = small.begin()
    site = small.sites["main"]
    task = site.next()
    before = small.show(study)["events"]
    for progress in (0.5, 0.0, 0.5, 0.1, 0.5):
        site.heartbeat(task, progress)
    assert small.show(study)["events"] == before + 1
