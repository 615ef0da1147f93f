"""What a target answers beyond what every site does (`crossward_site.api`)."""

from __future__ import annotations

from fastapi import APIRouter

from crossward_target.routers import predictions, studies

ROUTERS: tuple[APIRouter, ...] = (predictions.router, studies.router)
