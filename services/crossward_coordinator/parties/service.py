"""A party joins with a one-time code and a key it made itself, rotates the key, is stopped, reconciled or revoked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from sqlalchemy import Connection, bindparam, delete, insert, select, update

from crossward.errors import Conflict, Forged, KeyRevoked, NotFound, PartyStopped, WrongCode
from crossward.protocol import keys as ed25519
from crossward.protocol import versions
from crossward.protocol.constants import COORDINATOR, Role
from crossward.protocol.states import KeyState, PartyState
from crossward_coordinator.parties.tables import KEY_STATES, PARTY_STATES, Party, StoredKey, invites, keys, parties
from crossward_coordinator.releases import service as releases

# Asked for with every request: written once, and so compiled once.
_PARTY = select(parties).where(parties.c.id == bindparam("party"))
_LOCKED_PARTY = _PARTY.with_for_update(key_share=True)
_KEY = select(keys).where(keys.c.key_id == bindparam("key_id"), keys.c.party == bindparam("party"))


@dataclass(frozen=True, slots=True)
class Invite:
    """A one-time code, shown once."""

    party: str
    role: Role
    code: str
    expires: float


@dataclass(frozen=True, slots=True)
class Enrolment:
    """A party and the key it signs with from now on."""

    party: str
    role: Role
    key_id: str


# -- looking ----------------------------------------------------------------------------------------------------------
def find(connection: Connection, party: str) -> Party | None:
    """A party, if there is one of this name."""
    row = connection.execute(_PARTY, {"party": party}).one_or_none()
    return None if row is None else Party(**row._asdict())


def find_all(connection: Connection, names: Iterable[str]) -> dict[str, Party]:
    """Those of the parties that are enrolled, by name."""
    rows = connection.execute(select(parties).where(parties.c.id.in_(list(names))))
    return {row.id: Party(**row._asdict()) for row in rows}


def get(connection: Connection, party: str) -> Party:
    """A party, or `NotFound`."""
    return _known(find(connection, party), party)


def lock(connection: Connection, party: str) -> Party:
    """A party that nobody else changes until this transaction ends."""
    row = connection.execute(_LOCKED_PARTY, {"party": party}).one_or_none()
    return _known(None if row is None else Party(**row._asdict()), party)


def lock_signer(connection: Connection, party: str) -> Party:
    """A party whose signed request is carried out. It may have been revoked since the signature was verified."""
    signer = lock(connection, party)
    if signer.state is PartyState.REVOKED:
        raise KeyRevoked(f"{party} was revoked.", "Ask the operator for a new invitation.")
    return signer


def page(connection: Connection, after: str, limit: int) -> list[Party]:
    """Parties in the order of their names."""
    query = select(parties).where(parties.c.id > after).order_by(parties.c.id).limit(limit)
    return [Party(**row._asdict()) for row in connection.execute(query)]


def names(connection: Connection) -> list[str]:
    """The names of all parties there ever were."""
    return list(connection.execute(select(parties.c.id).order_by(parties.c.id)).scalars())


def stopped(connection: Connection) -> list[Party]:
    """The parties whose ledgers disagree with the mirror."""
    query = select(parties).where(parties.c.state == PartyState.STOPPED).order_by(parties.c.id)
    return [Party(**row._asdict()) for row in connection.execute(query)]


def check_active(party: Party) -> None:
    """Refuse work to a party that is stopped."""
    if party.state is PartyState.STOPPED:
        raise PartyStopped(
            f"{party.id} is stopped: {party.cause}",
            "Compare both ledgers (crossward ledger verify); an operator then reconciles the party.",
        )


# -- joining ----------------------------------------------------------------------------------------------------------
def invite(connection: Connection, party: str, role: Role, code: str, *, now: float, lasts: float) -> Invite:
    """Let a party join by this code, which nobody can guess. A new one makes earlier ones void."""
    if party == COORDINATOR:
        raise Conflict(f"{COORDINATOR!r} is the coordinator itself.", "Choose another name for the party.")
    known = find(connection, party)
    if known is not None and known.state is not PartyState.REVOKED:
        raise Conflict(
            f"{party} is enrolled already.", "It rotates its key itself; if the key is lost, revoke it first."
        )
    if known is not None and known.role is not role:
        raise Conflict(f"{party} was a {known.role}; its ledger is that role's.", f"Invite it as a {known.role}.")
    _forget_invites(connection, party)
    row = {"code_hash": _hash(code), "party": party, "role": role, "expires": now + lasts}
    connection.execute(insert(invites).values(row))
    return Invite(party, role, code, now + lasts)


def hear(connection: Connection, party: str, protocol: int) -> None:
    """Write down which version of the protocol a party speaks."""
    connection.execute(update(parties).where(parties.c.id == party).values(protocol=protocol))


def agree(protocol: int) -> None:
    """Refuse a site whose version of the protocol has none in common with this coordinator's."""
    versions.agree(protocol, they="the site", we="the coordinator")


