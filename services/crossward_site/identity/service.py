"""Who this site is: the key it made, the party it was enrolled as, and the coordinator it joined.

A key belongs to one coordinator. The private half lies in a file of mode 0600 in the site's folder and never leaves;
the coordinator's public key is stored at joining and every receipt is verified with it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from sqlalchemy import Connection

from crossward.client.http import HttpClient, Retry
from crossward.errors import InvalidSetting, KeyRevoked, NotReady, RemoteProblem, UnknownParty
from crossward.protocol import keys, versions
from crossward.protocol.constants import Role
from crossward_service.db.engine import read, write
from crossward_service.http.signing import Signer
from crossward_service.ops.machine import Machine
from crossward_site import facts
from crossward_site.site import Site

KEY = "party.key"


@dataclass(frozen=True, slots=True)
class Link:
    """How to reach the coordinator: whom to trust, and whether plain HTTP to another machine is allowed."""

    ca: Path | None = None
    insecure: bool = False

    def client(
        self, url: str, machine: Machine, auth: httpx.Auth | None = None, retry: Retry | None = None
    ) -> HttpClient:
        """A connection from this machine."""
        patience = replace(retry or Retry(), sleep=machine.sleep, uniform=machine.uniform, clock=machine.now)
        return HttpClient(
            url, auth=auth, ca=self.ca, insecure=self.insecure, retry=patience, transport=machine.transport
        )


@dataclass(frozen=True, slots=True)
class Identity:
    """A site that has joined."""

    party: str
    role: Role
    key: Ed25519PrivateKey
    coordinator_url: str
    coordinator_key: str

    @property
    def key_id(self) -> str:
        """The name of the site's key."""
        return keys.key_id(self.key)

    def signer(self, machine: Machine) -> Signer:
        """Signs requests as this party, by the machine's clock."""
        return Signer(self.party, self.key_id, self.key, clock=machine.now, word=machine.word)

    @property
    def verifier(self) -> Ed25519PublicKey:
        """What the coordinator's receipts must verify with."""
        return keys.public_key(self.coordinator_key)

    @classmethod
    def load(cls, site: Site) -> Identity:
        """This site's identity, or `NotReady` before it has joined."""
        with read(site.engine) as connection:
            return cls.get(connection, site.home)

    @classmethod
    def get(cls, connection: Connection, home: Path) -> Identity:
        """The identity of the site in this folder, or `NotReady` before it has joined."""
        identity = cls.find(connection, home)
        if identity is None:
            raise NotReady("This site has joined no coordinator.", "Join with the code that the operator gave you.")
        return identity

    @classmethod
    def find(cls, connection: Connection, home: Path) -> Identity | None:
        """The identity of the site in this folder, once it has joined."""
        known = facts.IDENTITY.get(connection)
        if known is None:
            return None
        key = keys.load(home / known.key_file)
        return cls(known.party, known.role, key, known.coordinator_url, known.coordinator_key)


@dataclass(frozen=True, slots=True)
class Enrolment:
    """What the coordinator answers to a code and a key."""

    party: str
    role: Role
    coordinator_key: str

    @classmethod
    def of(cls, answer: Any) -> Enrolment:
        """An enrolment, or `RemoteProblem` if it is none."""
        try:
            enrolment = cls(str(answer["party"]), Role(answer["role"]), str(answer["coordinator"]["public_key"]))
        except (KeyError, TypeError, ValueError):
            raise RemoteProblem("The coordinator's answer is not an enrolment.", "Check its address.") from None
        keys.public_key(enrolment.coordinator_key)
        return enrolment


