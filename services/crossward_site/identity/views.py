"""What a site answers about itself and the keys it knows."""

from __future__ import annotations

from typing import Self

from crossward.protocol.constants import Role
from crossward.protocol.keys import public_text
from crossward.protocol.times import Time
from crossward_service.http.views import View
from crossward_site.identity.service import Identity
from crossward_site.identity.tables import PinOrigin


class IdentityView(View):
    """A site that has joined: who it is, the key it signs with, and the key it checks receipts with."""

    party: str
    role: Role
    key_id: str
    public_key: str
    coordinator: str
    coordinator_key: str

    @classmethod
    def of(cls, identity: Identity) -> Self:
        """An identity without its secret."""
        return cls(
            party=identity.party,
            role=identity.role,
            key_id=identity.key_id,
            public_key=public_text(identity.key),
            coordinator=identity.coordinator_url,
            coordinator_key=identity.coordinator_key,
        )


class OwnKeyView(View):
    """The key that this site signs with: what it tells others, so that they can pin it."""

    key_id: str
    public_key: str


class PinView(View):
    """A key that this site trusts. origin: `steward`, or `coordinator` where it was believed at first use."""

    party: str
    key_id: str
    public_key: str
    origin: PinOrigin
    since: Time


class KeysView(View):
    """The site's own key, once it has joined, and other parties' keys that it trusts."""

    own: OwnKeyView | None
    keys: list[PinView]


class PinnedView(View):
    """A key that is now trusted. Compare its id with the party itself."""

    party: str
    key_id: str