def common_version(connection: Connection, names: Iterable[str]) -> int:
    """The newest version of the protocol that all of them can read, and this coordinator."""
    return min((party.version for party in find_all(connection, names).values()), default=versions.newest())


def enrol(connection: Connection, code: str, public_key: str, protocol: int, *, now: float) -> Enrolment:
    """Join with a code and a key. The same code and key again give the same answer: the first may have been lost."""
    agree(protocol)
    key_id = ed25519.key_id(ed25519.public_key(public_key))
    query = select(invites).where(invites.c.code_hash == _hash(code))
    invitation = connection.execute(query.with_for_update()).one_or_none()
    if invitation is None:
        raise WrongCode("Nobody was invited with this code.", "Ask the operator for a new invitation.")
    enrolment = Enrolment(invitation.party, invitation.role, key_id)
    if invitation.used_by is not None:
        key = find_key(connection, invitation.party, key_id)
        if invitation.used_by == public_key and key is not None and key.state is KeyState.ACTIVE:
            return enrolment
        raise WrongCode("This invitation was used before.", "Ask the operator for a new invitation.")
    if invitation.expires < now:
        raise WrongCode("This invitation has expired.", "Ask the operator for a new invitation.")
    _admit(connection, enrolment.party, enrolment.role, protocol, now)
    _add_key(connection, enrolment.party, key_id, public_key, now)
    connection.execute(update(invites).where(invites.c.code_hash == invitation.code_hash).values(used_by=public_key))
    return enrolment


def _admit(connection: Connection, party: str, role: Role, protocol: int, now: float) -> None:
    """A new party, or a revoked one that was invited again: its mirrored ledger goes on where it was."""
    known = find(connection, party)
    if known is None:
        row = {"id": party, "role": role, "state": PartyState.ACTIVE, "cause": "", "since": now}
        connection.execute(insert(parties).values(row | {"protocol": protocol}))
    elif known.state is PartyState.REVOKED:
        _move(connection, party, PartyState.ACTIVE, of=(PartyState.REVOKED,), cause="", since=now)
        hear(connection, party, protocol)
    else:
        raise Conflict(f"{party} is enrolled already.", "It rotates its key itself.")


# -- keys -------------------------------------------------------------------------------------------------------------
def find_key(connection: Connection, party: str, key_id: str) -> StoredKey | None:
    """A key that this party has or had."""
    row = connection.execute(_KEY, {"party": party, "key_id": key_id}).one_or_none()
    return None if row is None else StoredKey(**row._asdict())


def keys_of(connection: Connection, names: Iterable[str]) -> dict[str, list[StoredKey]]:
    """All keys these parties ever had, the newest first."""
    owned: dict[str, list[StoredKey]] = {name: [] for name in names}
    query = select(keys).where(keys.c.party.in_(owned)).order_by(keys.c.created.desc(), keys.c.key_id)
    for row in connection.execute(query):
        owned[row.party].append(StoredKey(**row._asdict()))
    return owned


