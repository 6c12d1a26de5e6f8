"""Finds out who sends a request, and keeps logins: what the middleware and the pages of logins share.

A request proves itself by one of these, in this order: its Authorization header (a token, or a name and a password),
its login cookie, or, where nothing is configured, by coming from this machine. A header that is wrong is refused and
never falls back to a cookie. API_TOKEN is a token for paths of the API alone.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final

from anyio import CapacityLimiter, to_thread
from starlette.datastructures import Headers
from starlette.requests import Request

from relay.console.access.credentials import AnyLine, ApiToken, KnownTokens, KnownUsers, mark_of
from relay.console.access.limit import PER_ADDRESS, Buckets, LoginLimit, network_of
from relay.console.access.logins import COOKIE, Login, Logins, Way
from relay.console.access.options import AccessOptions
from relay.console.access.origin import client_address
from relay.console.access.refusal import AccessRefused, too_many, unauthenticated
from relay.console.access.roles import AccessRole, Identity

logger = logging.getLogger(__name__)

LOCAL: Final = Identity("local", AccessRole.ADMIN)
"""Who sends a request where nothing proves it: a process on this machine."""

API_PATHS: Final = "/api/"
"""Where API_TOKEN admits."""

_HASHES_AT_ONCE: Final = 2
_MOST_WAITING: Final = 20  # requests that wait for one of these
_MOST_REMEMBERED: Final = 1000  # passwords


class Proof(StrEnum):
    """What proves an identity to the console with each request."""

    TOKEN = "token"  # noqa: S105 - the kind, not a token
    API_TOKEN = "API_TOKEN"  # noqa: S105 - likewise
    PASSWORD = "password"  # noqa: S105 - likewise
    COOKIE = "cookie"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Visitor:
    """The sender of a request; ``identity`` is None for one who has not logged in."""

    proof: Proof
    identity: Identity | None
    login: Login | None = None
    mark: str = ""
    """Which line of a file proves it, where a header does."""


class AccessGate:
    """Who may come in. One for an application."""

    def __init__(self, options: AccessOptions) -> None:
        """Reads the files. Raises ConfigError."""
        self.options = options
        self.logins = Logins(options.secret, options.lifetime)
        self.tokens = KnownTokens(options.tokens_file) if options.tokens_file is not None else None
        self.users = KnownUsers(options.users_file) if options.users_file is not None else None
        self._api_token = ApiToken(options.api_token) if options.api_token is not None else None
        self._limit = LoginLimit()
        self._logged = Buckets(PER_ADDRESS)
        self._remembered: OrderedDict[bytes, str] = OrderedDict()
        self._memory_key = secrets.token_bytes(32)

    def address(self, request: Request) -> str:
        """The client's address."""
        peer = request.client.host if request.client is not None else ""
        return client_address(peer, request.headers, self.options.trusted_proxies)

    async def identify(self, request: Request) -> Visitor:
        """Who sends the request. Raises AccessRefused for a wrong Authorization header."""
        values = request.headers.getlist("authorization")
        if len(values) > 1:
            raise AccessRefused(400, "send one Authorization header")
        if values:
            return await self._by_header(values[0], request)
        login = self._login_of(request.headers)
        if not self.options.authenticates:
            return Visitor(Proof.NONE, LOCAL, login)
        identity = self._identity_of(login)
        if identity is None and login is not None and login.identity is not None:
            login = None  # its line has left the file
        return Visitor(Proof.COOKIE, identity, login)

    def admits(self, visitor: Visitor) -> bool:
        """Whether the visitor is still who it was: an answer that goes on for hours asks this for each part."""
        match visitor.proof:
            case Proof.NONE | Proof.API_TOKEN:
                return True  # as long as the process lives
            case Proof.COOKIE:
                login = visitor.login
                return login is not None and self.logins.lives(login) and self._identity_of(login) == visitor.identity
        way = Way.TOKEN if visitor.proof is Proof.TOKEN else Way.PASSWORD
        line = self._line(way, visitor.identity.name if visitor.identity is not None else "", visitor.mark)
        return line is not None and line.identity == visitor.identity

    async def check_password(self, name: str, password: str, request: Request) -> AnyLine:
        """The line of this name and password. Raises AccessRefused when either is wrong, and for too many attempts."""
        address = self.address(request)
        self._take(address, name)
        if self._hashing.statistics().tasks_waiting >= _MOST_WAITING:
            raise too_many(1)
        line = None
        if self.users is not None:
            line = await to_thread.run_sync(self.users.match, name, password, limiter=self._hashing)
        if line is None:
            # A name that is not in the file may be a password in the wrong field.
            known = self.users is not None and self.users.has(name)
            self._log_refusal(address, Way.PASSWORD, name if known else None)
            raise unauthenticated(self.challenges(request))
        self._limit.give_back(address, name)
        return line

    def check_token(self, token: str, request: Request) -> AnyLine:
        """The line of this token, sent by the form. Raises AccessRefused as ``check_password`` does."""
        address = self.address(request)
        self._take(address, "")
        line = self.tokens.match(token) if self.tokens is not None else None
        if line is None:
            self._log_refusal(address, Way.TOKEN, None)
            raise unauthenticated(self.challenges(request))
        self._limit.give_back(address, "")
        return line

    def challenges(self, request: Request) -> str:
        """What WWW-Authenticate offers; Basic to programs alone, since a browser would open its own dialog for it."""
        basic = self.users is not None and "sec-fetch-site" not in request.headers
        return 'Bearer realm="openoutbox"' + (', Basic realm="openoutbox", charset="UTF-8"' if basic else "")

    @cached_property
    def _hashing(self) -> CapacityLimiter:
        return CapacityLimiter(_HASHES_AT_ONCE)  # belongs to the event loop, so not before the first request

    async def _by_header(self, value: str, request: Request) -> Visitor:
        scheme, _, rest = value.partition(" ")
        match scheme.lower():
            case "bearer":
                line: AnyLine | None = self.tokens.match(rest.strip()) if self.tokens is not None else None
                proof = Proof.TOKEN
                if line is None and self._is_api_token(rest.strip(), request):
                    return Visitor(Proof.API_TOKEN, ApiToken.identity)
                if line is None:
                    self._log_wrong_token(self.address(request))
            case "basic":
                line = await self._by_basic(rest.strip(), request)
                proof = Proof.PASSWORD
            case _:
                line = None
        if line is None:
            raise unauthenticated(self.challenges(request))
        return Visitor(proof, line.identity, mark=mark_of(line))

    def _is_api_token(self, sent: str, request: Request) -> bool:
        path = request.scope["path"]
        return self._api_token is not None and path.startswith(API_PATHS) and self._api_token.matches(sent)

    async def _by_basic(self, value: str, request: Request) -> AnyLine | None:
        try:
            name, colon, password = base64.b64decode(value, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            return None
        if not colon or self.users is None:
            return None
        # Each request carries the password, and scrypt is slow on purpose: what was right lately is remembered, by a
        # key that no other process has, until its line changes.
        memory = hmac.digest(self._memory_key, f"{name}:{password}".encode(), hashlib.sha256)
        line: AnyLine | None = self.users.line(name, self._remembered.get(memory, ""))
        if line is None:
            line = await self.check_password(name, password, request)
            self._remembered[memory] = mark_of(line)
            if len(self._remembered) > _MOST_REMEMBERED:
                self._remembered.popitem(last=False)
        return line

    def _login_of(self, headers: Headers) -> Login | None:
        """The login of the cookie. Two cookies of the name are none: one of them may be planted."""
        pairs = [pair.strip().partition("=") for pair in ";".join(headers.getlist("cookie")).split(";")]
        values = [value for name, _, value in pairs if name == COOKIE]
        return self.logins.open(values[0]) if len(values) == 1 else None

    def _identity_of(self, login: Login | None) -> Identity | None:
        """Who the login is now: a line that changed its role or left the file counts at once."""
        if login is None or login.identity is None or login.way is None:
            return None
        if login.way is Way.PROVIDER:
            return login.identity if self.options.provider is not None else None
        line = self._line(login.way, login.identity.name, login.mark)
        return line.identity if line is not None else None

    def _line(self, way: Way, name: str, mark: str) -> AnyLine | None:
        if way is Way.TOKEN:
            return self.tokens.line(name, mark) if self.tokens is not None else None
        return self.users.line(name, mark) if self.users is not None else None

    def _take(self, address: str, name: str) -> None:
        wait = self._limit.take(address, name)
        if wait > 0:
            raise too_many(wait)

    def _log_wrong_token(self, address: str) -> None:
        network = network_of(address)
        if self._logged.wait(network) == 0:  # a client with an old token repeats it without end
            self._logged.take(network)
            self._log_refusal(address, Way.TOKEN, None)

    def _log_refusal(self, address: str, way: Way, name: str | None) -> None:
        logger.warning(
            "a login by %s from %s was refused",
            way,
            address or "an unknown address",
            extra={"action": "login_refused", "name_known": name is not None, **({"login": name} if name else {})},
        )
