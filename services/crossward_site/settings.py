"""What a site can be told, source or target, beside what every service has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator
from sqlalchemy.engine import make_url

from crossward.errors import InvalidSetting
from crossward.protocol.constants import Role
from crossward.values import MOST_COLUMNS, Section, Slug
from crossward_connector.tables import Limits
from crossward_service.http.settings import CONFIG, ServiceSettings
from crossward_site.data.connector import Processes
from crossward_site.data.places import Connection, Sources, server_of
from crossward_site.identity.service import Link
from crossward_site.site import MEMORY, Site
from crossward_site.tasks.runner import Pace

_USUAL = Limits()
_FILE_ONLY = ("data_roots", "data_connections", "data_limits")


class DataLimits(Section):
    """How much reading a table may take: seconds in all and without a batch, rows, columns, bytes of memory and of a
    cell. `memory` is what the connector's process may take beyond itself.
    """

    seconds: Annotated[float, Field(gt=0, le=7 * 86400)] = _USUAL.seconds
    silence: Annotated[float, Field(gt=0, le=86400)] = _USUAL.silence
    rows: Annotated[int, Field(ge=1, le=10**12)] = _USUAL.rows
    columns: Annotated[int, Field(ge=1, le=MOST_COLUMNS)] = _USUAL.columns
    memory: Annotated[int, Field(ge=64 << 20, le=1 << 40)] = _USUAL.memory
    cell: Annotated[int, Field(ge=1, le=1 << 30)] = _USUAL.cell

    @property
    def limits(self) -> Limits:
        """As connectors take them."""
        return Limits(**self.model_dump())


class SiteSettings(ServiceSettings):
    """A site in both roles: one process, one key, one ledger. Times are in seconds.

    `roles` are what this site may be: whose invitations it accepts, and whose routes it serves. At a coordinator a
    party has one role, so a site with both enrols as either and works in that one.

    There is no setting for randomness: a site uses the operating system's. `work` off serves the site's API without
    taking tasks. `poll_seconds` is how long a question for a task may wait at the coordinator, `pulse_seconds` the time
    between two signs of life, at most.

    `memory_mb` bounds the rows that training holds in memory at once; more are on disk meanwhile.

    `data_roots` are the folders whose tables a steward may name, `data_connections` the databases, `data_limits` what
    reading one may take. They come from the settings file (or from who starts a site in Python) and from nowhere else:

        [data_roots]
        exports = "/srv/exports"

        [data_connections.clinic]
        url = "postgresql://reader@db.hospital.example/clinic"
        password_file = "/run/secrets/clinic"
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
    data_roots: dict[Slug, Path] = Field(default_factory=dict)
    data_connections: dict[Slug, Connection] = Field(default_factory=dict)
    data_limits: DataLimits = DataLimits()
    memory_mb: int = Field(default=MEMORY >> 20, ge=16, le=1 << 20)

    @classmethod
    def settings_customise_sources(cls, *args: Any, **sources: Any) -> Any:
        """As for every service; but what opens data is never taken from the environment."""
        for name in _FILE_ONLY:
            if any(key.upper() == f"CROSSWARD_{name.upper()}" for key in os.environ):
                raise InvalidSetting(
                    f"{name} cannot come from the environment.",
                    f"Remove CROSSWARD_{name.upper()}, and write [{name}] into the settings file that {CONFIG} names.",
                )
        return super().settings_customise_sources(*args, **sources)

    @model_validator(mode="after")
    def _open_data_only(self) -> Self:
        """No root and no connection reaches what is the site's own."""
        self.sources.check()
        own = make_url(self.database_url)
        for name, connection in self.data_connections.items():
            if (
                connection.file is None
                and own.get_backend_name() == "postgresql"
                and connection.server == server_of(own)
            ):
                raise ValueError(f"data_connections.{name} is the site's own database: name the hospital's")
        return self

    @property
    def sources(self) -> Sources:
        """What a steward may name, and what stays closed."""
        own = [self.data_dir, self.sqlite_file, self.database_password_file, self.tls_key]
        own += [connection.password_file for connection in self.data_connections.values()]
        own += [Path(config) for config in [os.environ.get(CONFIG)] if config]
        return Sources(self.data_roots, self.data_connections, tuple(path.absolute() for path in own if path))

    def open_site(self) -> Site:
        """The site of these settings, made if it is not there."""
        connectors = Processes(self.sources, self.data_limits.limits)
        return Site.open(self.database_url, self.data_dir, connectors=connectors, memory=self.memory_mb << 20)

    @property
    def pace(self) -> Pace:
        """How long the runner waits for what."""
        return Pace(self.poll_seconds, self.tick_seconds, self.pulse_seconds, self.retry_seconds)

    @property
    def link(self) -> Link:
        """How the coordinator is reached."""
        return Link(self.tls_ca, self.insecure)
