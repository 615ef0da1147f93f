"""create_app(settings): the source's application."""

from __future__ import annotations

from fastapi import FastAPI

from crossward_site.api import site_app
from crossward_source.routers import ROUTERS
from crossward_source.settings import SourceSettings

ROLE = "source"


def create_app(settings: SourceSettings) -> FastAPI:
    """Open the site and wire it; nothing happens at import."""
    return site_app(settings, "Crossward source", ROLE, ROUTERS)
