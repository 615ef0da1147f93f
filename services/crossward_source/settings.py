"""What a source's operator can tell it, beside what every site has."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from crossward.protocol.constants import Role
from crossward_site.settings import SiteSettings


class SourceSettings(SiteSettings):
    """A site that is a source and nothing else."""

    service: ClassVar[str] = "source"
    roles: ClassVar[tuple[Role, ...]] = (Role.SOURCE,)

    port: int = Field(default=8401, ge=0, le=65535)
