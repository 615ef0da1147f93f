"""What a site can be told, source or target, beside what every service has."""

from __future__ import annotations

from pydantic import Field

from crossward_service.http.settings import ServiceSettings
from crossward_site.identity import Link
from crossward_site.runner import Pace


class SiteSettings(ServiceSettings):
    """Times are in seconds. There is no setting for randomness: a site uses the operating system's.

    `work` off serves the site's API without taking tasks. `poll_seconds` is how long a question for a task may wait at
    the coordinator, `claim_seconds` how soon another worker takes over from one that died.
    """

    work: bool = True
    poll_seconds: float = Field(default=20.0, ge=0, le=300)
    tick_seconds: float = Field(default=0.5, gt=0, le=60)
    claim_seconds: float = Field(default=15.0, gt=0, le=3600)
    retry_seconds: float = Field(default=5.0, gt=0, le=3600)

    @property
    def pace(self) -> Pace:
        """How long the runner waits for what."""
        return Pace(self.poll_seconds, self.tick_seconds, self.claim_seconds, self.retry_seconds)

    @property
    def link(self) -> Link:
        """How the coordinator is reached."""
        return Link(self.tls_ca, self.insecure)
