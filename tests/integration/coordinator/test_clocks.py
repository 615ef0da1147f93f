"""Leases and deadlines last as long as the coordinator was there to be reached, whatever the clocks show."""

import time
from contextlib import contextmanager

import pytest

from crossward.errors import Expired, StorageBusy
from crossward.protocol import keys
from crossward_coordinator.clock import PURGE_SECONDS
from crossward_coordinator.parties.signatures import DatabaseNonces
from crossward_coordinator.times import LONGEST_STEP
from crossward_service.db.engine import read
from crossward_service.http.signing import SKEW
from machines import StillMachine

DAY = 86_400.0
LEASE = 600.0


@pytest.fixture
def leased(world_of, url):
    """A study whose one task is leased, at a coordinator that was then stopped; its deadline is in a day."""
    world = world_of(url, serve=False, lease_seconds=LEASE)
    with world.serving():
        study = world.begin(method="direct", quorum={"deadline": "1d"})
        world.sites["branch-1"].take()
    return world, study


@contextmanager
def standing(world, **clocks):
    """A coordinator's clock that ticks only when it is told to, on a machine where no time passes."""
    machine = StillMachine(**clocks)
    app = world.app(machine)
    try:
        yield app.state.clock, machine
    finally:
        app.state.engine.dispose()


def shown(world, study):
    with world.serving():
        return world.show(study)["state"], world.task(study, "branch-1")["state"]


@pytest.mark.parametrize("days", [30, -30])
def test_a_wall_clock_that_jumps_by_days_ends_no_lease_and_no_deadline(leased, days):
    world, study = leased
    before = world.stored()
    with standing(world, time=time.time()) as (clock, machine):
        clock.tick()
        machine.time += days * DAY
        for _ in range(5):
            clock.tick()
    assert world.stored() == before
    assert shown(world, study) == ("targets", "leased")


def test_a_hang_ends_no_lease(leased):
    world, study = leased
    before = world.stored()
    with standing(world) as (clock, machine):
        clock.tick()
        machine.passed += 30 * DAY
        clock.tick()
    assert world.stored() == before
    assert shown(world, study) == ("targets", "leased")


def test_nor_does_a_restart_after_days(leased):
    world, _ = leased
    before = world.stored()
    for days in (1, 20, 400):
        with standing(world, time=time.time() + days * DAY, passed=days * DAY) as (clock, _):
            clock.tick()
    assert world.stored() == before


def test_an_age_that_cannot_be_noted_keeps_nothing_else_from_happening(leased, monkeypatch):
    """Another worker that hangs may hold the row."""
    world, study = leased
    with standing(world) as (clock, machine):
        clock.tick()

        def busy():
            raise StorageBusy("The row is held.", "Try again.")

        monkeypatch.setattr(clock.times, "keep", busy)
        for _ in range(int(LEASE / LONGEST_STEP) + 1):
            machine.passed += LONGEST_STEP
            clock.tick()
    assert shown(world, study) == ("targets", "ready")


def test_time_that_passes_ends_the_lease_and_then_the_study(leased):
    world, study = leased
    with standing(world) as (clock, machine):
        for _ in range(int(LEASE / LONGEST_STEP) + 1):
            machine.passed += LONGEST_STEP
            clock.tick()
    with world.serving():
        assert world.sites["branch-1"].take(wait=120).attempt == 2
    world.pass_deadline(study)
    with standing(world) as (clock, _):
        clock.tick()
    assert shown(world, study) == ("failed", "cancelled")


def test_a_wall_clock_that_jumps_forgets_no_nonce_that_could_count_again(world_of, url):
    world = world_of(url, serve=False)
    with world.serving():
        key_id = keys.key_id(world.site("main", "source").key)
    with standing(world) as (clock, machine):
        began = machine.time
        spent = DatabaseNonces(clock.times._engine, machine.now)
        assert not spent.seen("main", key_id, "a", int(began) + 2 * SKEW)
        clock.tick()
        machine.time += 30 * DAY
        for _ in range(int(2 * SKEW / LONGEST_STEP)):  # so long a signature may count, were the clock right
            machine.passed += LONGEST_STEP
            clock.tick()
        machine.time = began
        clock.tick()
        assert spent.seen("main", key_id, "a", int(began) + 2 * SKEW)
        for _ in range(int(3 * PURGE_SECONDS / LONGEST_STEP)):  # and in the end they are forgotten
            machine.passed += LONGEST_STEP
            machine.time += LONGEST_STEP
            clock.tick()
        assert not spent.seen("main", key_id, "a", int(began) + 2 * SKEW)


def test_an_orderly_stop_keeps_all_of_the_age(world_of, url):
    world = world_of(url, serve=False)
    for number in range(3):
        with standing(world) as (clock, machine):
            with read(clock.times._engine) as connection:
                assert clock.times.now(connection).age == number
            clock.start()
            machine.passed += 1  # too little to be noted by the way
            clock.stop()


def test_a_wall_clock_that_is_put_right_finds_all_as_it_was(world_of, sqlite_url):
    """While it is wrong no signature counts; afterwards nothing was lost."""
    world = world_of(sqlite_url)
    world.begin(method="direct")
    site = world.sites["branch-1"]
    task = site.take()
    for days in (3, -3):
        world.machine.wall = days * DAY
        with pytest.raises(Expired):
            site.heartbeat(task)
    world.machine.wall = 0.0
    assert not site.heartbeat(task)["cancelled"]
    assert site.next() is None
    site.publish(site.result(task))
