"""Tokens, and their hashes as CONSOLE_TOKENS_FILE holds them.

A token is 32 random bytes, which no guess reaches, so one SHA-256 suffices and costs a request nothing.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Final

SHORTEST_TOKEN: Final = 32
"""Characters; a shorter token is never admitted, because it may have been invented by a person."""
LONGEST_TOKEN: Final = 1024
"""Characters; a longer one is refused before it is hashed."""
TOKEN_PREFIX: Final = "openoutbox_"  # noqa: S105 - scanners for leaked secrets know a token by it

_HASH: Final = re.compile(r"sha256:([0-9a-f]{64})")


def new_token() -> str:
    """A random token of 256 bits."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    """The hash of a token, as a file holds it."""
    return f"sha256:{hashlib.sha256(token.encode()).hexdigest()}"


def read_token_hash(text: str) -> str:
    """Read ``sha256:…``. Raises ValueError, without the text, for anything else, such as a token itself."""
    if _HASH.fullmatch(text) is None:
        raise ValueError("a token is stored as its hash, sha256: and 64 digits; relay-cli access token creates both")
    return text