def release_key(connection: Connection, party: str, key_id: str) -> Ed25519PublicKey:
    """The key of this id, if the party may sign releases with it: one it has now, or had before it rotated."""
    key = find_key(connection, party, key_id)
    if key is None or key.state is KeyState.REVOKED:
        raise Forged(f"{party!r} has no key {key_id} here.", "Sign with a key that is enrolled.")
    return ed25519.public_key(key.public_key)


def rotate(connection: Connection, party: str, public_key: str, *, now: float) -> Enrolment:
    """The new key counts from now on; the old one no longer signs requests, but what it released stays verifiable."""
    signer = lock_signer(connection, party)
    key_id = ed25519.key_id(ed25519.public_key(public_key))
    known = find_key(connection, party, key_id)
    if known is None or known.state is not KeyState.ACTIVE:
        KEY_STATES.move(connection, keys, keys.c.party == party, KeyState.ROTATED, of=KeyState.ACTIVE)
        _add_key(connection, party, key_id, public_key, now)
    return Enrolment(party, signer.role, key_id)


def _add_key(connection: Connection, party: str, key_id: str, public_key: str, now: float) -> None:
    if connection.execute(select(keys.c.key_id).where(keys.c.key_id == key_id)).first():
        raise Conflict("This key was enrolled before.", "Make a new key: one key belongs to one party, once.")
    row = {"key_id": key_id, "party": party, "public_key": public_key, "state": KeyState.ACTIVE, "created": now}
    connection.execute(insert(keys).values(row))


# -- leaving, for a while or for good ---------------------------------------------------------------------------------
def stop(connection: Connection, party: str, cause: str, now: float) -> None:
    """Give a party no more work, and say why. The caller has locked it; it may have been stopped before."""
    before = (PartyState.ACTIVE, PartyState.STOPPED)
    _move(connection, party, PartyState.STOPPED, of=before, cause=cause, since=now)


def note_agreement(connection: Connection, party: str, now: float) -> None:
    """A stopped party has shown a ledger that extends the mirror."""
    connection.execute(update(parties).where(parties.c.id == party).values(agreed=now))


def reconcile(connection: Connection, party: str, now: float) -> None:
    """Let a stopped party go on, once it has shown a ledger that extends the mirror."""
    known = lock(connection, party)
    if known.state is PartyState.ACTIVE:
        return
    if known.state is PartyState.REVOKED:
        raise Conflict(f"{party} was revoked.", "Invite it again.")
    if known.agreed is None:
        raise Conflict(
            f"{party} has not shown a ledger that extends the mirror since it was stopped: {known.cause}",
            "The site compares its ledger with the mirror, repairs it, and sends its last lines again.",
        )
    _move(connection, party, PartyState.ACTIVE, of=(PartyState.STOPPED,), cause="", since=now)


def revoke(connection: Connection, party: str, now: float) -> bool:
    """No key of the party counts any more; True if it was not revoked before. Its ledger's mirror is kept.

    What was accepted was accepted before, also where two machines' clocks differ.
    """
    known = lock(connection, party)
    _forget_invites(connection, party)
    if known.state is PartyState.REVOKED:
        return False
    before = (PartyState.ACTIVE, PartyState.STOPPED)
    _move(connection, party, PartyState.REVOKED, of=before, cause="An operator revoked it.", since=now)
    since = max(now, releases.last_stored(connection, party) or now)
    counted = (KeyState.ACTIVE, KeyState.ROTATED)
    KEY_STATES.move(connection, keys, keys.c.party == party, KeyState.REVOKED, of=counted, revoked=since)
    return True


def _known(party: Party | None, name: str) -> Party:
    if party is None:
        raise NotFound(f"There is no party {name}.", "GET /v1/parties lists them.")
    return party


def _move(
    connection: Connection, party: str, to: PartyState, *, of: tuple[PartyState, ...], cause: str, since: float
) -> None:
    PARTY_STATES.move(connection, parties, parties.c.id == party, to, of=of, cause=cause, since=since, agreed=None)


def _forget_invites(connection: Connection, party: str) -> None:
    connection.execute(delete(invites).where(invites.c.party == party, invites.c.used_by.is_(None)))


def _hash(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
