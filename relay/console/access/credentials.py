"""Checks tokens against CONSOLE_TOKENS_FILE and API_TOKEN. How much of a wrong one is right shows in no time."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from typing import Final

from relay.console.access.access_file import AccessFile, AccessLine
from relay.console.access.access_role import AccessRole, Identity
from relay.console.access.tokens import LONGEST_TOKEN, SHORTEST_TOKEN, hash_token
from relay.core.origins import LiveSecret


class KnownTokens:
    """The tokens of CONSOLE_TOKENS_FILE; several may have one name, so that one can replace another."""

    def __init__(self, path: Path) -> None:
        """Reads the file. Raises ConfigError."""
        self._file = AccessFile(path)

    def match(self, token: str) -> AccessLine | None:
        """The line of this token; None for any other text."""
        if not SHORTEST_TOKEN <= len(token) <= LONGEST_TOKEN:
            return None
        sent = hash_token(token)
        # Every line is compared, so that the time says nothing about which one is like the one sent.
        matching = [line for line in self._file.lines() if hmac.compare_digest(line.hash, sent)]
        return matching[0] if matching else None

    def line(self, name: str, mark: str) -> AccessLine | None:
        """The line of this name and mark; None once it has left the file."""
        return next((one for one in self._file.lines() if one.identity.name == name and mark_of(one) == mark), None)


class ApiToken:
    """The token of API_TOKEN, which admits to the API alone, as a reader; its file is read again for each request."""

    identity: Final = Identity("API_TOKEN", AccessRole.READER)

    def __init__(self, token: str) -> None:
        self._secret = LiveSecret(token, SHORTEST_TOKEN)

    def matches(self, sent: str) -> bool:
        """Whether a header holds this token. HTTP carries bytes, which the server reads as Latin-1."""
        # Hashes have one length, so that the time says nothing about the token's either.
        known = hashlib.sha256(self._secret.present().encode()).digest()
        return hmac.compare_digest(hashlib.sha256(sent.encode("latin-1", "replace")).digest(), known)


def mark_of(line: AccessLine) -> str:
    """What tells this line from one of another token, and says nothing about either."""
    return hashlib.sha256(b"mark:" + line.hash.encode()).hexdigest()[:32]
