"""Names and numbers that every party must have in common, each written once."""

from __future__ import annotations

from enum import StrEnum

COORDINATOR = "coordinator"
"""The name the coordinator signs with; no party may have it."""

LINES = "ledger"
"""The task that a receipt for ledger lines without a result names."""

PAID_AUC = "auc:"
"""How the names of paid AUCs begin in a ledger. No task may have such an id: it would stand on another's charge."""

CELLS = 20
"""A site's seats lie in this many permanent cells."""

MOST_CELLS = 1000
"""A ledger knows no more cells."""

MOST_NANO_EPSILON = 10**15
"""An epsilon of a million: beyond it is a typing error, not a cost."""

MOST_ATTO_DELTA = 10**18
"""A delta of 1."""

MOST_BUDGET_NANO_EPSILON = 100 * 10**9
"""An epsilon of 100, the largest of a budget: beyond it nothing is promised that anyone could feel."""

MOST_BUDGET_ATTO_DELTA = 10**15
"""A delta of 0.001, the largest of a budget: beyond it one person in a thousand may be shown as they are."""

MOST_STUDY_BYTES = 4_000_000
"""A study's canonical form has no more."""

LATEST = 10**14
"""The last time of a ledger line, in milliseconds since 1970: the year 5138."""

LINE_BYTES = 1 << 16
"""More than the longest line of a ledger has."""

MOST_LINES = 10_000
"""As many lines of a ledger are sent at once."""


DIGEST = r"[0-9a-f]{64}"
"""A SHA-256, in lower-case hexadecimal."""

TASK_ID = r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}"
"""The name of a task."""

KEY_ID = r"[0-9a-f]{16}"
"""The name of a key: the first digits of the SHA-256 of its public half."""

PUBLIC_KEY = r"[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]"
"""An Ed25519 public key, in base64url without padding: of the last character four bits count."""


class Role(StrEnum):
    """What a party is in a study."""

    SOURCE = "source"
    TARGET = "target"


class TaskKind(StrEnum):
    """What a task asks for. `aggregate` is the coordinator's own."""

    TRAIN_SOURCE = "train-source"
    AGGREGATE = "aggregate"
    TRAIN_TARGET = "train-target"

    @classmethod
    def of(cls, role: Role) -> TaskKind:
        """The task of a party in this role."""
        return cls.TRAIN_SOURCE if role is Role.SOURCE else cls.TRAIN_TARGET

    @property
    def role(self) -> Role:
        """Whose cells, balls and costs the task is about: an aggregate is made of the sources' models."""
        return Role.TARGET if self is TaskKind.TRAIN_TARGET else Role.SOURCE


class FilterKind(StrEnum):
    """How the charges of a cell add up: by their epsilons, or as zero-concentrated losses."""

    BASIC = "basic"
    ZCDP = "zcdp"


class DeclineReason(StrEnum):
    """Why a site does not do a task, as it tells the coordinator: each rests on public numbers alone."""

    POLICY = "policy"
    """The site's policy refuses the study."""
    STEWARD = "steward"
    """The steward said no."""
    BUDGET = "budget"
    """A cell would pass its budget."""
    NO_DATA = "no-data"
    """The site has no dataset for this study."""
    UNFIT_DATA = "unfit-data"
    """The site has too few records, by public counts."""
    UNFIT_INPUTS = "unfit-inputs"
    """A source's release is missing, forged, or does not fit the study."""
    UNSUPPORTED = "unsupported"
    """The task is not one that this site could do."""


def task_id(study_hash: str, kind: TaskKind, party: str) -> str:
    """The same for the same study, work and party.

    A coordinator restored from a backup asks for what it asked before, and a site that has done it answers with the
    same bytes.
    """
    return f"{study_hash[:32]}.{kind}.{party}"


def certificate_id(study_hash: str) -> str:
    """The id of a study's certificate: known to everyone who has the study, before it is issued."""
    return f"cert-{study_hash[:24]}"
