"""Hashes of passwords (scrypt) and of tokens (SHA-256), as the files of the console hold them.

A password is short and can be guessed, so its hash must be slow and different for equal passwords: scrypt with a salt.
A token is 32 random bytes, which no guess reaches, so one SHA-256 suffices and costs a request nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import unicodedata
from dataclasses import dataclass
from typing import Final

SHORTEST_PASSWORD: Final = 12
"""Characters of a password that ``hash_password`` accepts."""
SHORTEST_TOKEN: Final = 32
"""Characters; a shorter token is never admitted, because it may have been invented by a person."""
TOKEN_PREFIX: Final = "openoutbox_"  # noqa: S105 - scanners for leaked secrets know a token by it
LONGEST_SECRET: Final = 1024
"""Characters of a password or token; a longer one is refused before it is hashed."""

_SCRYPT: Final = re.compile(r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)")
_TOKEN: Final = re.compile(r"sha256:([0-9a-f]{64})")
_LARGEST_MEMORY: Final = 128 * 2**20  # bytes of one verification
_MOST_WORK: Final = 2**22  # N * r * p; about 4 s of one core
_SHORTEST_SALT, _SHORTEST_KEY = 8, 16  # bytes


@dataclass(frozen=True, slots=True)
class Cost:
    """The parameters of scrypt: 2**ln blocks of 128 * r bytes, p times."""

    ln: int = 14
    r: int = 8
    p: int = 5

    @property
    def work(self) -> int:
        """How long a hash takes, in steps."""
        return (1 << self.ln) * self.r * self.p

    @property
    def memory(self) -> int:
        """Bytes that a hash needs."""
        return 128 * self.r * (1 << self.ln)


STRONG: Final = Cost()
"""16 MiB and about 0.2 s of one core: one of the settings that OWASP names for scrypt."""


@dataclass(frozen=True, slots=True, repr=False)
class PasswordHash:
    """A salted hash of a password."""

    cost: Cost
    salt: bytes
    key: bytes

    def matches(self, password: str) -> bool:
        """Whether this is the password; takes as long whether it is or not."""
        return hmac.compare_digest(_derived(password, self.cost, self.salt, len(self.key)), self.key)

    def __str__(self) -> str:
        """The hash as a file holds it."""
        cost = self.cost
        return f"$scrypt$ln={cost.ln},r={cost.r},p={cost.p}${_encoded(self.salt)}${_encoded(self.key)}"


def hash_password(password: str, cost: Cost = STRONG) -> PasswordHash:
    """Hash a password with a random salt."""
    salt = secrets.token_bytes(16)
    return PasswordHash(cost, salt, _derived(password, cost, salt, 32))


def read_password_hash(text: str) -> PasswordHash:
    """Read ``$scrypt$ln=…,r=…,p=…$salt$key``. Raises ValueError, without the text, for anything else."""
    match = _SCRYPT.fullmatch(text)
    if match is None:
        raise ValueError("the hash must begin with $scrypt$; relay-cli access password creates one")
    cost = Cost(*(int(number) for number in match.groups()[:3]))
    within = cost.ln >= 1 and cost.r and cost.p and cost.memory <= _LARGEST_MEMORY and cost.work <= _MOST_WORK
    if not within:
        raise ValueError("the hash asks for more memory or time than the console spends on a login")
    salt, key = _decoded(match[4]), _decoded(match[5])
    if len(salt) < _SHORTEST_SALT or not _SHORTEST_KEY <= len(key) <= 64:
        raise ValueError("the hash is cut off; relay-cli access password creates one")
    return PasswordHash(cost, salt, key)


def new_token() -> str:
    """A random token of 256 bits."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    """The hash of a token, as a file holds it."""
    return f"sha256:{hashlib.sha256(token.encode()).hexdigest()}"


def read_token_hash(text: str) -> str:
    """Read ``sha256:…``. Raises ValueError, without the text, for anything else, such as a token itself."""
    if _TOKEN.fullmatch(text) is None:
        raise ValueError("a token is stored as its hash, sha256: and 64 digits; relay-cli access token creates both")
    return text


def _derived(password: str, cost: Cost, salt: bytes, length: int) -> bytes:
    # NFC: the same letters typed on another system may arrive as other code points.
    text = unicodedata.normalize("NFC", password).encode()
    room = 2 * cost.memory + 2**20  # OpenSSL counts its own blocks too
    return hashlib.scrypt(text, salt=salt, n=1 << cost.ln, r=cost.r, p=cost.p, maxmem=room, dklen=length)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        raise ValueError("the hash is not base64; relay-cli access password creates one") from None
