"""/join, /keys, /reconcile: the site and its coordinator."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from crossward.values import Slug
from crossward_service.db.engine import read, write
from crossward_site import identity, pins, sync
from crossward_site.api.access import OpenSite, Settings, SiteRunner
from crossward_site.api.views import AgreedView, IdentityView, KeysView, PinnedView
from crossward_site.status import identity_of, told

router = APIRouter(tags=["joining"])

KeyId = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")]


class Invitation(BaseModel):
    """Where the coordinator is, and the one-time code its operator gave."""

    model_config = ConfigDict(extra="forbid")

    coordinator: Annotated[str, Field(max_length=1000)]
    code: Annotated[str, Field(min_length=1, max_length=200)]


class PartyKey(BaseModel):
    """A party's public key, learned from the party itself."""

    model_config = ConfigDict(extra="forbid")

    party: Slug
    public_key: Annotated[str, Field(max_length=100)]


@router.post("/join", status_code=201, response_model=IdentityView)
def join(site: OpenSite, settings: Settings, runner: SiteRunner, request: Request, given: Invitation) -> dict[str, Any]:
    """Make a key, and enrol with it."""
    joined = identity.join(site, given.coordinator, given.code, request.app.state.role, settings.link)
    runner.renew()
    return told(joined)


@router.post("/keys/rotate", response_model=IdentityView)
def rotate(site: OpenSite, settings: Settings) -> dict[str, Any]:
    """Change to a fresh key."""
    return told(identity.rotate(site, settings.link))


@router.get("/keys", response_model=KeysView)
def get_keys(site: OpenSite) -> dict[str, Any]:
    """The site's own key, to be told to others, and other parties' keys that this site trusts, and why."""
    own = identity_of(site)
    with read(site.engine) as connection:
        known = pins.pinned(connection)
    return {"own": own and {name: own[name] for name in ("key_id", "public_key")}, "keys": known}


@router.delete("/keys/{party}/{key_id}", response_model=KeysView)
def unpin_key(site: OpenSite, party: Slug, key_id: KeyId) -> dict[str, Any]:
    """Trust a key no longer. A party without any pin left is believed at first use again, unless the policy forbids."""
    with write(site.engine) as connection:
        pins.unpin(connection, party, key_id)
    return get_keys(site)


@router.post("/keys", status_code=201, response_model=PinnedView)
def pin_key(site: OpenSite, given: PartyKey) -> dict[str, Any]:
    """Trust a party's key."""
    with write(site.engine) as connection:
        return {"party": given.party, "key_id": pins.pin(site, connection, given.party, given.public_key)}


@router.post("/reconcile", response_model=AgreedView)
def reconcile(site: OpenSite, runner: SiteRunner) -> dict[str, Any]:
    """Take over what the mirror has beyond this ledger, and go on if the two are one chain."""
    head = sync.reconcile(site, runner.coordinator())
    runner.renew()
    return {"head": {"sequence": head.sequence, "hash": head.hash}}
