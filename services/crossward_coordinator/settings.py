"""What an operator can tell a coordinator, beside what every service has."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Self

from pydantic import Field, model_validator

from crossward_service.http.settings import ServiceSettings

KEY = "coordinator.key"
"""The file of the coordinator's private key, unless the settings name another."""


class CoordinatorSettings(ServiceSettings):
    """Times are in seconds. `key_file` is by default `coordinator.key` in the data directory.

    A task's lease lasts `lease_seconds` from its last heartbeat. A lease that ends without a result is given again
    after a pause that starts at `backoff_seconds` and doubles; after `attempts` leases the task has failed. The clock
    ticks every `clock_seconds`.
    `workers` are processes on one port; more than one want PostgreSQL, because on SQLite they would only take turns.
    """

    database_name: ClassVar[str] = "coordinator.sqlite3"

    port: int = Field(default=8400, ge=0, le=65535)
    workers: int = Field(default=1, ge=1, le=64)
    key_file: Path | None = None
    lease_seconds: float = Field(default=60.0, gt=0, le=86_400)
    backoff_seconds: float = Field(default=2.0, ge=0, le=3_600)
    attempts: int = Field(default=20, ge=1, le=10_000)
    longest_wait: float = Field(default=30.0, ge=0, le=300)
    poll_seconds: float = Field(default=0.2, gt=0, le=60)
    clock_seconds: float = Field(default=1.0, gt=0, le=60)
    invite_seconds: float = Field(default=86_400.0, gt=0)
    largest_result: int = Field(default=32 << 20, ge=1 << 16)
    largest_public_set: int = Field(default=16 << 20, ge=1 << 16)

    @model_validator(mode="after")
    def _shareable(self) -> Self:
        if self.workers > 1 and self.database_url.startswith("sqlite"):
            raise ValueError("several workers need PostgreSQL: set database_url, or workers to 1")
        return self

    @property
    def key_path(self) -> Path:
        """Where the coordinator's private key is kept."""
        return self.key_file or self.data_dir / KEY
