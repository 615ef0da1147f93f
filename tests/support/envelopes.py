"""Envelopes as tests see them: plain JSON."""

from __future__ import annotations

import base64
import hashlib
from typing import Any


def digest_of(envelope: dict[str, Any]) -> str:
    """The digest by which what is inside is named."""
    return hashlib.sha256(base64.b64decode(envelope["payload"])).hexdigest()
