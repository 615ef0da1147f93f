"""What people look after again and again: whoever has a question, has stopped, or has lost something."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from crossward_lab.disasters.events import lose
from crossward_lab.disasters.people import (
    act,
    ask_coordinator,
    decide,
    enrol_anew,
    invite_again,
    is_unknown,
    reconcile_ledger,
)
from crossward_lab.disasters.stewards import see_to

if TYPE_CHECKING:
    from crossward_lab.disasters.history import World

ROUNDS = 40.0
"""Seconds between two looks that people take at their services."""


async def rounds(world: World) -> None:
    """Look at every service again and again, and see to what waits for a person."""
    while True:
        await world.sleep(world.draw.uniform(0.5, 1.5) * ROUNDS)
        await look_around(world)


async def look_around(world: World) -> None:
    """Answer what is asked at the sites, reconcile what has stopped, on both sides; recover what is lost."""
    for hospital in world.hospitals.values():
        running = hospital.running
        if running is None or not running.process.alive:
            continue
        if hospital.lost:
            await enrol_anew(world, hospital)
        elif world.judge.has_stopped(hospital):
            words = f"steward of {hospital.party}: reconciles"
            ended = await act(world, running, words, partial(reconcile_ledger, running))
            if ended == "revoked" and world.calm and world.judge.is_enrolled(hospital.party):
                await enrol_anew(world, hospital)  # an old backup, of before the site had joined anew
            elif ended == "parted" and hospital.restored:
                world.judge.look_at_parted(hospital)
                lose(world, hospital, "its folder is put away: an old backup that went on by itself")
        elif world.judge.asks(hospital):
            await act(world, running, f"steward of {hospital.party}: decides", partial(decide, world, running))
            await see_to(world, hospital)
        elif world.calm and is_unknown(running) and world.judge.is_enrolled(hospital.party):
            world.tell(f"operator: the coordinator has forgotten the key of {hospital.party}")
            await ask_coordinator(world, "operator", "DELETE", f"/v1/parties/{hospital.party}")
            await invite_again(world, hospital)
        else:
            await see_to(world, hospital)
    for party in world.judge.stopped_parties():
        world.tell(f"operator: reconciles {party}")
        await ask_coordinator(world, "operator", "POST", f"/v1/parties/{party}/reconcile")
