"""Calls to the coordinator, typed. The site calls out; nothing calls in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from crossward.client.http import Answer, Retry
from crossward.errors import CrosswardError, Forged, NotReady, PartyStopped, RemoteProblem, UnknownVersion
from crossward.protocol import versions
from crossward.protocol.constants import Role
from crossward.protocol.envelopes import SignedReceipt
from crossward.protocol.ledger.lines import Head, Line
from crossward.protocol.messages import Message, Receipt
from crossward.protocol.states import KeyState, PartyState
from crossward.protocol.tasks import DeclineMessage, HeartbeatMessage, ResultMessage, TaskMessage
from crossward.values import LARGEST
from crossward_service.ops.machine import HERE, Machine
from crossward_site.identity.service import Identity, Link

_JSON = {"Content-Type": "application/json"}


@contextmanager
def _understood() -> Iterator[None]:
    """An answer that is not what it should be is a named error, and a stop over there is none here.

    Whether this site's ledger is sound is for the site to find. A coordinator that gives it no work is asked again.
    """
    try:
        yield
    except PartyStopped as error:
        raise NotReady(f"The coordinator gives this site no work: {error.cause}", error.fix) from error
    except CrosswardError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        raise RemoteProblem(
            f"The coordinator's answer cannot be read ({type(error).__name__}).", "Check its address and version."
        ) from error


@dataclass(frozen=True, slots=True)
class OfferedKey:
    """A party's public key as the coordinator tells it. `revoked`: what it accepted up to then counts."""

    public_key: str
    revoked: datetime | None

    @classmethod
    def read(cls, answer: dict[str, Any]) -> OfferedKey | None:
        """The key; None for one that was revoked without a time, of which nothing counts."""
        time = answer.get("revoked")
        if KeyState(answer["state"]) is KeyState.REVOKED and time is None:
            return None
        return cls(str(answer["public_key"]), None if time is None else datetime.fromisoformat(time).astimezone(UTC))


@dataclass(frozen=True, slots=True)
class Standing:
    """What the coordinator says of a party; its keys without those that were revoked nobody knows when."""

    role: Role
    state: PartyState
    cause: str
    keys: tuple[OfferedKey, ...]

    @classmethod
    def read(cls, answer: dict[str, Any]) -> Standing:
        """A party as the coordinator lists it."""
        offered = (OfferedKey.read(key) for key in answer.get("keys", ()))
        keys = tuple(key for key in offered if key is not None)
        return cls(Role(answer["role"]), PartyState(answer["state"]), str(answer.get("cause") or ""), keys)


def _next(after: int, page: Sequence[Any]) -> list[int]:
    return list(range(after + 1, after + 1 + len(page)))


