"""`Client`: a coordinator, as its operator, a study's lead or an auditor sees it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crossward.client.http import Connected, Json
from crossward.protocol.constants import Role

if TYPE_CHECKING:
    from crossward.protocol.ledger.lines import Line


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in a study."""

    number: int
    time: str
    kind: str
    party: str | None
    text: str


class Client(Connected):
    """A coordinator. What a call may do depends on the token's role."""

    def about(self) -> Json:
        """The coordinator's public key, version and time; needs no token."""
        return self._get("/v1/coordinator")

    # -- parties (operator) -----------------------------------------------------------------------------------------
    def invite(self, party: str, role: Role) -> Json:
        """A one-time code for a party to join with."""
        return self._post("/v1/parties/invites", {"party": party, "role": role})

    def parties(self) -> list[Json]:
        """Who takes part, in which state, and when they were last heard of."""
        return self._pages("/v1/parties", "items")

    def revoke(self, party: str) -> Json:
        """End a party's part: its keys no longer count."""
        answer: Json = self._http.request("DELETE", f"/v1/parties/{party}").json()
        return answer

    def reconcile(self, party: str) -> Json:
        """Let a stopped party go on, once its ledger extends the mirror again."""
        return self._post(f"/v1/parties/{party}/reconcile")

    # -- studies (lead) ---------------------------------------------------------------------------------------------
    def create(self, study: str) -> Json:
        """Check and store a study file (YAML text)."""
        return self._post("/v1/studies", study.encode(), idempotent=True)

    def studies(self) -> list[Json]:
        """Every study, with its state."""
        return self._pages("/v1/studies", "items")

    def study(self, study: str) -> Json:
        """One study: state, cause, tasks, and whom it waits for."""
        return self._get(f"/v1/studies/{study}")

    def put_public_set(self, study: str, csv: bytes) -> Json:
        """The aggregator's public records, for the feature method."""
        answer: Json = self._http.request("PUT", f"/v1/studies/{study}/public-set", body=csv).json()
        return answer

    def start(self, study: str) -> Json:
        """Give the parties their tasks."""
        return self._post(f"/v1/studies/{study}/start")

    def cancel(self, study: str, reason: str = "") -> Json:
        """End a study. Charges stand."""
        return self._post(f"/v1/studies/{study}/cancel", {"reason": reason})

    def watch(self, study: str, after: int = 0) -> Iterator[Event]:
        """What happens in a study, as it happens, until it ends."""
        for line in self._http.lines(f"/v1/studies/{study}/events", params={"after": after}):
            if line.startswith("data: "):
                data: dict[str, Any] = json.loads(line.removeprefix("data: "))
                yield Event(data["number"], data["time"], data["kind"], data["party"], data["text"])

    def document(self, study: str) -> str:
        """The study in its canonical form, byte for byte: what its digest is of."""
        return self._http.get(f"/v1/studies/{study}/document").body.decode()

    def certificate(self, study: str) -> str:
        """The signed privacy certificate of a study that has ended, byte for byte."""
        return self._http.get(f"/v1/studies/{study}/certificate").body.decode()

    def certificate_text(self, study: str) -> str:
        """The certificate as a text for people."""
        answer = self._http.get(f"/v1/studies/{study}/certificate", params={"form": "text"})
        return answer.body.decode()

    def release(self, digest: str) -> str:
        """A signed release, byte for byte."""
        return self._http.get(f"/v1/releases/{digest}").body.decode()

    def receipt(self, digest: str) -> str:
        """The coordinator's signed receipt of a release, byte for byte."""
        return self._http.get(f"/v1/releases/{digest}/receipt").body.decode()

    # -- ledgers (auditor) ------------------------------------------------------------------------------------------
    def ledger(self, party: str) -> list[Line]:
        """The mirror of a party's ledger."""
        from crossward.protocol.ledger.lines import Line  # noqa: PLC0415 - it loads scipy, which no other call needs

        return [Line.from_text(line) for line in self._pages(f"/v1/ledger/{party}", "lines")]

    def verify(self, party: str) -> Json:
        """Whether the mirror of a party's ledger holds, and if not, its first line that is wrong."""
        return self._get(f"/v1/ledger/{party}/verify")
