"""What a target's operator can tell it, beside what every site has."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from crossward_site.settings import SiteSettings


class TargetSettings(SiteSettings):
    """A target's settings."""

    database_name: ClassVar[str] = "target.sqlite3"

    port: int = Field(default=8402, ge=0, le=65535)
