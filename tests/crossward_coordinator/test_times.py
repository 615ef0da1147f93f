"""The coordinator's age: it passes while a coordinator is there to answer, and at no other time."""

from types import SimpleNamespace

import pytest

from crossward_coordinator.database import MIGRATIONS
from crossward_coordinator.times import LONGEST_STEP, WRITE_SECONDS, Timekeeper
from crossward_service.db.engine import connect, read
from machines import StillMachine

DAY = 86_400.0


@pytest.fixture
def engine(url):
    made = connect(url)
    MIGRATIONS.upgrade(made)
    yield made
    made.dispose()


def now(times):
    with read(times._engine) as connection:
        return times.now(connection)


def tick(times):
    """As the coordinator's clock does."""
    with read(times._engine) as connection:
        now = times.tick(connection)
    times.keep_soon()
    return now


@pytest.fixture
def process(engine):
    """Makes processes of a coordinator, each with a machine of its own, at their first look at the clock."""

    def make(passed=0.0):
        machine = StillMachine(passed=passed)
        made = SimpleNamespace(machine=machine, times=Timekeeper(engine, machine))
        now(made.times)
        return made

    return make


def live(*processes, seconds, step=1.0):
    """Let time pass, the same for all."""
    for _ in range(int(seconds / step)):
        for process in processes:
            process.machine.passed += step
            tick(process.times)


def test_the_age_is_what_has_passed(process):
    one = process(passed=777.0)
    assert now(one.times).age == 0
    live(one, seconds=100)
    one.machine.passed += 0.5
    assert now(one.times) == (one.machine.time, 100.5)


@pytest.mark.parametrize("days", [400, -400])
def test_a_wall_clock_that_jumps_changes_no_age(process, days):
    one = process()
    live(one, seconds=60)
    one.machine.time += days * DAY
    live(one, seconds=60)
    assert now(one.times) == (one.machine.time, 120)


def test_a_hang_counts_for_no_more_than_a_step(process):
    one = process()
    live(one, seconds=60)
    one.machine.passed += 30 * DAY
    assert now(one.times).age == 60 + LONGEST_STEP
    assert tick(one.times).age == 60 + LONGEST_STEP
    live(one, seconds=60)
    assert now(one.times).age == 120 + LONGEST_STEP


def test_a_clock_that_goes_back_takes_nothing_away(process):
    """A monotonic clock does not; a machine that was restored from a snapshot may."""
    one = process(passed=1000.0)
    live(one, seconds=60)
    one.machine.passed = 5.0
    assert tick(one.times).age == 60
    live(one, seconds=60)
    assert now(one.times).age == 120


def test_the_age_survives_a_restart(process):
    one = process()
    live(one, seconds=60)
    one.machine.passed += 2.5
    one.times.keep()
    two = process(passed=9_000.0)  # another machine, or this one after a while
    assert now(two.times).age == 62.5
    live(two, seconds=60)
    assert now(two.times).age == 122.5


def test_a_crash_forgets_a_few_seconds_of_it_and_adds_none(process):
    age = 0.0
    for _ in range(5):
        one = process()
        assert age - WRITE_SECONDS <= now(one.times).age <= age
        live(one, seconds=33.5, step=0.5)
        age = now(one.times).age
    assert 5 * (33.5 - WRITE_SECONDS) <= age <= 5 * 33.5


def test_the_age_that_was_noted_never_goes_back(process):
    old, young = process(), process()
    live(old, seconds=100)
    old.times.keep()
    young.machine.passed += 1
    young.times.keep()  # it has not looked since it began
    assert now(process().times).age == 100


def test_two_processes_on_one_database_count_once(process):
    one, two = process(passed=10.0), process(passed=20_000.0)
    live(one, two, seconds=300)
    assert now(one.times).age == now(two.times).age == 300


def test_the_one_that_hung_learns_the_age_from_the_other(process):
    one, two = process(), process()
    live(one, two, seconds=60)
    live(one, seconds=600)
    two.machine.passed += 600
    live(one, two, seconds=1)
    assert now(one.times).age == 661
    assert 661 - WRITE_SECONDS <= now(two.times).age <= 661
    live(one, two, seconds=600)
    assert now(one.times).age == 1261
    assert now(two.times).age <= 1261


def test_what_a_look_at_the_database_takes_is_counted_once(engine):
    """However slow the database is, time passes neither faster nor slower."""

    class Slow(StillMachine):
        def elapsed(self):
            self.passed += 0.25  # whatever was done since the last look took so long
            return self.passed

    machine = Slow()
    times = Timekeeper(engine, machine)
    with read(engine) as connection:
        times.tick(connection)
        began = machine.passed
        for _ in range(100):
            age = times.tick(connection).age
    assert age == machine.passed - began + 0.25


def test_the_first_notes_of_two_processes_do_not_collide(process):
    one, two = process(), process()
    assert tick(one.times).age == tick(two.times).age == 0


def test_one_whose_clock_is_late_asks_before_it_answers(process):
    """Else it would grant a lease that has ended already by the age of the others."""
    late, other = process(), process()
    live(late, other, seconds=60)
    live(other, seconds=200)
    late.machine.passed += 200
    assert 260 - WRITE_SECONDS <= now(late.times).age <= 260
