"""Disasters that strike from outside, at any moment, and how peace comes in the end."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from crossward_lab.disasters import people
from crossward_lab.disasters.federation import Hospital, copy_folder
from crossward_lab.disasters.host import Disk, Host
from crossward_lab.disasters.plan import DAY, Kind

if TYPE_CHECKING:
    from crossward_lab.disasters.history import World

MOST_LOSSES = 2
"""How often the disk of one hospital is lost."""

CUT_OFF = 0.5
"""How often a site whose backup is put back does not reach its coordinator at first."""

STARTED = 5.0
"""Seconds in which a process that was just starting has started, in peace."""


async def strike(world: World) -> None:
    """Let one disaster after the other happen."""
    able = [act for kind, act in _ACTS.items() if kind in world.plan.kinds]
    if not able:
        return
    if Kind.BACKUP in world.plan.kinds and not world.plan.forgets:
        for hospital in world.hospitals.values():
            _back_up(world, hospital)
    while True:
        await world.sleep(world.draw.expovariate(1 / world.plan.events))
        await world.draw.choice(able)(world)


def _some_hospital(world: World) -> Hospital:
    return world.draw.choice(list(world.hospitals.values()))


def _some_host(world: World) -> Host:
    return world.draw.choice([world.coordinator, *(hospital.host for hospital in world.hospitals.values())])


async def _disk(world: World) -> None:
    host, disk = _some_host(world), world.draw.choice((Disk.FULL, Disk.READ_ONLY))
    world.tell(f"{host.name}: its disk is {disk}")
    host.disk = disk

    async def later() -> None:
        await world.sleep(world.draw.choice((5.0, 60.0, 300.0)))
        host.disk = Disk.WELL
        world.tell(f"{host.name}: its disk is well again")

    world.network.run(later())


async def _clock(world: World) -> None:
    host = _some_host(world)
    host.skew = world.draw.choice((-30.0, -3.0, -1.0, 1.0, 3.0, 30.0)) * world.draw.choice((60.0, DAY))
    world.tell(f"{host.name}: its clock is wrong by {host.skew:.0f} s")

    async def later() -> None:
        await world.sleep(world.draw.choice((5.0, 60.0, 300.0)))
        host.skew = 0.0
        world.tell(f"{host.name}: its clock is right again")

    world.network.run(later())


async def _hang(world: World) -> None:
    host, lasts = _some_host(world), world.draw.choice((30.0, 150.0, 500.0))
    world.tell(f"{host.name}: hangs for {lasts:.0f} s")
    host.hangs_until = max(host.hangs_until, world.time + lasts)


async def _clone(world: World) -> None:
    """Somebody starts a copy of a site's folder beside it."""
    hospital = _some_hospital(world)
    if any(clone.party == hospital.party for clone in world.clones) or hospital.gone or hospital.lost:
        return
    name = f"{hospital.party}'"
    folder = world.folder / f"{name}{len(world.clones)}"
    copy_folder(hospital.host.folder, folder)
    world.tell(f"{hospital.party}: its folder is cloned and served twice")
    clone = Hospital(hospital.party, hospital.role, Host(name, folder))
    world.clones.append(clone)
    world.supervise(clone)


async def _backup(world: World) -> None:
    """Make a backup, or put one back."""
    if world.plan.forgets:
        await _backup_coordinator(world)
        return
    hospital = _some_hospital(world)
    if hospital.lost and not hospital.backups:
        return
    if not hospital.lost and (not hospital.backups or world.draw.random() < 0.4):
        _back_up(world, hospital)
        return
    folder = world.draw.choice(hospital.backups)
    world.tell(f"{hospital.party}: an old backup is put back")
    hospital.stop()
    _replace(world, hospital.host, folder)
    hospital.lost, hospital.restored = False, True
    world.judge.expect_in_step(hospital)
    hospital.outdated = Kind.DATA in world.plan.kinds
    if world.draw.random() < CUT_OFF:  # a machine that was set up anew is not on the network at once
        hospital.host.cut_off_until = world.time + 100.0
        world.tell(f"{hospital.party}: is cut off for a while")


def _back_up(world: World, hospital: Hospital) -> None:
    folder = world.folder / f"backup-{hospital.party}-{len(hospital.backups)}"
    copy_folder(hospital.host.folder, folder)
    hospital.backups.append(folder)
    world.tell(f"{hospital.party}: a backup is made")


