"""Logins of browsers: a signed cookie that says who logged in, how and when, and the CSRF tokens that belong to it.

The cookie carries the login; the console keeps only which logins have been ended. So a login lasts through a restart
where CONSOLE_SECRET is set, until its file holds another one, and several consoles with one secret share their logins;
what was ended is known to the console that ended it, until it restarts. Without CONSOLE_SECRET each start makes a key
of its own, and logins end with the process.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from itsdangerous import BadData, URLSafeSerializer
from starlette.responses import Response

from relay.console.access.access_role import AccessRole, Identity
from relay.core.origins import LiveSecret

COOKIE: Final = "__Host-openoutbox"
"""A browser accepts this name only with Secure, Path=/ and no Domain, so that no other host can set it."""

SHORTEST_SECRET: Final = 32  # characters

MOST_ENDED: Final = 10_000
"""Ended logins in memory; beyond it every login that is older than half of them ends as well."""

_NONCE: Final = 16  # bytes
_LONGEST_COOKIE: Final = 4096  # bytes; browsers store no longer one


def set_cookie(response: Response, name: str, value: str, seconds: float) -> None:
    """Give the browser a cookie of the console; for 0 seconds, take it away.

    One place for both: a browser refuses a cookie of this name whose attributes are not those that the name asks for.
    """
    response.set_cookie(name, value, max_age=int(seconds), path="/", secure=True, httponly=True, samesite="lax")


class Way(StrEnum):
    """How a login was proved."""

    TOKEN = "token"  # noqa: S105 - the kind, not a token
    PROVIDER = "oidc"


@dataclass(frozen=True, slots=True)
class Login:
    """One browser that has logged in; ``identity`` is None before that, when it has only been given CSRF tokens."""

    id: str
    since: float
    """Seconds since 1970."""
    identity: Identity | None = None
    way: Way | None = None
    mark: str = ""
    """Which line of a file admitted it."""


class Logins:
    """Makes, reads and ends logins. Times are seconds; ``clock`` is the time since 1970."""

    def __init__(self, secret: bytes, lifetime: float, clock: Callable[[], float] = time.time) -> None:
        self._lifetime = lifetime
        self._clock = clock
        self._signing = _Signing(secret, "login")
        self._ended: dict[str, float] = {}
        self._ended_names: dict[tuple[str, Way], float] = {}
        self._ended_before = 0.0

    def new(self, identity: Identity | None = None, way: Way | None = None, mark: str = "") -> Login:
        """A login of its own id, which no earlier cookie has."""
        return Login(secrets.token_urlsafe(16), self._clock(), identity, way, mark)

    def seal(self, login: Login) -> str:
        """The cookie's value."""
        who = login.identity
        return str(
            self._signing.signer().dumps(
                [login.id, login.since, who and who.name, who and int(who.role), login.way, login.mark],
            )
        )

    def open(self, value: str) -> Login | None:
        """The login of a cookie; None for one that is forged, has passed its lifetime or was ended."""
        if len(value) > _LONGEST_COOKIE:
            return None
        try:
            number, since, name, role, way, mark = self._signing.signer().loads(value)
            identity = Identity(name, AccessRole(role)) if name is not None else None
            login = Login(number, since, identity, Way(way) if way is not None else None, mark)
        except (BadData, ValueError, TypeError):  # the last two: a cookie of another version with the same secret
            return None
        return login if self.lives(login) else None

    def lives(self, login: Login) -> bool:
        """Whether the login is within its lifetime and was not ended."""
        if self._clock() - login.since > self._lifetime or login.since <= self._ended_before or login.id in self._ended:
            return False
        if login.identity is None or login.way is None:
            return True
        return login.since > self._ended_names.get((login.identity.name, login.way), 0.0)

    def end(self, login: Login) -> None:
        """End one login."""
        self._ended[login.id] = login.since
        self._forget_expired()
        if len(self._ended) > MOST_ENDED:
            # To forget an ended login would let it live again; so everything as old as the forgotten ones ends.
            self._ended_before = sorted(self._ended.values())[MOST_ENDED // 2]
            self._ended = {number: since for number, since in self._ended.items() if since > self._ended_before}

    def end_all_of(self, login: Login) -> None:
        """End every login of the same name and way that began until now."""
        self.end(login)
        if login.identity is not None and login.way is not None:
            self._ended_names[login.identity.name, login.way] = self._clock()

    def csrf_token(self, login: Login) -> str:
        """A token for the forms of this login. Each call returns another one, so that compression gives none away."""
        nonce = secrets.token_bytes(_NONCE)
        return base64.urlsafe_b64encode(nonce + self._csrf_mac(login, nonce)).decode()

    def csrf_matches(self, login: Login, token: str) -> bool:
        """Whether the token was made for this login."""
        try:
            data = base64.urlsafe_b64decode(token.encode())
        except (binascii.Error, ValueError):
            return False
        nonce, mac = data[:_NONCE], data[_NONCE:]
        return hmac.compare_digest(self._csrf_mac(login, nonce), mac)

    def _csrf_mac(self, login: Login, nonce: bytes) -> bytes:
        key = hmac.digest(self._signing.secret(), b"openoutbox csrf", hashlib.sha256)
        return hmac.digest(key, nonce + login.id.encode(), hashlib.sha256)

    def _forget_expired(self) -> None:
        oldest = self._clock() - self._lifetime
        self._ended = {number: since for number, since in self._ended.items() if since >= oldest}
        self._ended_names = {key: moment for key, moment in self._ended_names.items() if moment >= oldest}


class SealedNotes:
    """Short notes to this console itself that travel in a browser's cookie, such as those of a login in progress."""

    def __init__(self, secret: bytes, purpose: str, lifetime: float, clock: Callable[[], float] = time.time) -> None:
        self._signing = _Signing(secret, purpose)
        self._lifetime = lifetime
        self._clock = clock

    def seal(self, *notes: str) -> str:
        """Sign the notes with the time."""
        return str(self._signing.signer().dumps([self._clock(), *notes]))

    def open(self, value: str, count: int) -> list[str] | None:
        """The notes, ``count`` of them; None for what is forged or has passed its lifetime."""
        try:
            moment, *notes = self._signing.signer().loads(value[:_LONGEST_COOKIE])
        except (BadData, ValueError, TypeError):
            return None
        if len(notes) != count or not 0 <= self._clock() - moment <= self._lifetime:
            return None
        return [str(note) for note in notes]


class _Signing:
    """Signs with the secret as it is now: what another one has signed is forged."""

    def __init__(self, secret: bytes, purpose: str) -> None:
        self._live = LiveSecret(secret.decode(errors="surrogateescape"), SHORTEST_SECRET)
        self._salt = f"openoutbox {purpose}"

    def secret(self) -> bytes:
        """The bytes of the secret."""
        return self._live.present().encode(errors="surrogateescape")

    def signer(self) -> URLSafeSerializer:
        """What signs and checks."""
        options = {"digest_method": hashlib.sha256, "key_derivation": "hmac"}
        return URLSafeSerializer(self.secret(), salt=self._salt, signer_kwargs=options)
