"""Who is asking: a person by a token, or a party by its signature.

A token is ``cw_<role>_<43 base64url characters>``, stored as SHA-256. It carries 256 random bits, so a plain hash is
enough: there is nothing to guess, and a stolen table opens nothing. The role inside the text is for the eyes of whoever
finds one; what the token may do is what the table says. Signatures are those of `crossward_service.http.signing`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

from anyio import CapacityLimiter, to_thread
from fastapi import Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from crossward.errors import InvalidSetting, MissingToken, WrongRole, WrongToken
from crossward_service.http.signing import KeyLookup, NonceStore, verify_body, verify_head

_TOKEN = re.compile(r"cw_[a-z]+_[A-Za-z0-9_-]{43}")
_BEARER = HTTPBearer(auto_error=False, scheme_name="token", description="A role's token, cw_<role>_...")
_FIX = "Send Authorization: Bearer with a token of the right role."


# -- people --------------------------------------------------------------------------------------------------------
class NewToken(NamedTuple):
    """A token at its birth: the secret is shown once, the hash is kept."""

    secret: str
    stored_hash: str


@dataclass(frozen=True)
class Holder:
    """Who holds a token: `name` for the log, `role` for what may be done."""

    name: str
    role: str
    stored_hash: str


TokenLookup = Callable[[Request, str], Holder | None]


def new_token(role: str) -> NewToken:
    """A fresh token of a role."""
    if not re.fullmatch(r"[a-z]+", role):
        raise InvalidSetting(f"{role!r} is not a role.", "A role is a word in small letters.")
    secret = f"cw_{role}_{secrets.token_urlsafe(32)}"
    return NewToken(secret, hash_token(secret))


def hash_token(secret: str) -> str:
    """What is stored of a token."""
    return hashlib.sha256(secret.encode()).hexdigest()


def same_token(secret: str, stored_hash: str) -> bool:
    """Whether a token is the stored one, in time that does not tell how nearly."""
    return hmac.compare_digest(hash_token(secret).encode(), stored_hash.encode())


def require(*roles: str, lookup: TokenLookup) -> Callable[..., Holder]:
    """A dependency that gives the holder of the request's token, if the role is one of `roles`.

    `lookup(request, stored_hash)` finds the holder of a hash. FastAPI runs the dependency on a thread, so it may ask
    a database.
    """

    def holder(request: Request, sent: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)]) -> Holder:
        if sent is None:
            raise MissingToken("This needs a token.", _FIX)
        secret = sent.credentials
        known = lookup(request, hash_token(secret)) if _TOKEN.fullmatch(secret) else None
        if known is None or not same_token(secret, known.stored_hash):
            raise WrongToken("Nobody here holds this token.", _FIX)
        request.state.caller = known.name
        if known.role not in roles:
            raise WrongRole(f"The role {known.role} may not do this.", f"Ask as {' or '.join(roles)}.")
        return known

    return holder


# -- parties -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Trust:
    """What a service believes signatures by: enrolled keys and spent nonces.

    Both may wait for a database. `threads`, if given, are those they wait on, so that those of the routes stay free.
    """

    key_of: KeyLookup
    nonces: NonceStore
    threads: CapacityLimiter | None = None


def require_party(
    trust: Callable[[Request], Trust], *, clock: Callable[[Request], float] = lambda _: time.time()
) -> Callable[[Request], Awaitable[str]]:
    """A dependency that gives the id of the party that signed the request, or refuses it.

    The signature covers the body's digest, so it is verified before the body is read: a stranger's body never is, and
    while a slow one comes in nothing is held. `trust` finds the service's keys and nonces through the request
    (`request.app.state`), so that a router can be written before the app exists. A nonce is spent even if the request
    fails later: it must be spent outside the request's own transaction.
    """

    async def party(request: Request) -> str:
        believed = trust(request)
        check_head = partial(
            verify_head,
            method=request.method,
            path=request.scope["raw_path"].decode("ascii", "replace"),
            query=request.scope["query_string"].decode("ascii", "replace"),
            headers=request.headers,
            key_of=believed.key_of,
            now=clock(request),
        )
        head = await to_thread.run_sync(check_head, limiter=believed.threads)
        body = await request.body()
        check_body = partial(verify_body, head, body, nonces=believed.nonces, now=clock(request))
        request.state.caller = await to_thread.run_sync(check_body, limiter=believed.threads)
        return str(request.state.caller)

    return party
