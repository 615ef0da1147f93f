"""A site's first form.

Revision: site0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "site0001"
down_revision = None

STATES = (
    "taken",
    "waiting",
    "approved",
    "held",
    "reserved",
    "stored",
    "declining",
    "settled",
    "declined",
    "cancelled",
    "refused",
)
KINDS = ("train-source", "aggregate", "train-target")
REASONS = ("policy", "steward", "budget", "no-data", "unfit-data", "unfit-inputs", "unsupported")


def _text(name: str, length: int, **more: bool) -> sa.Column[str]:
    return sa.Column(name, sa.String(length), **{"nullable": False, **more})  # type: ignore[arg-type]


def _word(
    column: str, words: tuple[str, ...], rule: str, *, nullable: bool = False, index: bool = False
) -> sa.Column[str]:
    """A column that holds these words and no others."""
    kind = sa.Enum(*words, name=rule, native_enum=False, create_constraint=True, length=max(map(len, words)))
    return sa.Column(column, kind, nullable=nullable, index=index)


def upgrade() -> None:
    """Every table of a site."""
    op.create_table("facts", _text("name", 64, primary_key=True), sa.Column("value", sa.Text, nullable=False))
    op.create_table(
        "probe",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("count", sa.BigInteger, nullable=False),
    )
    _identity()
    _data()
    _tasks()
    _models()
    _ledger()


def _identity() -> None:
    op.create_table(
        "tokens",
        _text("hash", 64, primary_key=True),
        _word("role", ("steward", "clinic"), "personrole"),
        _text("name", 64, unique=True),
        sa.Column("created", sa.Float, nullable=False),
    )
    op.create_table(
        "pins",
        _text("party", 64, primary_key=True),
        _text("key_id", 16, primary_key=True),
        _text("public_key", 64),
        _word("origin", ("steward", "coordinator"), "pinorigin"),
        sa.Column("since", sa.Float, nullable=False),
    )


def _data() -> None:
    op.create_table(
        "datasets",
        _text("name", 64, primary_key=True),
        sa.Column("records_per_person", sa.Integer, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("opened", sa.Float, nullable=False),
    )
    op.create_table(
        "versions",
        sa.Column("dataset", sa.String(64), sa.ForeignKey("datasets.name"), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("place", "mapping", "report", "counts")),
        sa.Column("seats", sa.Integer, nullable=False),
        _text("sealed", 64, nullable=True),
        sa.Column("registered", sa.Float, nullable=False),
    )
    op.create_table(
        "seat_tables",
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        _text("file", 64),
        _text("commitment", 64),
        sa.Column("made", sa.Float, nullable=False),
    )
    op.create_table("opt_outs", _text("tag", 16, primary_key=True), sa.Column("since", sa.Float, nullable=False))
    op.create_table(
        "jobs",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        _word("kind", ("check", "open", "refresh", "fit", "undo", "erase", "recover", "evaluate", "auc"), "jobkind"),
        _word("state", ("waiting", "running", "done", "failed", "cancelled"), "jobstate", index=True),
        _text("dataset", 64, nullable=True),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("progress", sa.Float, nullable=False),
        sa.Column("step", sa.Text, nullable=False),
        sa.Column("cancelled", sa.Boolean, nullable=False),
        sa.Column("result", sa.Text),
        sa.Column("problem", sa.Text, nullable=False),
        sa.Column("cause", sa.Text, nullable=False),
        sa.Column("fix", sa.Text, nullable=False),
        sa.Column("asked", sa.Float, nullable=False),
        sa.Column("updated", sa.Float, nullable=False),
    )


def _tasks() -> None:
    op.create_table(
        "tasks",
        _text("id", 128, primary_key=True),
        _text("study", 64, index=True),
        _text("study_hash", 64),
        _word("kind", KINDS, "taskkind"),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("lease_seconds", sa.Float, nullable=False),
        _word("state", STATES, "taskstate", index=True),
        _text("dataset", 64, nullable=True),
        sa.Column("version", sa.Integer),
        _word("reason", REASONS, "declinereason", nullable=True),
        sa.Column("cause", sa.Text, nullable=False),
        sa.Column("held", sa.Text),
        sa.Column("trouble", sa.Text, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("progress", sa.Float, nullable=False),
        sa.Column("begun", sa.Integer, nullable=False),
        _text("begun_by", 64, nullable=True),
        sa.Column("number", sa.Integer, nullable=False, unique=True),
        sa.Column("taken", sa.Float, nullable=False),
        sa.Column("updated", sa.Float, nullable=False),
    )
    op.create_table(
        "outbox",
        sa.Column("task", sa.String(128), sa.ForeignKey("tasks.id"), primary_key=True),
        sa.Column("release", sa.Text),
        _text("digest", 64, nullable=True),
        sa.Column("receipt", sa.Text),
        sa.Column("stored", sa.Float, nullable=False),
        sa.Column("settled", sa.Float),
    )


def _models() -> None:
    op.create_table(
        "models",
        _text("study", 64, primary_key=True),
        sa.Column("task", sa.String(128), sa.ForeignKey("tasks.id"), nullable=False),
        sa.Column("sealed", sa.LargeBinary),
        sa.Column("mapping", sa.Text),
        sa.Column("stored", sa.Float, nullable=False),
    )
    op.create_table(
        "aucs",
        _text("task", 200, primary_key=True),
        _text("study", 64, index=True),
        sa.Column("epsilon", sa.Float, nullable=False),
        _text("dataset", 64),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("document", sa.Text),
        sa.Column("asked", sa.Float, nullable=False),
    )


def _ledger() -> None:
    op.create_table(
        "ledger_heads",
        _text("owner", 200, primary_key=True),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        _text("hash", 64),
    )
    op.create_table(
        "ledger_lines",
        _text("owner", 200, primary_key=True),
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        _text("previous", 64),
        _text("kind", 16),
        _text("subject", 200),
        sa.Column("study", sa.String(200)),
        sa.Column("time", sa.BigInteger, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        _text("hash", 64),
        sa.ForeignKeyConstraint(["owner"], ["ledger_heads.owner"], name="ledger_lines_owner"),
        sa.UniqueConstraint("owner", "kind", "subject", name="ledger_lines_once"),
    )
    op.create_index("ledger_lines_study", "ledger_lines", ["owner", "study"])
    op.create_table(
        "ledger_spend",
        _text("owner", 200, primary_key=True),
        sa.Column("cell", sa.BigInteger, primary_key=True, autoincrement=False),
        *(_text(name, 80) for name in ("nano_epsilon", "atto_delta", "atto_rho")),
        sa.Column("releases", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["owner"], ["ledger_heads.owner"], name="ledger_spend_owner"),
    )