def join(site: Site, coordinator_url: str, code: str, roles: Collection[Role], link: Link | None = None) -> Identity:
    """Enrol with a one-time code, under a key made here. Asked again after a lost answer, it shows the same key.

    The code's role must be one that this site may have. At the coordinator a party has one role: a site that serves
    both enrols as the one its code says, and refuses tasks of the other.

    A site that was revoked, or that its coordinator has forgotten, joins the same one again: with a fresh key, and with
    the ledger it has.
    """
    link, url = link or Link(), coordinator_url.rstrip("/")
    with write(site.engine) as connection:
        known = facts.IDENTITY.get(connection)
        if known is not None and known.coordinator_url != url:
            raise InvalidSetting(
                f"This site has joined {known.coordinator_url} as {known.party}.", "A site has one coordinator."
            )
        name = KEY if known is None else facts.NEXT_KEY.get(connection) or _prepare(site, connection)
    if not (site.home / name).exists():
        keys.save(keys.generate(site.machine.secret), site.home / name)
    key = keys.load(site.home / name)
    asked = {"code": code, "public_key": keys.public_text(key), "protocol": versions.newest()}
    with link.client(url, site.machine) as http:
        enrolment = Enrolment.of(http.post("/v1/parties", asked).json())
    if enrolment.role not in roles:
        raise InvalidSetting(
            f"The code enrols a {enrolment.role}, and this is a {' or '.join(roles)}.", "Ask for a code of this role."
        )
    if known is not None and (enrolment.party, enrolment.coordinator_key) != (known.party, known.coordinator_key):
        with write(site.engine) as connection:  # that key is another party's now
            facts.NEXT_KEY.forget(connection)
        raise InvalidSetting(
            f"The code is for {enrolment.party}, or by another coordinator than the one that {known.party} joined.",
            "Ask the operator; a site keeps its name, its coordinator and its ledger.",
        )
    record = facts.StoredIdentity(
        party=enrolment.party,
        role=enrolment.role,
        key_file=name,
        coordinator_url=url,
        coordinator_key=enrolment.coordinator_key,
    )
    with write(site.engine) as connection:
        facts.IDENTITY.put(connection, record)
        facts.NEXT_KEY.forget(connection)
    return Identity.load(site)


def rotate(site: Site, link: Link | None = None) -> Identity:
    """Change to a fresh key. Killed in between, the next call finishes: the new key is on disk before it is sent."""
    identity = Identity.load(site)
    with write(site.engine) as connection:
        name = facts.NEXT_KEY.get(connection) or _prepare(site, connection)
    return _change_key(site, identity, name, link or Link())


def finish_rotation(site: Site, link: Link | None = None) -> bool:
    """Finish a change of key that was under way; False if none is."""
    with read(site.engine) as connection:
        identity, name = Identity.get(connection, site.home), facts.NEXT_KEY.get(connection)
    if name is not None:
        _change_key(site, identity, name, link or Link())
    return name is not None


def _change_key(site: Site, identity: Identity, name: str, link: Link) -> Identity:
    key = keys.load(site.home / name)
    with link.client(identity.coordinator_url, site.machine, identity.signer(site.machine)) as http:
        try:
            http.post(f"/v1/parties/{identity.party}/keys", {"public_key": keys.public_text(key)})
        except (KeyRevoked, UnknownParty):
            _check_counts(site, identity, key, link)
    with write(site.engine) as connection:
        record = facts.IDENTITY.get(connection)
        if record is not None:
            facts.IDENTITY.put(connection, record.model_copy(update={"key_file": name}))
        facts.NEXT_KEY.forget(connection)
    return Identity.load(site)


def _prepare(site: Site, connection: Connection) -> str:
    key = keys.generate(site.machine.secret)
    name = f"party-{keys.key_id(key)}.key"
    keys.save(key, site.home / name)
    facts.NEXT_KEY.put(connection, name)
    return name


def _check_counts(site: Site, identity: Identity, key: Ed25519PrivateKey, link: Link) -> None:
    """The old key is refused: an earlier call got through if the new one is known."""
    renewed = replace(identity, key=key)
    with link.client(identity.coordinator_url, site.machine, renewed.signer(site.machine)) as http:
        http.get(f"/v1/ledger/{identity.party}")