class Coordinator:
    """The coordinator, as one site calls it."""

    def __init__(
        self, identity: Identity, machine: Machine = HERE, link: Link | None = None, retry: Retry | None = None
    ) -> None:
        self.identity = identity
        self._http = (link or Link()).client(
            identity.coordinator_url, machine, identity.signer(machine), retry or Retry(attempts=3, longest=5.0)
        )
        self._version: int | None = None

    @property
    def version(self) -> int:
        """The version of the protocol to speak: asked for once, and again after a refusal for its sake."""
        if self._version is None:
            with _understood():
                newest = self._http.get("/v1/coordinator").json()["protocol"]
            self._version = versions.agree(newest, they="the coordinator", we="this site")
        return self._version

    def next_task(self, wait: float) -> TaskMessage | None:
        """A task with a lease, or None after `wait` seconds without one."""
        with _understood():
            params = {"wait": wait, "protocol": versions.newest()}
            answer = self._http.request("POST", "/v1/tasks/next", params=params, wait=wait)
            return None if answer.status == 204 or not answer.body else TaskMessage.from_json(answer.body)

    def heartbeat(self, beat: HeartbeatMessage) -> bool:
        """Keep the lease; False if the coordinator no longer wants the task."""
        with _understood():
            answer = self._send(f"/v1/tasks/{beat.task}/heartbeat", beat, idempotent=False).json() or {}
            return not (isinstance(answer, dict) and answer.get("cancelled"))

    def decline(self, message: DeclineMessage) -> None:
        """Say that a task will not be done, and why."""
        with _understood():
            self._send(f"/v1/tasks/{message.task}/decline", message, idempotent=True)

    def result(self, message: ResultMessage) -> SignedReceipt:
        """Hand a finished task in. The same content again gets the same receipt."""
        with _understood():
            sent = self._send(f"/v1/tasks/{message.task}/result", message, idempotent=True)
            return SignedReceipt.from_json(sent.body)

    def send_lines(self, lines: Sequence[Line]) -> Receipt:
        """Hand ledger lines in without a result; gives the receipt, once its signature is right."""
        body = {"lines": [line.text for line in lines]}
        with _understood():
            answer = self._http.post(f"/v1/ledger/{self.identity.party}/lines", body, idempotent=True)
            receipt = SignedReceipt.from_json(answer.body).verify(self.identity.verifier)
        if receipt.party != self.identity.party:
            raise Forged("The receipt is another party's.", "The coordinator must send this site's.")
        return receipt

    def mirror(self, after: int) -> list[Line]:
        """The mirror's lines after this one, up to the head it had when first asked, and no further."""
        lines: list[Line] = []
        with _understood():
            page, end = self._page(after)
            while after + len(lines) < end:
                if not page or [line.sequence for line in page] != _next(after + len(lines), page):
                    raise RemoteProblem(
                        f"The mirror's lines after {after + len(lines)} are not those that follow.",
                        "The coordinator's operator verifies the mirror.",
                    )
                lines += page
                if after + len(lines) < end:
                    page, _ = self._page(after + len(lines))
        return lines[: max(0, end - after)]

    def _page(self, after: int) -> tuple[list[Line], int]:
        """Lines after this one, and how many the mirror has in all."""
        answer = self._http.get(f"/v1/ledger/{self.identity.party}", params={"after": after}).json()
        return [Line.from_text(line) for line in answer["lines"]], int(answer["head"]["sequence"])

    def mirror_head(self) -> Head:
        """Where the mirror ends, as the coordinator says without a signature: to look at, not to act on."""
        with _understood():
            answer = self._http.get(f"/v1/ledger/{self.identity.party}", params={"after": LARGEST, "limit": 1}).json()
            return Head(int(answer["head"]["sequence"]), str(answer["head"]["hash"]))

    def keys_of(self, party: str) -> list[OfferedKey]:
        """The keys that the coordinator says a party has or had; none that was revoked nobody knows when."""
        standing = self.standing(party)
        return [] if standing is None else list(standing.keys)

    def accepted(self, release: str) -> datetime:
        """When the coordinator accepted a release, by the receipt it signed then."""
        with _understood():
            answer = self._http.get(f"/v1/releases/{release}/receipt")
            receipt = SignedReceipt.from_json(answer.body).verify(self.identity.verifier)
        if receipt.release != release:
            raise Forged("The receipt is for another release.", "The coordinator must send the one it was asked for.")
        return receipt.time

    def standing(self, party: str) -> Standing | None:
        """What the coordinator says of a party; None if it knows none of this name."""
        after = ""
        with _understood():
            while True:
                page = self._http.get("/v1/parties", params={"after": after, "limit": 500}).json()
                for item in page["items"]:
                    if item["party"] == party:
                        return Standing.read(item)
                if page["next"] is None or str(page["next"]) <= after:  # pages are in the order of names
                    return None
                after = str(page["next"])

    def _send(self, path: str, message: Message, *, idempotent: bool) -> Answer:
        """Send a message in the version that both sides speak."""
        body = message.model_copy(update={"version": self.version}).canonical()
        try:
            return self._http.request("POST", path, body=body, headers=_JSON, idempotent=idempotent)
        except UnknownVersion:
            self._version = None  # it speaks another one than when it was asked
            raise

    def close(self) -> None:
        """Close the connections."""
        self._http.close()
