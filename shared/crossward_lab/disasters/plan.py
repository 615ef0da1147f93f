"""Which disasters a history has. Each has some of the kinds, drawn from its seed, at rates of its own.

All kinds at once would hide one another: a party that is revoked in the first minute meets no full disk.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum

from crossward_coordinator.times import LONGEST_STEP, WRITE_SECONDS

DAY = 86_400.0

TWINS = 20
"""Every so many histories one is told again with other records: the coordinator must see the same."""


class Kind(StrEnum):
    """What may go wrong."""

    LOSS = "messages lost, doubled, late, reordered, cut"
    CRASH = "processes killed between two steps, or at a commit"
    POWER = "power cut: what was not flushed is gone"
    HANG = "processes that hang for longer than a lease"
    DISK = "disks that are full, read-only, or fail at a commit"
    CLOCK = "clocks that jump by days, both ways, and return"
    WORKERS = "two workers of the coordinator on one database"
    CLONE = "a cloned folder, served beside the first"
    BACKUP = "an old backup restored, of a site or the coordinator"
    KEYS = "keys that are rotated"
    REVOKED = "parties revoked, and invited again"
    VANISHED = "parties that vanish"
    REFUSAL = "stewards who refuse, or are slow"
    CANCEL = "studies cancelled"
    HASTE = "deadlines that are too short"
    DATA = "data refreshed, opened, undone and erased while studies run"
    LOST = "a lost disk: the table of seats, or the whole folder"
    LYING_COORDINATOR = "a coordinator that lies"
    LYING_SOURCE = "a source that lies"
    LYING_TARGET = "a target that lies"


LIES = frozenset({Kind.LYING_COORDINATOR, Kind.LYING_SOURCE, Kind.LYING_TARGET})


@dataclass(frozen=True)
class Plan:
    """What a history has in store, from its seed.

    `forgets`: of old backups, it is the coordinator's that is put back, and else the sites'. A site that has lost its
    last lines finds them in the mirror, and a coordinator that has lost its own gets them from the sites. Where both
    have forgotten a release, or a copy of the site never knew of it, nobody is left who does: no history has that.

    `care`: seconds between two things that stewards do with data. `spread`: seconds in which studies begin.
    """

    kinds: frozenset[Kind]
    sources: int
    targets: int
    studies: int
    loss: float
    crash: float
    disk: float
    switch: float
    events: float
    forgets: bool
    deadline: float
    care: float
    spread: float

    @property
    def appraised(self) -> bool:
        """Whether stewards pay for the AUC of their models: where who sits in which cell may go wrong."""
        return bool(self.kinds & {Kind.DATA, Kind.LOST, Kind.BACKUP, Kind.CLONE})

    @property
    def tick(self) -> float:
        """Seconds between two looks at the coordinator's clock; with two workers, the more so they agree."""
        return 15.0 if Kind.WORKERS in self.kinds else 30.0

    @property
    def slack(self) -> float:
        """Seconds by which two workers may disagree about the coordinator's age: one counts a step of a hang, and the
        other has looked just before that was noted."""
        return max(LONGEST_STEP, 2 * self.tick) + WRITE_SECONDS if Kind.WORKERS in self.kinds else 0.0

    @classmethod
    def draw(cls, draw: random.Random) -> Plan:
        """A plan."""
        share = draw.choice((0.15, 0.3, 0.5))
        kinds = {kind for kind in Kind if kind not in LIES and draw.random() < share}
        if draw.random() < 0.25:
            kinds.add(draw.choice(sorted(LIES)))
        if Kind.LYING_COORDINATOR in kinds:
            kinds -= {Kind.WORKERS, Kind.CLONE, Kind.BACKUP, Kind.LOST}
        long = bool(kinds & {Kind.DATA, Kind.LOST})
        return cls(
            kinds=frozenset(kinds),
            sources=draw.choice((1, 1, 1, 2, 2, 3)),
            targets=draw.choice((1, 1, 1, 1, 2)),
            studies=draw.choice((1, 1, 2, 3) if long else (1, 1, 1, 1, 1, 1, 2, 3)),
            loss=draw.choice((0.02, 0.1, 0.3)) if Kind.LOSS in kinds else 0.0,
            crash=draw.choice((0.001, 0.005, 0.02)) if Kind.CRASH in kinds or Kind.POWER in kinds else 0.0,
            disk=draw.choice((0.002, 0.01)) if Kind.DISK in kinds else 0.0,
            switch=draw.choice((0.1, 0.3, 0.7)),
            forgets=not kinds & {Kind.CLONE, Kind.LOST} and draw.random() < 0.5,
            events=draw.choice((20.0, 60.0, 200.0)),
            deadline=draw.choice((45.0, 90.0)) if Kind.HASTE in kinds else 400.0,
            care=draw.choice((20.0, 60.0)),
            spread=draw.choice((60.0, 200.0)) if long else 60.0,
        )
