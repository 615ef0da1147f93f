"""What people do in a federation that runs already: invite, join, open data, set policies.

It is the same whether the services are processes on this machine or containers on networks of their own. Whatever was
done before stays done: a demonstration that is started again goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from crossward.client import Client, SiteClient
from crossward.protocol.constants import Role
from crossward_lab.demo.records import DATASET, MAIN, PERSON

Say = Callable[[str], None]

BUDGET = 5.0
POLICY: dict[str, Any] = {"decide": "approve", "epsilon_per_study": 2.0, "minimum_rows": 200}


@dataclass(slots=True)
class Desk:
    """A hospital, as its steward: `records` is the place where its own service finds its own file."""

    name: str
    client: SiteClient
    records: dict[str, str]

    @property
    def role(self) -> Role:
        """The main hospital is the source."""
        return Role.SOURCE if self.name == MAIN else Role.TARGET


@dataclass(slots=True)
class People:
    """The operator, the lead, the auditor and each hospital's steward, with the coordinator's address."""

    coordinator_url: str
    operator: Client
    lead: Client
    auditor: Client
    desks: list[Desk]

    @property
    def source(self) -> Desk:
        """The main hospital's."""
        return next(desk for desk in self.desks if desk.role is Role.SOURCE)

    @property
    def targets(self) -> list[Desk]:
        """The branches'."""
        return [desk for desk in self.desks if desk.role is Role.TARGET]

    def gather(self, say: Say = lambda text: None) -> None:
        """Bring everybody together, each with data and a policy."""
        say("inviting the hospitals; each makes its own key and joins")
        for desk in self.desks:
            if desk.client.status()["identity"] is None:
                code = self.operator.invite(desk.name, desk.role)["code"]
                desk.client.join(self.coordinator_url, code)
        say("each hospital seals a copy of its own records")
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(_open, self.desks))


def _open(desk: Desk) -> None:
    """Open a hospital's records, and let its policy approve what fits it."""
    if not desk.client.datasets():
        desk.client.open_dataset(DATASET, desk.records, {"person": PERSON}, epsilon=BUDGET)
        desk.client.set_policy(POLICY)
