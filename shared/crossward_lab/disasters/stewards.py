"""Stewards: they bring new data while studies run, take versions back, erase persons, and go on after a lost disk.

All that takes a while they ask for as a job, as their program does, and look now and then how far it is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from crossward.protocol.canonical import canonical, sha256
from crossward.protocol.constants import Role
from crossward_lab.disasters import people
from crossward_lab.disasters.accounts import auc_task
from crossward_lab.disasters.federation import MAPPING, Hospital, RunningSite
from crossward_lab.disasters.records import DATASET, SECOND, place_of
from crossward_site.data import requests, routes
from crossward_site.data.mapping import DataMap
from crossward_site.data.tables import JOB_STATES
from crossward_site.models.paid_auc import paid_auc
from crossward_site.models.service import Models

if TYPE_CHECKING:
    from crossward_lab.disasters.history import World

Asks = Callable[[RunningSite], Any]

LOOKS = 6
"""How often a steward looks whether a job has ended, before something else is to be done."""

CANCELLED = 0.15
"""How often a steward thinks better of it."""

EPSILONS = (0.25, 0.5, 0.75)
"""What a steward pays for an AUC."""

TWO_TABLES = 0.5
"""How often hospitals have a second dataset, of partly the same people, from the start."""

ACTIONS = ("refresh", "refresh", "refresh", "open", "undo", "erase")


async def care(world: World) -> None:
    """See to the data of one hospital after the other; perhaps all have two tables of their patients from the start."""
    if world.draw.random() < TWO_TABLES:
        for hospital in list(world.hospitals.values()):
            await tend(world, hospital, "open")
    while True:
        await world.sleep(world.draw.expovariate(1 / world.plan.care))
        hospital = world.draw.choice([*world.hospitals.values(), *world.clones])
        await tend(world, hospital, world.draw.choice(ACTIONS))


async def appraise(world: World) -> None:
    """Ask for the AUC of one model after the other, while all else goes on."""
    while True:
        await world.sleep(world.draw.expovariate(1 / world.plan.care))
        targets = [one for one in (*world.hospitals.values(), *world.clones) if one.role is Role.TARGET]
        hospital = world.draw.choice(targets)
        if studies := world.judge.models(hospital):
            await _appraise(world, hospital, world.draw.choice(studies))


async def appraise_all(world: World) -> None:
    """Ask for an AUC at every target: whoever was read for a model must not be there to be read again."""
    for hospital in world.hospitals.values():
        for study in world.judge.models(hospital) if hospital.role is Role.TARGET else ():
            await _appraise(world, hospital, study)


async def _appraise(world: World, hospital: Hospital, study: str) -> None:
    """Pay for the AUC of a model: it is charged to other cells than the model was."""
    running, epsilon = hospital.running, world.draw.choice(EPSILONS)
    if running is None or not running.process.alive:
        return
    words = f"steward of {hospital.host.name}: asks for the AUC of {study} at epsilon {epsilon:g}"
    await people.act(world, running, words, partial(_tells, running, study, epsilon))


def _tells(running: RunningSite, study: str, epsilon: float) -> None:
    """Ask for an AUC; what is answered is told."""
    site, served = running.site, Models(running.site).of(study)
    told = paid_auc(site, running.runner.coordinator(), served, epsilon)
    digest = sha256(canonical(told.model_dump(mode="json")))
    running.process.world.judge.told(running.process, auc_task(served.task.id, epsilon), digest)


async def tend(world: World, hospital: Hospital, action: str) -> None:
    """Do one thing with a hospital's data, and follow it."""
    draw, tables = world.draw, world.tables[hospital.party]
    dataset = draw.choice(sorted(tables.inside))
    if action == "open":
        if SECOND not in tables.inside:
            tables.begin_second()
        await ask(world, hospital, f"opens {SECOND}", _opens(SECOND))
    elif action == "undo":
        await ask(world, hospital, f"takes the last version of {dataset} back", _undoes(dataset))
    elif action == "erase":
        persons = draw.sample(list(tables.persons), draw.randint(1, 3))
        await ask(world, hospital, f"erases {', '.join(persons)}", _erases(persons))
    else:
        tables.change(dataset)
        await ask(world, hospital, f"refreshes {dataset}", _refreshes(dataset))


def _opens(dataset: str) -> Asks:
    new = requests.Open(name=dataset, place=place_of(dataset), mapping=DataMap.from_data(MAPPING))
    return lambda running: routes.open_dataset(running.site, running.jobs, new)


def _refreshes(dataset: str) -> Asks:
    return lambda running: routes.refresh_dataset(running.site, running.jobs, dataset, requests.Refresh())


def _undoes(dataset: str) -> Asks:
    return lambda running: routes.undo_version(running.site, running.jobs, dataset)


def _erases(persons: list[str]) -> Asks:
    return lambda running: routes.erase(running.site, running.jobs, requests.Erase(persons=persons))


async def ask(world: World, hospital: Hospital, what: str, asks: Asks) -> None:
    """Ask for a job, and follow it until it has ended or something else is to be done."""
    running = hospital.running
    if running is None or not running.process.alive:
        return
    who = f"steward of {hospital.host.name}"
    job = await people.act(world, running, f"{who}: {what}", partial(asks, running))
    if job is None:
        return
    cancels = world.draw.random() < CANCELLED
    for _ in range(LOOKS):
        await world.sleep(world.draw.choice((0.01, 1.0, 10.0)))
        running = hospital.running
        if running is None or not running.process.alive:
            continue
        if cancels:
            job = await people.act(world, running, f"{who}: cancels job {job.number}", _cancels(running, job.number))
            cancels = False
        else:
            job = await people.act(world, running, "", _looks(running, job.number))
        if job is None:
            return
        if job.state in JOB_STATES.ends:
            world.tell(f"{who}: job {job.number} ({job.kind}) is {job.state} {job.cause}")
            return


def _cancels(running: RunningSite, number: int) -> Callable[[], Any]:
    return lambda: routes.cancel_job(running.site, running.jobs, number)


def _looks(running: RunningSite, number: int) -> Callable[[], Any]:
    return lambda: routes.get_job(running.site, number)


async def see_to(world: World, hospital: Hospital) -> bool:
    """Go on after a loss: recover where the table of seats is lost, open data again where there are none."""
    need = world.judge.needs(hospital)
    if need == "recover":
        await ask(world, hospital, "recovers", lambda running: routes.recover(running.site, running.jobs))
    elif need == "open":
        await ask(world, hospital, f"opens {DATASET} again", _opens(DATASET))
    elif need == "perhaps":  # an old backup goes on with whom it knows; or all are seated anew
        if world.draw.random() < 0.2:
            await ask(world, hospital, "recovers", lambda running: routes.recover(running.site, running.jobs))
        return False
    return need is not None
