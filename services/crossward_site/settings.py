"""What a site can be told, source or target, beside what every service has."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from crossward.protocol.constants import Role
from crossward_service.http.settings import ServiceSettings
from crossward_site.identity.service import Link
from crossward_site.tasks.runner import Pace


class SiteSettings(ServiceSettings):
    """A site in both roles: one process, one key, one ledger. Times are in seconds.

    `roles` are what this site may be: whose invitations it accepts, and whose routes it serves. At a coordinator a
    party has one role, so a site with both enrols as either and works in that one.

    There is no setting for randomness: a site uses the operating system's. `work` off serves the site's API without
    taking tasks. `poll_seconds` is how long a question for a task may wait at the coordinator, `pulse_seconds` the time
    between two signs of life, at most.
    """

    database_name: ClassVar[str] = "site.sqlite3"
    service: ClassVar[str] = "site"
    roles: ClassVar[tuple[Role, ...]] = (Role.SOURCE, Role.TARGET)

    port: int = Field(default=8403, ge=0, le=65535)
    work: bool = True
    poll_seconds: float = Field(default=20.0, ge=0, le=300)
    tick_seconds: float = Field(default=0.5, gt=0, le=60)
    pulse_seconds: float = Field(default=5.0, gt=0, le=3600)
    retry_seconds: float = Field(default=5.0, gt=0, le=3600)

    @property
    def pace(self) -> Pace:
        """How long the runner waits for what."""
        return Pace(self.poll_seconds, self.tick_seconds, self.pulse_seconds, self.retry_seconds)

    @property
    def link(self) -> Link:
        """How the coordinator is reached."""
        return Link(self.tls_ca, self.insecure)
