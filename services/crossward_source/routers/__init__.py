"""A source has no routes of its own: what every site answers is in `crossward_site.api`."""

from __future__ import annotations

from fastapi import APIRouter

ROUTERS: tuple[APIRouter, ...] = ()