async def _backup_coordinator(world: World) -> None:
    if not world.backups or world.draw.random() < 0.4:
        folder = world.folder / f"backup-coordinator-{len(world.backups)}"
        copy_folder(world.coordinator.folder, folder)
        world.backups.append(folder)
        world.tell("coordinator: a backup is made")
        return
    world.tell("coordinator: an old backup is put back")
    for server in list(world.servers):
        server.process.kill()
    _replace(world, world.coordinator, world.draw.choice(world.backups))
    world.judge.forget_coordinator()
    for study in world.judge.forgotten():  # its lead begins anew, wherever it was
        world.lead(study)


def _replace(world: World, host: Host, folder: Path) -> None:
    """Make a folder what another is. All processes of the host have ended."""
    _remove(world, host)
    copy_folder(folder, host.folder)


def _remove(world: World, host: Host) -> None:
    world.judge.let_go(host.folder)
    host.unflushed.clear()
    if host.folder.exists():
        shutil.rmtree(host.folder)
    world.judge.forget_site(host.folder / "site.sqlite3")


async def _keys(world: World) -> None:
    hospital = _some_hospital(world)
    running = hospital.running
    if running is not None and running.process.alive:
        await people.act(world, running, f"{hospital.party}: changes its key", lambda: people.rotate_key(running))


async def _revoked(world: World) -> None:
    hospital = _some_hospital(world)
    if hospital.revoked:
        return
    hospital.revoked = True
    world.tell(f"operator: revokes {hospital.party}")
    await people.ask_coordinator(world, "operator", "DELETE", f"/v1/parties/{hospital.party}")

    async def later() -> None:
        await world.sleep(world.draw.expovariate(1 / 200))
        await people.invite_again(world, hospital)

    if world.draw.random() < 0.6:
        world.network.run(later())


async def _vanished(world: World) -> None:
    hospital = _some_hospital(world)
    hospital.gone = True
    world.tell(f"{hospital.party}: vanishes")
    hospital.stop()


def lose(world: World, hospital: Hospital, words: str) -> None:
    """A folder is no more: its site joins anew."""
    world.tell(f"{hospital.party}: {words}")
    hospital.stop()
    _remove(world, hospital.host)
    hospital.lost, hospital.restored = True, False


async def _lost(world: World) -> None:
    """A disk is lost while nobody serves it: the file of the table of seats, or all there is."""
    able = [one for one in world.honest() if one.losses < MOST_LOSSES and not one.lost]
    if not able:
        return
    hospital = world.draw.choice(able)
    hospital.losses += 1
    hospital.stop()
    table = world.judge.table_of(hospital)
    if world.draw.random() < 0.4 or table is None:
        lose(world, hospital, "its folder is lost")
    elif world.draw.random() < 0.5:
        world.tell(f"{hospital.party}: its table of seats is lost")
        table.unlink()
    else:
        world.tell(f"{hospital.party}: its table of seats is damaged")
        data = bytearray(table.read_bytes())
        data[world.draw.randrange(len(data))] ^= 1
        table.write_bytes(data)


_ACTS = {
    Kind.DISK: _disk,
    Kind.CLOCK: _clock,
    Kind.HANG: _hang,
    Kind.CLONE: _clone,
    Kind.BACKUP: _backup,
    Kind.KEYS: _keys,
    Kind.REVOKED: _revoked,
    Kind.VANISHED: _vanished,
    Kind.LOST: _lost,
}


async def heal(world: World) -> None:
    """No more disasters: disks and clocks are well, everybody is back, and of two folders one remains."""
    world.calm = True
    world.tell("peace: no more disasters")
    for host in (world.coordinator, *(hospital.host for hospital in (*world.hospitals.values(), *world.clones))):
        host.skew, host.disk, host.hangs_until = 0.0, Disk.WELL, 0.0
    for server in world.servers:
        server.process.hangs_until = 0.0
    for hospital in (*world.hospitals.values(), *world.clones):
        if hospital.running is not None:
            hospital.running.process.hangs_until = 0.0
    for clone in world.clones:
        original = world.hospitals[clone.party]
        await _put_off(clone, original)
        kept = world.judge.sound_one(original, clone)
        if kept is clone:
            world.tell(f"{clone.party}: the clone goes on, and the first folder is put away")
            _replace(world, original.host, clone.host.folder)
            original.lost = False
    for hospital in world.hospitals.values():
        hospital.gone = False


async def _put_off(*hospitals: Hospital) -> None:
    """Let nobody serve these folders, and wait until nothing that they sent is under way: it may change the mirror."""
    for hospital in hospitals:
        hospital.gone = True
    await asyncio.sleep(STARTED)
    for hospital in hospitals:
        hospital.stop()
    while any(hospital.host.under_way for hospital in hospitals):
        await asyncio.sleep(1.0)
