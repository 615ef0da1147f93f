"""Ed25519 keys: making, keeping and naming them.

A private key is a PEM file that only its owner can read. A public key travels as 43 base64url characters of its 32
raw bytes; its id is the first 16 hex digits of their SHA-256.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from crossward.errors import InvalidSetting, UnsafeKeyFile
from crossward.protocol.constants import PUBLIC_KEY


def generate(secret: Callable[[int], bytes] = os.urandom) -> Ed25519PrivateKey:
    """A fresh key from the operating system's randomness, or from another source of secret bytes."""
    return Ed25519PrivateKey.from_private_bytes(secret(32))


def save(key: Ed25519PrivateKey, path: Path) -> None:
    """Write a key durably to a new file of mode 0600; a file that is there already is never overwritten."""
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        # The mode is given at creation: a file made first and closed later could be opened in between.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise UnsafeKeyFile(
            f"{path} exists already.", "Move the old key away first; a lost key cannot be remade."
        ) from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(pem)
        file.flush()
        os.fsync(file.fileno())


def load(path: Path) -> Ed25519PrivateKey:
    """Read a key, unless others could have read it or the group could have changed it.

    The group may read: orchestrators mount secrets so.
    """
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            pem = file.read()
    except OSError as error:
        raise UnsafeKeyFile(
            f"The key file {path} cannot be read: {error.strerror}.", "Check its path and owner."
        ) from None
    if os.name == "posix" and mode & 0o027:
        raise UnsafeKeyFile(
            f"The key file {path} has mode {mode:04o}: others can use it.",
            f"Run chmod 600 {path}; if anyone else had access to this machine, rotate the key.",
        )
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise UnsafeKeyFile(
            f"The key file {path} does not hold an unencrypted Ed25519 key.", "Make one by joining a coordinator."
        )
    return key


def public_text(key: Ed25519PrivateKey | Ed25519PublicKey) -> str:
    """The public key as it travels: 43 base64url characters."""
    public = key.public_key() if isinstance(key, Ed25519PrivateKey) else key
    return base64.urlsafe_b64encode(public.public_bytes_raw()).decode().rstrip("=")


def public_key(text: str) -> Ed25519PublicKey:
    """The inverse of `public_text`; one key has exactly one spelling."""
    if re.fullmatch(PUBLIC_KEY, text):
        key = Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(text + "="))
        if public_text(key) == text:
            return key
    raise InvalidSetting("This is not an Ed25519 public key.", "Give its 32 raw bytes as 43 base64url characters.")


def key_id(key: Ed25519PrivateKey | Ed25519PublicKey) -> str:
    """The name of a key: the first 16 hex digits of the SHA-256 of its raw public bytes."""
    public = key.public_key() if isinstance(key, Ed25519PrivateKey) else key
    return hashlib.sha256(public.public_bytes_raw()).hexdigest()[:16]
