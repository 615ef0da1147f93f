"""Is this coordinator well? Looks at its machine, key, database and mirrors, and at itself from outside."""

from __future__ import annotations

import time
from contextlib import ExitStack

from sqlalchemy import Connection, Engine, text

from crossward.version import __version__
from crossward_coordinator import identity
from crossward_coordinator.database import MIGRATIONS
from crossward_coordinator.identity import Identity
from crossward_coordinator.ledger.service import count_verified
from crossward_coordinator.parties import service as parties
from crossward_coordinator.settings import CoordinatorSettings
from crossward_service.db.engine import read
from crossward_service.ops import examination, peer
from crossward_service.ops.findings import Findings, Notes


def examine(settings: CoordinatorSettings) -> Findings:
    """Examine a coordinator, running or not."""
    findings = Findings()
    examination.examine_surroundings(findings, settings, "coordinator")
    with ExitStack() as stack:
        engine = examination.examine_database(findings, settings, MIGRATIONS, stack)
        own = _key(findings, settings, engine)
        if engine is not None:
            with read(engine) as connection:
                _mirrors(findings, connection)
                _parties(findings, connection)
                if engine.dialect.name == "postgresql":
                    _clock(findings, connection)
    _outside(findings, settings, own)
    return findings


def _key(findings: Findings, settings: CoordinatorSettings, engine: Engine | None) -> Identity | None:
    own = None
    with findings.looking_at("key") as note:
        own = identity.load(settings.key_path)
        if engine is None:
            note.unknown("the database that should know the key cannot be used")
            return own
        with read(engine) as connection:
            identity.check(connection, own)
        note.ok(f"Key {own.key_id} is the one of this database; nobody else can read it.")
    return own


def _mirrors(findings: Findings, connection: Connection) -> None:
    with findings.looking_at("ledgers") as note:
        mirrors, lines = count_verified(connection)
        note.ok(f"{mirrors} mirrors with {lines} lines in all, each follows and adds up.")


def _parties(findings: Findings, connection: Connection) -> None:
    with findings.looking_at("parties") as note:
        stopped = parties.stopped(connection)
        for party in stopped:
            note.warning(f"{party.id} is stopped: {party.cause}", "See docs/operations.md on ledgers that disagree.")
        if not stopped:
            note.ok("None is stopped.")


def _clock(findings: Findings, connection: Connection) -> None:
    """Several workers share one database: its clock is the one they have in common."""
    with findings.looking_at("clock") as note:
        there = connection.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one()
        off = abs(time.time() - float(there))
        difference = f"This clock and the database's differ by {off:.0f} s."
        if off >= peer.DRIFT_SECONDS:
            note.warning(difference, "Set both clocks (NTP): sites' signatures are judged by this one.")
        else:
            note.ok(difference)


def _outside(findings: Findings, settings: CoordinatorSettings, own: Identity | None) -> None:
    """The coordinator as its sites see it, where it says under which address they do."""
    if not settings.public_url:
        with findings.looking_at("versions") as note:
            note.ok(f"This is {__version__}.")
        return
    outside = peer.examine(findings, settings.public_url, settings.tls_ca, insecure=settings.insecure)
    with findings.looking_at("public address") as note:
        _is_own(note, settings, outside, own)


def _is_own(note: Notes, settings: CoordinatorSettings, outside: peer.Peer | None, own: Identity | None) -> None:
    if outside is None or own is None:
        note.unknown("the coordinator did not answer there, or has no key here")
    elif outside.public_key != own.public_key:
        note.fault(f"Another coordinator answers at {settings.public_url}.", "Correct public_url, DNS or the proxy.")
    else:
        note.ok(f"{settings.public_url} leads to this coordinator.")
