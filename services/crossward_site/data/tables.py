"""What a site stores of its data: where versions came from and how they read, jobs, who opted out.

Records lie in sealed copies and seats in files of their own, under `vault/`; the database knows them by name. Persons
are tags; there is nothing of what their records say.
"""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import Boolean, Column, Float, ForeignKey, Integer, String, Table, Text

from crossward_service.db.lifecycle import Lifecycle, enum_column
from crossward_site.tables import metadata

datasets = Table(
    "datasets",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("records_per_person", Integer, nullable=False),
    Column("version", Integer, nullable=False),
    Column("opened", Float, nullable=False),
)

versions = Table(
    "versions",
    metadata,
    Column("dataset", String(64), ForeignKey("datasets.name"), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("place", Text, nullable=False),
    Column("mapping", Text, nullable=False),
    Column("report", Text, nullable=False),
    Column("counts", Text, nullable=False),
    Column("seats", Integer, nullable=False),
    Column("sealed", String(64)),
    Column("registered", Float, nullable=False),
)
"""A version of the data: where it came from, how it reads, the public number of rows in each cell, the version of the
seats that it made, and the name of its sealed copy, none once nothing needs it. The report stays here."""

seat_tables = Table(
    "seat_tables",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("file", String(64), nullable=False),
    Column("commitment", String(64), nullable=False),
    Column("made", Float, nullable=False),
)
"""The tables of seats, one for each `seats` line of the ledger; the last is the one that counts."""

opt_outs = Table(
    "opt_outs",
    metadata,
    Column("tag", String(16), primary_key=True),
    Column("since", Float, nullable=False),
)
"""Who must not be in any copy: they keep their seats, and what was spent stays spent."""


class JobKind(StrEnum):
    """What a job does."""

    CHECK = "check"
    OPEN = "open"
    REFRESH = "refresh"
    FIT = "fit"
    UNDO = "undo"
    ERASE = "erase"
    RECOVER = "recover"
    EVALUATE = "evaluate"
    AUC = "auc"


class JobState(StrEnum):
    """How far a job has come."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


J = JobState

JOB_STATES = Lifecycle(
    JobState,
    {
        J.WAITING: (J.RUNNING, J.CANCELLED),
        J.RUNNING: (J.WAITING, J.DONE, J.FAILED, J.CANCELLED),  # a process that ended leaves it waiting again
        J.DONE: (),
        J.FAILED: (),
        J.CANCELLED: (),
    },
)

jobs = Table(
    "jobs",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    enum_column("kind", JobKind),
    JOB_STATES.column(index=True),
    Column("dataset", String(64)),
    Column("request", Text, nullable=False),
    Column("progress", Float, nullable=False),
    Column("step", Text, nullable=False),
    Column("cancelled", Boolean, nullable=False),
    Column("result", Text),
    Column("problem", Text, nullable=False),
    Column("cause", Text, nullable=False),
    Column("fix", Text, nullable=False),
    Column("asked", Float, nullable=False),
    Column("updated", Float, nullable=False),
)
"""Work on data that takes a while, in the order in which it was asked for. What a request says goes when its job has
ended: it may name persons."""
