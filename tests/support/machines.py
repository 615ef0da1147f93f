"""Machines whose clocks a test moves."""

from __future__ import annotations

from crossward_service.ops.machine import Machine


class MovedMachine(Machine):
    """This machine; `wall` seconds are added to what its clock on the wall shows, `passed` to what has passed."""

    def __init__(self) -> None:
        self.wall = self.passed = 0.0

    def now(self) -> float:
        return super().now() + self.wall

    def elapsed(self) -> float:
        return super().elapsed() + self.passed


class StillMachine(Machine):
    """A machine on which time passes only when a test says so: `time` is on the wall, `passed` is what has passed."""

    def __init__(self, time: float = 1_800_000_000.0, passed: float = 0.0) -> None:
        self.time, self.passed = time, passed

    def now(self) -> float:
        return self.time

    def elapsed(self) -> float:
        return self.passed
