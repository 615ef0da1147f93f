"""What a target's operator can tell it, beside what every site has."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from crossward.protocol.constants import Role
from crossward_site.settings import SiteSettings


class TargetSettings(SiteSettings):
    """A site that is a target and nothing else."""

    service: ClassVar[str] = "target"
    roles: ClassVar[tuple[Role, ...]] = (Role.TARGET,)

    port: int = Field(default=8402, ge=0, le=65535)
