"""Killed: every service, at every stage, for real. Afterwards one release, the same bytes, one charge."""

from __future__ import annotations

import csv
import io
from contextlib import suppress

import engine
import pytest
from federation import SITES

from crossward.errors import Unreachable
from crossward_lab.demo.records import OUTCOME
from crossward_lab.simulate.hospitals import Federation as Simulated
from crossward_site.tasks.service import CRASH_POINTS as POINTS

STORED = ("after-store", "after-publish", "before-settle")


@pytest.mark.parametrize(("service", "method"), [("main", "simcomb"), ("branch-1", "direct")])
def test_a_hospital_killed_at_every_point_of_one_task_releases_once(federation, service, method):
    """It dies at the first point, goes on from its database, dies at the next, and so on to the last.

    After three deaths over what is not stored yet it asks its steward first.
    """
    begun = federation.study(method, ("branch-1",))
    bytes_before = None
    federation.kill(service)
    for point in POINTS:
        federation.once(service, point)
        federation.start(service, wait=False)
        if point == POINTS[0]:
            federation.lead.start(begun.id)
        elif point == STORED[0]:
            held = federation.in_state(service, begun, "held")
            with suppress(Unreachable):  # it may die before it has said that it heard
                federation.sites[service].decide(held["id"], True)
        assert federation.death(service) == 137, point
        kept = federation.stored(service).get(begun.id)
        assert (kept is not None) == (point in STORED), point
        assert bytes_before in (None, kept), point
        bytes_before = kept
    federation.start(service)
    federation.ended(begun)
    assert federation.stored(service)[begun.id] == bytes_before


def test_the_coordinator_killed_at_every_point_of_one_study_finishes_it(federation):
    """A worker dies at the point; then all of it is killed, while that worker is being replaced."""
    begun = federation.study({"name": "feature", "public_set": "survey"}, ("branch-1",))
    federation.lead.put_public_set(begun.id, public_set(begun.study))
    dying = DyingCoordinator(federation)

    dying.start("study-started")
    with pytest.raises(Unreachable):
        federation.lead.start(begun.id)
    dying.dies()
    assert federation.until("it answers", lambda: federation.lead.study(begun.id))["state"] == "draft"

    dying.start("lease-granted")
    with suppress(Unreachable):  # the worker that has started the study may be the one that dies before it says so
        federation.lead.start(begun.id)
    dying.dies()
    for point in ("before-store", "after-store", "after-commit", "aggregate-computed"):
        dying.start(point, wait=False)
        dying.dies()
    dying.start()
    federation.ended(begun)


class DyingCoordinator:
    """A coordinator whose workers die at a point. It replaces them, so its log is what tells."""

    def __init__(self, federation):
        self._federation, self._container = federation, federation.container("coordinator")

    def start(self, point=None, *, wait=True):
        """Kill all of it, and start it with a point to die at."""
        engine.run("kill", "--signal=KILL", self._container, check=False)  # it may have given up by itself
        self._federation.death("coordinator")
        if point is not None:
            self._federation.once("coordinator", point)
        self._federation.start("coordinator", wait=wait)

    def dies(self):
        self._federation.until("a worker dies", self._is_dead)

    def _is_dead(self):
        state = self._federation.state("coordinator")
        said = engine.run("logs", "--since", state["StartedAt"], self._container)
        return "died with -9" in said.stdout + said.stderr or not state["Running"]


def public_set(study):
    """Public records, as the aggregator of the feature method wants them."""
    hospital, names = Simulated.simulate(branches=4, scale=0.02).branches[3], [f.name for f in study.features]
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow([*names, OUTCOME])
    for row, label in enumerate(hospital.labels):
        values = [hospital.table[name][row] for name in names]
        writer.writerow([*("" if str(value) in ("None", "nan") else value for value in values), bool(label)])
    return file.getvalue().encode()


MIDDLE = {
    "the hospital at work": ("branch-1",),
    "a hospital that is done": ("main",),
    "the coordinator": ("coordinator",),
    "the database": ("database",),
    "everything": ("database", "coordinator", *SITES),
}


@pytest.mark.parametrize("services", MIDDLE.values(), ids=MIDDLE.keys())
def test_killed_in_the_middle_of_a_study(federation, asking, services):
    begun = federation.begin("simcomb", ("branch-1",))
    task = federation.in_state("branch-1", begun, "waiting")
    federation.kill(*services)
    for service in services:
        federation.start(service)
    asking.decide(task["id"], True)
    federation.ended(begun)


@pytest.mark.parametrize("service", ["coordinator", "database"])
def test_restarted_in_order_while_leases_are_out(federation, asking, service):
    begun = federation.begin("simcomb", ("branch-1",))
    task = federation.in_state("branch-1", begun, "waiting")
    federation.restart(service)
    asking.decide(task["id"], True)
    federation.ended(begun)


def test_without_the_database_nothing_is_charged(federation, asking):
    begun = federation.begin(targets=("branch-1",))
    task = federation.in_state("branch-1", begun, "waiting")
    before = asking.ledger()
    federation.kill("database")
    asking.decide(task["id"], True)
    federation.trouble("branch-1", "request id")
    assert asking.ledger() == before
    federation.start("database")
    federation.ended(begun)


def test_a_release_outlasts_a_database_that_dies_under_it(federation):
    begun = federation.study(targets=("branch-1",))
    federation.kill("branch-1")
    federation.once("branch-1", "after-store")
    federation.start("branch-1", wait=False)
    federation.lead.start(begun.id)
    assert federation.death("branch-1") == 137
    kept = federation.stored("branch-1")[begun.id]
    federation.kill("database")
    federation.start("branch-1")
    federation.trouble("branch-1", "request id")
    federation.start("database")
    federation.ended(begun)
    assert federation.stored("branch-1")[begun.id] == kept


def test_the_engine_starts_a_service_that_died_again(federation):
    """With the restart policy of docker-compose.yml nobody has to look."""
    container = federation.container("branch-1")
    begun = federation.study(targets=("branch-1",))
    federation.kill("branch-1")
    federation.once("branch-1", "after-store")
    federation.start("branch-1")
    engine.run("update", "--restart=unless-stopped", container)
    federation.lead.start(begun.id)
    federation.ended(begun)
    assert engine.inspect(container)["RestartCount"] == 1
    engine.run("update", "--restart=no", container)
