"""What a site refuses, approves by itself, or asks its steward. The policy is public numbers about public numbers.

A task is refused if a limit says no, also one that reads no records: it decides which model a clinic uses. Within the
limits `decide` says whether the site goes on by itself (`approve`) or waits for the steward (`ask`, the default). What
a steward approved is measured once more as it is charged, with all that was charged meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter
from sqlalchemy import Connection

from crossward.privacy.budget import Budget, Cost
from crossward.protocol.ledger.lines import LineKind, ReserveBody
from crossward.protocol.ledger.rules import Balance
from crossward.study import Study
from crossward.values import Count, Name, NotNegative, Section
from crossward_site.facts import Fact
from crossward_site.site import Site

MOST_PATTERNS = 1_000


class Decision(StrEnum):
    """What the policy says of a task."""

    REFUSE = "refuse"
    ASK = "ask"
    APPROVE = "approve"


class Policy(Section):
    """The steward's rules. None: no limit beyond the person's budget.

    `epsilon_per_study` bounds what one study may take of any person here, `epsilon_lifetime` what all studies together
    may; `minimum_rows` are rows a release must rest on; `methods`, `studies` and `leads` (patterns as in "diabetes-*")
    list what is allowed. A lead is who the coordinator says it is; one that it does not name is on no list.
    """

    decide: Literal[Decision.ASK, Decision.APPROVE] = Decision.ASK
    epsilon_per_study: NotNegative | None = None
    epsilon_lifetime: NotNegative | None = None
    minimum_rows: Count = 0
    methods: Annotated[tuple[Name, ...], Field(max_length=MOST_PATTERNS)] | None = None
    studies: Annotated[tuple[Name, ...], Field(max_length=MOST_PATTERNS)] | None = None
    leads: Annotated[tuple[Name, ...], Field(max_length=MOST_PATTERNS)] | None = None
    pinned_keys_only: bool = False

    @classmethod
    def load(cls, connection: Connection) -> Policy:
        """The site's policy; without one, everything is asked."""
        return _POLICY.get(connection) or cls()

    def save(self, connection: Connection) -> None:
        """Make this the site's policy."""
        _POLICY.put(connection, self)


_POLICY = Fact("policy", TypeAdapter(Policy))


@dataclass(frozen=True, slots=True)
class Request:
    """What a study asks of a site: cost to a person, rows it rests on, what the study took before, the site's balance.

    Rows are None where no dataset is asked, or none is chosen yet; the balance is None where nothing is charged.
    """

    study: Study
    cost: Cost
    rows: int | None
    taken: Cost
    balance: Balance | None
    lead: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do with a task, and in public words why."""

    decision: Decision
    words: str = ""


def decide(policy: Policy, request: Request) -> Verdict:
    """Refuse, ask or approve."""
    for words in _objections(policy, request):
        return Verdict(Decision.REFUSE, words)
    return Verdict(policy.decide)


def _objections(policy: Policy, request: Request) -> list[str]:
    study, words = request.study, []
    if policy.methods is not None and study.method.name not in policy.methods:
        words.append(f"The site does not run the method {study.method.name}.")
    if policy.studies is not None and not any(fnmatchcase(study.id, pattern) for pattern in policy.studies):
        words.append("The study is not on the site's list.")
    if policy.leads is not None and not any(fnmatchcase(request.lead, pattern) for pattern in policy.leads):
        words.append("The study's lead is not on the site's list.")
    if request.rows is not None and request.rows < policy.minimum_rows:
        words.append(f"The site releases from at least {policy.minimum_rows} rows.")
    asked = request.cost.nano_epsilon
    limit = policy.epsilon_per_study
    if limit is not None and asked and request.taken.nano_epsilon + asked > _limit(limit):
        words.append(f"The site allows epsilon {limit:g} per study.")
    limit = policy.epsilon_lifetime
    spent = 0 if request.balance is None else request.balance.spend.nano_epsilon
    if limit is not None and asked and spent + asked > _limit(limit):
        words.append(f"The site allows epsilon {limit:g} in all.")
    return words


def _limit(epsilon: float) -> int:
    """A limit in nano-epsilon, rounded down as a budget is; a charge is rounded up."""
    return Budget.of(epsilon).nano_epsilon


# -- by the ledger --------------------------------------------------------------------------------------------------
def judge(connection: Connection, study: Study, lead: str, rows: int | None = None) -> Verdict:
    """The policy's word on a task that costs nothing, or whose dataset is not chosen: its method, study and lead."""
    return decide(Policy.load(connection), Request(study, Cost(0), rows, Cost(0), None, lead))


def judge_charge(
    site: Site, connection: Connection, study: Study, lead: str, body: ReserveBody, rows: int | None
) -> Verdict:
    """The policy's word on a charge, by what the ledger says in this transaction."""
    paid = site.ledger.find(connection, LineKind.RESERVE, body.task) is not None  # then it costs nothing more
    request = Request(
        study=study,
        cost=Cost(0) if paid else body.cost,
        rows=rows,
        taken=site.ledger.taken_by(connection, body.study, but=body.task),
        balance=site.ledger.balance(connection),
        lead=lead,
    )
    return decide(Policy.load(connection), request)


def charge(site: Site, connection: Connection, study: Study, lead: str, body: ReserveBody, rows: int | None) -> Verdict:
    """Reserve inside the caller's transaction, unless the policy refuses; the same again is charged once."""
    site.ledger.extend(connection, ())  # takes the ledger's lock: what is judged stays so until it is charged
    verdict = judge_charge(site, connection, study, lead, body, rows)
    if verdict.decision is not Decision.REFUSE:
        site.append(connection, body)
    return verdict
