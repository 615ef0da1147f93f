"""Tokens for people's roles: ``cw_<role>_<43 base64url characters>``, stored as SHA-256.

A token carries 256 random bits, so a plain hash is enough: there is nothing to guess, and a stolen table opens
nothing. The role inside the text is for the eyes of whoever finds one; what the token may do is what the table says.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from fastapi import Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from crossward.errors import InvalidSetting, MissingToken, WrongRole, WrongToken

_TOKEN = re.compile(r"cw_[a-z]+_[A-Za-z0-9_-]{43}")
_BEARER = HTTPBearer(auto_error=False, scheme_name="token", description="A role's token, cw_<role>_...")
_FIX = "Send Authorization: Bearer with a token of the right role."


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

    def holder(request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)]) -> Holder:
        if given is None:
            raise MissingToken("This needs a token.", _FIX)
        secret = given.credentials
        known = lookup(request, hash_token(secret)) if _TOKEN.fullmatch(secret) else None
        if known is None or not same_token(secret, known.stored_hash):
            raise WrongToken("Nobody here holds this token.", _FIX)
        request.state.caller = known.name
        if known.role not in roles:
            raise WrongRole(f"The role {known.role} may not do this.", f"Ask as {' or '.join(roles)}.")
        return known

    return holder
