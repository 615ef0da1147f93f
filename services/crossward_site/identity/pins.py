"""Other parties' public keys, as this site knows them.

A target verifies a source's release itself. It takes the source's key from its own pins: set by the steward, who has
it from the source (by telephone, on paper), or else believed from the coordinator the first time it is needed. From
then on only the steward adds keys of that party: a rotated key is a new one, and to the site it looks no different
from one that the coordinator made up. With `pinned_keys_only` the steward adds the first one too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from sqlalchemy import Connection, delete, insert, select

from crossward.errors import Conflict, Forged, NotFound
from crossward.protocol import keys
from crossward.protocol.constants import COORDINATOR
from crossward.protocol.envelopes import SignedRelease
from crossward.study.wire import KeyOf
from crossward_service.db.engine import read, write
from crossward_site.coordinator import Coordinator
from crossward_site.identity.tables import PinOrigin, pins
from crossward_site.policy.service import Policy
from crossward_site.site import Site


@dataclass(frozen=True, slots=True)
class Pin:
    """A party's public key, and why this site trusts it since when."""

    party: str
    key_id: str
    public_key: str
    origin: PinOrigin
    since: float


def pin(connection: Connection, party: str, public_key: str, now: float, origin: PinOrigin = PinOrigin.STEWARD) -> str:
    """Trust a key of a party; gives the key's id."""
    key_id = keys.key_id(keys.public_key(public_key))
    row = connection.execute(select(pins).where(pins.c.party == party, pins.c.key_id == key_id)).one_or_none()
    if row is None:
        values = {"party": party, "key_id": key_id, "public_key": public_key, "origin": origin, "since": now}
        connection.execute(insert(pins).values(values))
    elif row.public_key != public_key:
        raise Conflict(f"{party} has another key of the id {key_id} here.", "Compare the keys with the party itself.")
    return key_id


def pinned(connection: Connection) -> list[Pin]:
    """Every key this site trusts, and why."""
    rows = connection.execute(select(pins).order_by(pins.c.party, pins.c.since)).mappings()
    return [Pin(**row) for row in rows]


def unpin(connection: Connection, party: str, key_id: str) -> None:
    """Trust a key no longer. Without any pin left, the party's next key is believed at first use again."""
    if not connection.execute(delete(pins).where(pins.c.party == party, pins.c.key_id == key_id)).rowcount:
        raise NotFound(f"No key {key_id} of {party} is pinned here.", "GET /v1/keys lists them.")


def has_pins(connection: Connection, party: str) -> bool:
    """Whether the site has its own idea of a party's keys."""
    return connection.execute(select(pins.c.key_id).where(pins.c.party == party)).first() is not None


def key_finder(
    site: Site, coordinator: Coordinator, releases: Iterable[SignedRelease] = (), *, aggregate: bool = False
) -> KeyOf:
    """Finds the key that verifies a release: a pinned one, or one believed at first use where the policy allows it.

    The coordinator's own key verifies the aggregate and nothing else, and nobody else signs an aggregate. Of
    `releases`, those signed with a key that was revoked since are believed too, if they had been accepted before.
    """
    digests = {(release.party, release.key_id): release.digest for release in releases}

    def find(party: str, name: str) -> Ed25519PublicKey:
        if aggregate != (party == COORDINATOR):
            raise Forged(f"{party!r} does not sign {'aggregates' if aggregate else 'models'}.", "Refuse it.")
        if aggregate:
            return coordinator.identity.verifier
        digest = digests.get((party, name))
        known = _known(site, party, name) or _believed(site, coordinator, party, name, digest)
        if known is None:
            raise Forged(
                f"{party!r} has no key {name} that this site trusts.",
                f"Ask {party} itself, not the coordinator, for the key it signs with. If that is {name}, pin it "
                f"(crossward site pin {party} PUBLIC_KEY), then approve the task; if not, refuse the task.",
            )
        return known

    return find


def _believed(
    site: Site, coordinator: Coordinator, party: str, name: str, release: str | None
) -> Ed25519PublicKey | None:
    """A party's first key, from the coordinator. Of all that it offers, only the one that signed is pinned.

    A revoked key is never pinned: it verifies a release that was accepted before, and nothing else.
    """
    with read(site.engine) as connection:
        if Policy.load(connection).pinned_keys_only or has_pins(connection, party):
            return None
    offered = [key for key in coordinator.keys_of(party) if keys.key_id(keys.public_key(key.public_key)) == name]
    if not offered:
        return None
    key = offered[0]
    if key.revoked is not None:
        counts = release is not None and coordinator.accepted(release) <= key.revoked
        return keys.public_key(key.public_key) if counts else None
    with write(site.engine) as connection:
        if not has_pins(connection, party):  # nobody pinned one meanwhile
            pin(connection, party, key.public_key, site.clock(), PinOrigin.COORDINATOR)
    return _known(site, party, name)


def _known(site: Site, party: str, name: str) -> Ed25519PublicKey | None:
    query = select(pins.c.public_key).where(pins.c.party == party, pins.c.key_id == name)
    with read(site.engine) as connection:
        text = connection.execute(query).scalar_one_or_none()
    return None if text is None else keys.public_key(text)
