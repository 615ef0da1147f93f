"""create_app(settings): the target's application."""

from __future__ import annotations

from fastapi import FastAPI

from crossward_site.api import site_app
from crossward_site.models import Models
from crossward_target.routers import ROUTERS
from crossward_target.settings import TargetSettings

ROLE = "target"


def create_app(settings: TargetSettings) -> FastAPI:
    """Open the site and wire it; nothing happens at import."""
    app = site_app(settings, "Crossward target", ROLE, ROUTERS)
    app.state.models = Models(app.state.site)
    return app
