"""What a party is answered about its tasks, where that is no message of the protocol."""

from __future__ import annotations

from typing import Self

from crossward.protocol.states import TaskState
from crossward_coordinator.tasks.service import Pulse
from crossward_service.http.views import View


class PulseView(View):
    """The answer to a heartbeat. `cancelled`: stop, nobody waits for this any more."""

    task: str
    state: TaskState
    cancelled: bool
    cause: str
    lease_seconds: float

    @classmethod
    def of(cls, task: str, pulse: Pulse) -> Self:
        """A heartbeat that was heard."""
        return cls(
            task=task,
            state=pulse.state,
            cancelled=pulse.cancelled,
            cause=pulse.cause,
            lease_seconds=pulse.lease_seconds,
        )
