"""Checks tokens and passwords against their files. Which part of a login is wrong shows in no answer and no time."""

from __future__ import annotations

import hashlib
import hmac
from functools import cache
from pathlib import Path
from typing import Final

from relay.console.access.files import AccessFile, AccessLine
from relay.console.access.passwords import (
    LONGEST_SECRET,
    SHORTEST_TOKEN,
    STRONG,
    Cost,
    PasswordHash,
    hash_password,
    hash_token,
    read_password_hash,
    read_token_hash,
)
from relay.console.access.roles import AccessRole, Identity

TOKENS_FILE: Final = "CONSOLE_TOKENS_FILE"
USERS_FILE: Final = "CONSOLE_USERS_FILE"

AnyLine = AccessLine[str] | AccessLine[PasswordHash]
"""A line of either file."""


class KnownTokens:
    """The tokens of CONSOLE_TOKENS_FILE; several may have one name, so that one can replace another."""

    def __init__(self, path: Path) -> None:
        """Reads the file. Raises ConfigError."""
        self._file: AccessFile[str] = AccessFile(TOKENS_FILE, path, read_token_hash)

    def match(self, token: str) -> AccessLine[str] | None:
        """The line of this token; None for any other text."""
        if not SHORTEST_TOKEN <= len(token) <= LONGEST_SECRET:
            return None
        sent = hash_token(token)
        # Every line is compared, so that the time says nothing about which one is like the one sent.
        matching = [line for line in self._file.lines() if hmac.compare_digest(line.hash, sent)]
        return matching[0] if matching else None

    def line(self, name: str, mark: str) -> AccessLine[str] | None:
        """The line of this name and mark; None once it has left the file."""
        return next((one for one in self._file.lines() if one.identity.name == name and mark_of(one) == mark), None)


class ApiToken:
    """The token of API_TOKEN, which admits to the API alone, as a reader. It keeps a hash, never the token."""

    identity: Final = Identity("API_TOKEN", AccessRole.READER)

    def __init__(self, token: str) -> None:
        self._hash = hashlib.sha256(token.encode()).digest()

    def matches(self, sent: str) -> bool:
        """Whether a header holds this token. HTTP carries bytes, which the server reads as Latin-1."""
        # Hashes have one length, so that the time says nothing about the token's either.
        return hmac.compare_digest(hashlib.sha256(sent.encode("latin-1", "replace")).digest(), self._hash)


class KnownUsers:
    """The users of CONSOLE_USERS_FILE and their passwords."""

    def __init__(self, path: Path) -> None:
        """Reads the file. Raises ConfigError."""
        self._file: AccessFile[PasswordHash] = AccessFile(USERS_FILE, path, read_password_hash, unique_names=True)

    def match(self, name: str, password: str) -> AccessLine[PasswordHash] | None:
        """The line of this user when the password is right. Takes a core for the time of one scrypt, always.

        An unknown name costs what the costliest line of the file costs.
        """
        if len(password) > LONGEST_SECRET:
            return None
        lines = self._file.lines()
        line = next((one for one in lines if one.identity.name == name), None)
        if line is None:
            cost = max((one.hash.cost for one in lines), key=lambda one: one.work, default=STRONG)
            _decoy(cost).matches(password)
            return None
        return line if line.hash.matches(password) else None

    def has(self, name: str) -> bool:
        """Whether the file has a user of this name; for logs alone."""
        return any(one.identity.name == name for one in self._file.lines())

    def line(self, name: str, mark: str) -> AccessLine[PasswordHash] | None:
        """The line of this name and mark; None once it has left the file, or the password has changed."""
        return next((one for one in self._file.lines() if one.identity.name == name and mark_of(one) == mark), None)


def mark_of(line: AnyLine) -> str:
    """What tells this line from one of another password or token, and says nothing about either."""
    return hashlib.sha256(b"mark:" + str(line.hash).encode()).hexdigest()[:32]


@cache
def _decoy(cost: Cost) -> PasswordHash:
    return hash_password("the password of no user", cost)
