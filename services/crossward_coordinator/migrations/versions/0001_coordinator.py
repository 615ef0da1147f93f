"""Parties, studies, tasks, results, events, certificates, and the mirrors of the parties' ledgers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ROLES = ("source", "target")
PERSON_ROLES = ("operator", "lead", "auditor")
PARTY_STATES = ("active", "stopped", "revoked")
KEY_STATES = ("active", "rotated", "revoked")
STUDY_STATES = ("draft", "sources", "targets", "complete", "failed", "cancelled")
TASK_KINDS = ("train-source", "aggregate", "train-target")
TASK_STATES = ("ready", "leased", "done", "late", "declined", "failed", "cancelled")
EVENT_KINDS = (
    "study-created",
    "study-started",
    "sources",
    "quorum",
    "targets",
    "task-taken",
    "progress",
    "lease-expired",
    "task-done",
    "task-late",
    "task-declined",
    "task-failed",
    "party-stopped",
    "party-left",
    "study-complete",
    "study-failed",
    "study-cancelled",
)


def upgrade() -> None:
    """Create everything."""
    op.create_table("probe", _number("id", key=True), _big("count"))
    _people()
    _parties()
    _studies()
    _tasks()
    _ledger()


def _text(name: str, length: int | None = 64, *, null: bool = False, key: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text() if length is None else sa.String(length), nullable=null, primary_key=key)


def _word(name: str, words: tuple[str, ...]) -> tuple[sa.Column[str], sa.CheckConstraint]:
    """A column that holds one of these words, and the CHECK that sees to it."""
    listed = ", ".join(f"'{word}'" for word in words)
    return _text(name, max(map(len, words))), sa.CheckConstraint(f"{name} IN ({listed})")


def _time(name: str, *, null: bool = False) -> sa.Column[float]:
    return sa.Column(name, sa.Float(), nullable=null)


def _number(name: str, *, key: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=False, primary_key=key, autoincrement=False)


def _big(name: str, *, key: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False, primary_key=key, autoincrement=False)


def _of(column: str, other: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [other])


def _people() -> None:
    op.create_table("identity", _text("name", key=True), _text("public_key"), _time("created"))
    op.create_table("ages", _text("name", key=True), _time("seconds"))
    op.create_table(
        "tokens",
        _text("hash", key=True),
        *_word("role", PERSON_ROLES),
        _text("name"),
        _time("created"),
        sa.UniqueConstraint("name"),
    )


def _parties() -> None:
    op.create_table(
        "parties",
        _text("id", key=True),
        *_word("role", ROLES),
        *_word("state", PARTY_STATES),
        _text("cause", None),
        _time("since"),
        _time("seen", null=True),
        _time("agreed", null=True),
        sa.Column("protocol", sa.Integer(), nullable=False),
    )
    op.create_table(
        "keys",
        _text("key_id", 16, key=True),
        _text("party"),
        _text("public_key"),
        *_word("state", KEY_STATES),
        _time("created"),
        _time("revoked", null=True),
        _of("party", "parties.id"),
    )
    op.create_index("ix_keys_party", "keys", ["party"])
    op.create_table(
        "invites",
        _text("code_hash", key=True),
        _text("party"),
        *_word("role", ROLES),
        _time("expires"),
        _text("used_by", null=True),
    )
    op.create_index("ix_invites_party", "invites", ["party"])
    op.create_table("nonces", _text("party", key=True), _text("nonce", key=True), _time("expires"))
    op.create_index("ix_nonces_expires", "nonces", ["expires"])


def _studies() -> None:
    op.create_table(
        "studies",
        _text("id", key=True),
        _text("digest"),
        _text("document", None),
        _text("lead"),
        *_word("state", STUDY_STATES),
        _text("cause", None),
        _time("created"),
        _time("started", null=True),
        _time("deadline", null=True),
        _time("due", null=True),
        _time("ended", null=True),
        _number("events"),
    )
    op.create_index("ix_studies_state", "studies", ["state"])
    op.create_table(
        "public_sets",
        _text("study", key=True),
        _text("digest"),
        _number("records"),
        _text("document", None),
        _of("study", "studies.id"),
    )
    op.create_table(
        "events",
        _text("study", key=True),
        _number("number", key=True),
        _time("time"),
        *_word("kind", EVENT_KINDS),
        _text("party"),
        _text("text", None),
        _of("study", "studies.id"),
    )
    op.create_table("certificates", _text("study", key=True), _text("document", None), _of("study", "studies.id"))


def _tasks() -> None:
    op.create_table(
        "tasks",
        _text("id", 128, key=True),
        _text("study"),
        _text("party"),
        *_word("kind", TASK_KINDS),
        *_word("state", TASK_STATES),
        _text("cause", None),
        _number("attempt"),
        sa.Column("heard", sa.Boolean(), nullable=False),
        _time("available"),
        _time("lease_until", null=True),
        _time("progress"),
        _text("note", None),
        _time("updated"),
        _of("study", "studies.id"),
    )
    op.create_index("ix_tasks_study", "tasks", ["study"])
    op.create_index("tasks_waiting", "tasks", ["party", "state", "available"])
    op.create_index("tasks_leased", "tasks", ["state", "lease_until"])
    op.create_table(
        "results",
        _text("task", 128, key=True),
        _text("study"),
        _text("party"),
        _text("digest", null=True),
        _text("document", None, null=True),
        _text("receipt", None),
        _time("stored"),
        _of("task", "tasks.id"),
        _of("study", "studies.id"),
        sa.UniqueConstraint("digest"),
    )
    op.create_index("ix_results_study", "results", ["study"])


def _ledger() -> None:
    op.create_table("ledger_heads", _text("owner", 200, key=True), _big("sequence"), _text("hash"))
    op.create_table(
        "ledger_lines",
        _text("owner", 200, key=True),
        _big("sequence", key=True),
        _text("previous"),
        _text("kind", 16),
        _text("subject", 200),
        sa.Column("study", sa.String(200)),
        _big("time"),
        _text("body", None),
        _text("hash"),
        sa.ForeignKeyConstraint(["owner"], ["ledger_heads.owner"], name="ledger_lines_owner"),
        sa.UniqueConstraint("owner", "kind", "subject", name="ledger_lines_once"),
    )
    op.create_index("ledger_lines_study", "ledger_lines", ["owner", "study"])
    op.create_table(
        "ledger_spend",
        _text("owner", 200, key=True),
        _big("cell", key=True),
        _text("nano_epsilon", 80),
        _text("atto_delta", 80),
        _text("atto_rho", 80),
        _big("releases"),
        sa.ForeignKeyConstraint(["owner"], ["ledger_heads.owner"], name="ledger_spend_owner"),
    )
