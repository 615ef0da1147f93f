"""/join, /keys: the site and its coordinator, its own key and others'."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import Field
from sqlalchemy import Connection

from crossward.protocol import messages
from crossward.protocol.keys import public_text
from crossward.protocol.times import moment
from crossward.values import Slug
from crossward_service.db.engine import read, write
from crossward_service.http.views import Form
from crossward_site.access import OpenSite, Settings, SiteRunner
from crossward_site.identity import pins, service
from crossward_site.identity.service import Identity
from crossward_site.identity.views import IdentityView, KeysView, OwnKeyView, PinnedView, PinView
from crossward_site.site import Site

router = APIRouter(tags=["identity"])

KeyId = Annotated[messages.KeyId, Path()]


class Invitation(Form):
    """Where the coordinator is, and the one-time code its operator gave."""

    coordinator: Annotated[str, Field(max_length=1000)]
    code: Annotated[str, Field(min_length=1, max_length=200)]


class PartyKey(Form):
    """A party's public key, learned from the party itself."""

    party: Slug
    public_key: Annotated[str, Field(max_length=100)]


@router.post("/join", status_code=201)
def join(site: OpenSite, settings: Settings, runner: SiteRunner, invitation: Invitation) -> IdentityView:
    """Make a key, and enrol with it."""
    identity = service.join(site, invitation.coordinator, invitation.code, settings.roles, settings.link)
    runner.renew()
    return IdentityView.of(identity)


@router.post("/keys/rotate")
def rotate(site: OpenSite, settings: Settings) -> IdentityView:
    """Change to a fresh key."""
    return IdentityView.of(service.rotate(site, settings.link))


@router.get("/keys")
def get_keys(site: OpenSite) -> KeysView:
    """The site's own key, to be told to others, and other parties' keys that this site trusts, and why."""
    with read(site.engine) as connection:
        return _keys(site, connection)


@router.delete("/keys/{party}/{key_id}")
def unpin_key(site: OpenSite, party: Slug, key_id: KeyId) -> KeysView:
    """Trust a key no longer. A party without any pin left is believed at first use again, unless the policy forbids."""
    with write(site.engine) as connection:
        pins.unpin(connection, party, key_id)
        return _keys(site, connection)


@router.post("/keys", status_code=201)
def pin_key(site: OpenSite, key: PartyKey) -> PinnedView:
    """Trust a party's key."""
    with write(site.engine) as connection:
        return PinnedView(party=key.party, key_id=pins.pin(connection, key.party, key.public_key, site.clock()))


def _keys(site: Site, connection: Connection) -> KeysView:
    own = Identity.find(connection, site.home)
    trusted = [
        PinView(
            party=pin.party, key_id=pin.key_id, public_key=pin.public_key, origin=pin.origin, since=moment(pin.since)
        )
        for pin in pins.pinned(connection)
    ]
    return KeysView(
        own=None if own is None else OwnKeyView(key_id=own.key_id, public_key=public_text(own.key)), keys=trusted
    )
